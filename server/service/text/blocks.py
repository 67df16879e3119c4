"""Blocks to sentences: what is no language becomes spans and tags, the rest is cut and rid of its edges."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from server.service.text.normalization import fold_spaces, normalize, spell_out
from server.service.text.output.shape import CAPITAL_NOUNS
from server.service.text.protection.patterns import find_spans, has_spans_of_letters
from server.service.text.protection.symbols import (
    CHOICE,
    COLON,
    FINAL_MARKS,
    MAY_SEPARATE,
    OPERATORS,
    SEPARATOR,
    aside,
    direct_speech,
    elements_to_tags,
    enumerated,
    items,
    pairs_to_tags,
    signs_to_tags,
)
from server.service.text.protection.writing import write, write_segment
from server.service.text.reading.abbreviations import abbreviations
from server.service.text.reading.edges import frame
from server.service.text.reading.segmentation import sentence_borders
from server.service.text.segment import Segment, Span
from server.service.text.vocabulary import Vocabulary

_LETTERS = re.compile(r"[^\W\d_]")
_NO_EDGES = re.compile(r"\S+(?:\s+\S+)*")
_TWO_LETTERS = re.compile(r"(?![IVX]+[.)]\Z)[^\W\d_]{2}")
# Nothing in it is protected, rewritten or cut.
_PLAIN = re.compile(
    r"(?=[A-Za-zÀ-ž][A-Za-zÀ-ž,' \-]{1,299}+(?<! )[.!?]?\Z)(?=.*[A-Za-zÀ-ž]{2})"
    r"(?!.*(?:  |,[^ ]|[ -]-|-\w-|([^\W\d_])\1\1))"
)


def is_plain_sentence(text: str) -> bool:
    """Tell whether a text is one sentence of usual letters and marks: most are, and need no reading."""
    return _PLAIN.match(text) is not None and not has_spans_of_letters(text)


def sentences_of(
    block: Segment,
    language: str,
    vocabulary: Vocabulary,
    protect: Sequence[Any] = (),
    *,
    split: bool = True,
) -> list[str | Segment]:
    """Cut a block into sentences and what is copied.

    Args:
        block: a paragraph, list item, table cell or the like.
        language: of its text.
        vocabulary: of the model.
        protect: what the client wants to keep.
        split: whether it may hold several sentences.

    Returns:
        Strings to copy, escaped, and sentences to translate, in order.
    """
    if not (block.tags or block.spans or protect) and is_plain_sentence(block.text):
        return [vocabulary.readable(block, language)]
    pieces: list[str | Segment] = []
    for part in _sentences(
        _prepared(block, language, vocabulary, protect), language, vocabulary, split=split
    ):
        framed = frame(part)
        core = fold_spaces(framed.core)
        if core.text and not _is_language(core):
            copied = write_segment(core)
            pieces += [framed.before, copied, framed.behind]
        elif core.text:
            pieces += [framed.before, core, framed.behind]
        else:
            pieces += [framed.before, framed.behind]
    return [piece for piece in pieces if piece != ""]


def _prepared(block: Segment, language: str, vocabulary: Vocabulary, protect: Sequence[Any]) -> Segment:
    """Find the spans and signs of a block, and give the rest its usual characters."""
    block = elements_to_tags(block)
    block = _with_spans(block, find_spans(block.text, protect))
    block = normalize(signs_to_tags(block), vocabulary.count_pieces)
    return spell_out(block, language, vocabulary.count_pieces)


def _sentences(block: Segment, language: str, vocabulary: Vocabulary, *, split: bool) -> Iterator[Segment]:
    """Cut a block and make what the model cannot read spans and tags."""
    for part in block.cut(_separators(block, language, reads_colons=vocabulary.knows(":"))):
        if not _LETTERS.search(part.text):
            yield part
            continue
        part = vocabulary.readable(pairs_to_tags(part, vocabulary.knows), language)
        kept = [(span.start, span.end) for span in part.spans]
        yield from part.cut(sentence_borders(part.text, language, kept) if split else ())


def _with_spans(block: Segment, found: Sequence[Span]) -> Segment:
    """Add spans. Elements and spans of the reader within one become part of what is written.

    A span takes in what it overlaps; where an element reaches beyond it, it is cut at the tags.
    """
    if not found:
        return block
    text, tags = block.text, block.tags
    places = [tag.at for tag in tags]
    pairs = [tag.pair if tag.pair >= 0 else -1 - number for number, tag in enumerate(tags)]
    of_pair: dict[int, list[int]] = {}
    for number, pair in enumerate(pairs):
        of_pair.setdefault(pair, []).append(number)
    spans: list[Span] = []
    taken: set[int] = set()
    for group in _overlapping([*block.spans, *found]):
        start, end = group[0].start, max(span.end for span in group)
        own = [span for span in group if span.output is not None]
        within = range(bisect_right(places, start), bisect_left(places, end))
        inner = sorted({other for number in within for other in of_pair[pairs[number]]})
        if [(span.start, span.end) for span in own] == [(start, end)]:
            spans += own
        elif not own and not inner:
            spans.append(Span(start, end))
        elif inner and not start <= places[inner[0]] <= places[inner[-1]] <= end:
            spans += _cut_at(text, start, end, [places[number] for number in within], own)
        else:
            taken.update(inner)
            placed = [(tags[number].at, tags[number]) for number in inner]
            spans.append(Span(start, end, write(text, own, placed, block.escape, start, end)))
    left = tuple(tag for number, tag in enumerate(tags) if number not in taken)
    return Segment(text, tuple(spans), left, block.escape)


def _overlapping(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Put spans that overlap together, in ascending order."""
    group: list[Span] = []
    end = 0
    for span in sorted(spans, key=lambda one: (one.start, one.end)):
        if group and span.start >= end:
            yield group
            group = []
        group.append(span)
        end = max(end, span.end)
    yield group


def _cut_at(text: str, start: int, end: int, places: Sequence[int], own: Sequence[Span]) -> list[Span]:
    """Make spans of the parts between some places; those of the reader stay as they are."""
    borders = sorted({start, end, *places, *(offset for span in own for offset in (span.start, span.end))})
    starts = [span.start for span in own]
    parts = [
        Span(*part.span())
        for first, last in pairwise(borders)
        if not _overlap(own, starts, first, last) and (part := _NO_EDGES.search(text, first, last))
    ]
    return sorted([*own, *parts], key=lambda span: span.start)


def _overlap(spans: Sequence[Span], starts: Sequence[int], start: int, end: int) -> bool:
    """Tell whether one of some disjoint, ascending spans, which begin at `starts`, overlaps."""
    index = bisect_left(starts, end) - 1
    return index >= 0 and spans[index].end > start


def _separators(block: Segment, language: str, *, reads_colons: bool) -> list[int]:
    """Cut before and behind signs that part what belongs to no common sentence: `Home » Chairs`, and asides.

    For a model without a colon, what stands before one is a sentence, too.
    """
    text = block.text
    begun = items(block) if block.tags else []
    behind = aside(text, abbreviations(language).starters if language in CAPITAL_NOUNS else None)
    if ") " in text:
        begun += [offset for offset in enumerated(text) if 0 < offset < len(text)]
    if behind and not any(span.start < behind for span in block.spans):
        begun.append(behind)
    colons = () if reads_colons else [(match.end(), match.end()) for match in COLON.finditer(text)]
    if not colons and not MAY_SEPARATE.search(text):
        return sorted(begun)
    starts = [span.start for span in block.spans]
    are_quotes = "«" in text and "»" in text
    is_sentence = text.rstrip()[-1:] in FINAL_MARKS
    signs = [
        match.span()
        for match in SEPARATOR.finditer(text)
        if not (are_quotes and match[0] in "«»")
        and not (is_sentence and match[0][0] in OPERATORS and text[match.start() - 2] not in FINAL_MARKS)
    ]
    if "/" in text and CHOICE.match(text):
        signs += [match.span() for match in re.finditer("/", text)]
    return sorted(
        {
            offset
            for start, end in (*signs, *colons, *direct_speech(text))
            if not _overlap(block.spans, starts, start, end)
            for offset in (start, end)
            if 0 < offset < len(text)
        }.union(begun)
    )


def _is_language(core: Segment) -> bool:
    """Tell whether there is something to translate outside of the spans: a word of two letters, no `IV.`."""
    if not core.spans:
        text = core.text
    else:
        text = core.edited([(span.start, span.end, " ") for span in core.spans]).text
    return _TWO_LETTERS.search(text) is not None
