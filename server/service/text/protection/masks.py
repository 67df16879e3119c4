"""Protected spans behind words that a model copies: `PH1` for `{name}`, and back."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from server.service.text.protection.symbols import MARKS, QUOTES
from server.service.text.segment import Segment, Span, Target

DEFAULT_MASKS = ("PH{n}", "Q{n}", "XX{n}")
"""Of bundles whose exporter has not measured any, in this order."""

_REMNANT = re.compile(r"(?<![^\W\d_])[^\W\d_]+\d+")
"""What a garbled mask leaves behind: letters with digits."""
_OPEN_ENDED = re.compile(r"(?:[^\w\s]|\S+[.@/\\_])\S*[^\W\d_]")
"""Placeholders, handles, addresses and files that letters behind would become part of: `%s`, `:name`."""


def masks_for(text: str, spans: int, template: str) -> list[str]:
    """Choose masks that do not stand in a text.

    Args:
        text: of the sentence.
        spans: how many are needed.
        template: with `{n}` for a number.

    Returns:
        As many different masks.
    """
    masks: list[str] = []
    number = 1
    while len(masks) < spans:
        mask = template.replace("{n}", str(number))
        if mask not in text:
            masks.append(mask)
        number += 1
    return masks


def masked(segment: Segment, masks: Sequence[str]) -> str:
    """Write a sentence for the model.

    Args:
        segment: a sentence.
        masks: one for each of its spans.
    """
    if not masks:
        return segment.text
    return segment.edited(
        [(span.start, span.end, mask) for span, mask in zip(segment.spans, masks, strict=True)]
    ).text


def unmasked(output: str, segment: Segment, masks: Sequence[str]) -> Target | None:
    """Put spans in the place of their masks.

    Args:
        output: what the model wrote.
        segment: the sentence.
        masks: as `masked` was given.

    Returns:
        The translation; None unless every mask is there exactly once, and no other word looks like one. An
        apostrophe parts an ending from what it would lengthen: `:name's`.
    """
    if not masks:
        return Target(output)
    places = []
    likes = {re.escape(mask.rstrip("0123456789")) for mask in masks}
    alike = re.compile(rf"(?:{'|'.join(likes)})\d+")
    if len(alike.findall(output)) > len(masks) + len(alike.findall(segment.text)):
        return None
    for span, mask in zip(segment.spans, masks, strict=True):
        found = [match.span() for match in re.finditer(rf"(?<![^\W\d_]){re.escape(mask)}(?!\d)", output)]
        if len(found) != 1:
            return None
        places.append((*found[0], span))
    text: list[str] = []
    spans: list[Span] = []
    position = length = 0
    places.sort(key=lambda place: place[0])
    borders = [0, *(offset for start, end, _ in places for offset in (start, end)), len(output)]
    written = (output[start:end] for start, end in zip(borders[::2], borders[1::2], strict=True))
    strange = [word for part in written for word in _REMNANT.findall(part)]
    if strange:
        # What stands in a span is no word of the sentence: a model that learned masks may write `PH1` twice.
        free = segment.edited([(span.start, span.end, " ") for span in segment.spans]).text
        if any(word not in free for word in strange):
            return None
    for start, end, span in places:
        own = segment.text[span.start : span.end]
        text += output[position:start], own
        length += start - position
        spans.append(replace(span, start=length, end=length + len(own)))
        length += len(own)
        position = end
        if own.endswith(".") and output[end : end + 1] == "." != output[end + 1 : end + 2]:
            position += 1  # `5 p.m.` ends a sentence, too
        elif output[end : end + 1].isalpha() and _OPEN_ENDED.fullmatch(own):
            text.append("'")
            length += 1
    return Target("".join([*text, output[position:]]), tuple(spans))


def between(segment: Segment) -> list[Segment | Span]:
    """Cut a sentence at its spans, and at quotes and brackets whose other one is beyond a span.

    Args:
        segment: a sentence.

    Returns:
        Its spans and the parts around them, without tags, in order; empty parts are left out.
    """
    text = segment.text
    ends = [0, *(offset for span in segment.spans for offset in (span.start, span.end)), len(text)]
    borders = {*ends, *_lone_marks(text, zip(ends[::2], ends[1::2], strict=True))} - {0, len(text)}
    starts = {span.start: span for span in segment.spans}
    parts: list[Segment | Span] = []
    position = 0
    for part in replace(segment, tags=()).cut(sorted(borders)):
        span = starts.get(position)
        parts.append(part if span is None else span)
        position += len(part.text)
    return parts


def _lone_marks(text: str, parts: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Find where the quotes and brackets begin and end that are no pairs in their part of a text."""
    for start, end in parts:
        marks = [match.span() for match in MARKS.finditer(text, start, end)]
        counts = Counter(text[first:last] for first, last in marks)
        if (
            any(counts[one] != counts[other] for one, other in ("()", "[]", "{}"))
            or sum(counts[mark] for mark in QUOTES) % 2
        ):
            yield from (offset for mark in marks for offset in mark)
