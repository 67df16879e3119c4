"""Which words of a translation stand for which of its source, as byte ranges of the client's texts."""

import html
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from server.service.text.explanation.attention import Looks
from server.service.text.explanation.matching import Matching
from server.service.text.explanation.word_links import SentenceWords
from server.service.text.model_text import ModelText
from server.service.text.protection.words import Word
from server.service.text.protection.writing import escaped
from server.service.text.segment import Escape, Segment, Tag, Target
from server.service.text.sentences import Delivered, TranslatedSentence

Range = tuple[int, int]
_ENTITY = re.compile(r"&#?\w{1,32};?")


@dataclass(frozen=True, slots=True)
class Alignment:
    """A word of a text and one of its translation that stands for it.

    Attributes:
        source: first byte and the one behind the last, of the text in UTF-8.
        target: the same of the translation.
        weight: from 0 to 1, geometric mean of the probabilities that the lexical tables give the two words,
            one given the other, or the share of attention if that is more; 1 for what is the same on both
            sides by rule: equal names and numbers, protected parts, punctuation.
    """

    source: Range
    target: Range
    weight: float


def align_text(
    text: str,
    pieces: Sequence[str | TranslatedSentence],
    model: ModelText,
    words: Sequence[SentenceWords | None],
    looks: Sequence[Looks],
    *,
    is_html: bool = False,
) -> list[Alignment]:
    """Align a text with its translation, the best one.

    Args:
        text: as the client sent it.
        pieces: of its document, all of them translated with `Way.keep`.
        model: that translated them.
        words: of each piece that is a sentence.
        looks: the model's attention of each; nothing where the lexical tables speak alone.
        is_html: whether the text is HTML.

    Returns:
        In order of the source. A word whose place in the text cannot be told is left out; see `Matching`.
    """
    source = _Source(text, pieces, is_html=is_html)
    found: list[tuple[Range, Range, float]] = []
    at = 0  # in the translation
    for piece, begins, own, seen in zip(pieces, source.begins, words, looks, strict=True):
        if isinstance(piece, str):
            at += len(piece)
            continue
        if (kept := piece.delivered) is not None and own is not None:
            ours, theirs = source.layout_of[begins], lay_out_target(kept)
            for one, other, weight in own.links(model, seen):
                range_in_source = source.range(begins, ours, one)
                if range_in_source is not None:
                    low, high = theirs.range(other)
                    found.append((range_in_source, (at + low, at + high), weight))
        at += len(piece.texts[0])
    if not found:
        return []
    target = "".join(piece if isinstance(piece, str) else piece.texts[0] for piece in pieces)
    to_source, to_target = byte_offsets(text), byte_offsets(target)
    return sorted(
        (
            Alignment(
                (int(to_source[low]), int(to_source[high])),
                (int(to_target[first]), int(to_target[last])),
                weight,
            )
            for (low, high), (first, last), weight in found
        ),
        key=lambda one: (one.source, one.target),
    )


def composed(first: Sequence[Alignment], second: Sequence[Alignment]) -> list[Alignment]:
    """Join the alignments of two translations, the second one of what the first one gave.

    Args:
        first: into the text between, in any order.
        second: out of it, in order of its source.

    Returns:
        A link for each two that meet in the text between, with the product of their weights.
    """
    starts = [one.source[0] for one in second]
    found: dict[tuple[Range, Range], float] = {}
    for one in first:
        low, high = one.target
        for index in range(bisect_left(starts, low), len(second)):
            if starts[index] >= high:
                break
            key, weight = (one.source, second[index].target), one.weight * second[index].weight
            found[key] = max(weight, found.get(key, 0.0))
    return [Alignment(*key, weight) for key, weight in sorted(found.items())]


@dataclass(frozen=True, slots=True)
class Layout:
    """A sentence as it is written, tags and all.

    Attributes:
        written: the characters.
        starts: for each character of the plain text, where in `written` what stands for it begins; None if
            both are the same.
        ends: for each, where it ends.
    """

    written: str
    starts: list[int] | None = None
    ends: list[int] | None = None

    def range(self, word: Word) -> Range:
        """Find a word of the plain text."""
        if self.starts is None or self.ends is None:
            return word.start, word.end
        return self.starts[word.start], self.ends[word.end - 1]


def lay_out_target(kept: Delivered) -> Layout:
    """Lay a translation out as `writing.write` writes it."""
    return _lay_out(kept.target, kept.placed, kept.segment.escape)


def _lay_out_source(segment: Segment) -> Layout:
    return _lay_out(
        Target(segment.text, segment.spans), [(tag.at, tag) for tag in segment.tags], "none", is_source=True
    )


def _lay_out(
    target: Target, placed: Sequence[tuple[int, Tag]], escape: Escape, *, is_source: bool = False
) -> Layout:
    text = target.text
    if not placed and escape == "none" and all(span.output is None for span in target.spans):
        return Layout(text)
    parts: list[str] = []
    starts, ends = [0] * len(text), [0] * len(text)
    length = at = tag = 0
    outputs = {span.start: span for span in target.spans if span.output is not None}
    while at <= len(text):
        while tag < len(placed) and placed[tag][0] <= at:
            output, breaks_line = placed[tag][1].output, placed[tag][1].breaks_line
            if breaks_line and parts and parts[-1][-1:] == " ":
                parts[-1] = parts[-1][:-1]
                length -= 1
            parts.append(_unescaped(output) if is_source else output)
            length += len(parts[-1])
            tag += 1
        if at == len(text):
            break
        span = outputs.get(at)
        end = at + 1 if span is None else max(span.end, at + 1)
        own = escaped(text[at:end], escape) if span is None or span.output is None else span.output
        own = _unescaped(own) if is_source and span is not None else own
        starts[at:end] = [length] * (end - at)
        length += len(own)
        ends[at:end] = [length] * (end - at)
        parts.append(own)
        at = end
    return Layout("".join(parts), starts, ends)


class _Source:
    """A client's text, and where the pieces of its document stand in it.

    Attributes:
        begins: of each piece, the offset in all pieces written one after the other.
        layout_of: of the sentence that begins at an offset.
    """

    def __init__(self, text: str, pieces: Sequence[str | TranslatedSentence], *, is_html: bool) -> None:
        self.begins: list[int] = []
        self.layout_of: dict[int, Layout] = {}
        written: list[str] = []
        length = 0
        for piece in pieces:
            self.begins.append(length)
            if isinstance(piece, str):
                written.append(_unescaped(piece) if is_html else piece)
            elif piece.delivered is not None:
                layout = self.layout_of[length] = _lay_out_source(piece.delivered.segment)
                written.append(layout.written)
            else:
                written.append("")
            length += len(written[-1])
        self._places: list[int] | None = None
        if is_html and "&" in text:
            text, self._places = _decoded(text)
        self._matching = Matching(text, "".join(written))

    def range(self, begins: int, layout: Layout, word: Word) -> Range | None:
        """Find a word of the sentence that begins at an offset of the pieces."""
        start, end = layout.range(word)
        found = self._matching.range(begins + start, begins + end)
        if found is None or self._places is None:
            return found
        return self._places[found[0]], self._places[found[1]]


def _decoded(markup: str) -> tuple[str, list[int]]:
    """Decode entities; the second value is the offset in the markup of each character, and of the end."""
    parts: list[str] = []
    places: list[int] = []
    at = 0
    for match in _ENTITY.finditer(markup):
        text = _unescaped(match[0])
        if text == match[0]:
            continue
        parts += (markup[at : match.start()], text)
        places += range(at, match.start())
        places += [match.start()] * len(text)
        at = match.end()
    parts.append(markup[at:])
    places += range(at, len(markup) + 1)
    return "".join(parts), places


def _unescaped(markup: str) -> str:
    if "&" not in markup:
        return markup
    return _ENTITY.sub(lambda match: html.unescape(match[0]), markup)


def byte_offsets(text: str) -> NDArray[np.int64] | range:
    """Give for each offset in characters, the end included, that in bytes of UTF-8."""
    if text.isascii():
        return range(len(text) + 1)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    sizes = 1 + (points > 0x7F).astype(np.int64) + (points > 0x7FF) + (points > 0xFFFF)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
