"""Blocks to sentences: what is no language becomes spans and tags, the rest is cut and rid of its edges."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from server.service.text.normalization import fold_spaces, normalize
from server.service.text.protection.patterns import find_spans
from server.service.text.protection.symbols import SEPARATOR, pairs_to_tags, signs_to_tags
from server.service.text.reading.edges import frame, write
from server.service.text.reading.segmentation import sentence_borders
from server.service.text.segment import Segment, Span
from server.service.text.vocabulary import Vocabulary

_LETTERS = re.compile(r"[^\W\d_]")
_TWO_LETTERS = re.compile(r"[^\W\d_]{2}")
# Nothing in it is protected, rewritten or cut.
_PLAIN = re.compile(
    r"(?=[A-Za-zÀ-ž])(?=.*[A-Za-zÀ-ž]{2})(?!.*(?:  |([^\W\d_])\1\1))[A-Za-zÀ-ž,;' \-]{2,300}(?<! )[.!?]?"
)


def is_plain_sentence(text: str) -> bool:
    """Tell whether a text is one sentence of usual letters and marks: most are, and need no reading."""
    return _PLAIN.fullmatch(text) is not None


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
    for part in _sentences(_prepared(block, vocabulary, protect), language, vocabulary, split=split):
        framed = frame(part)
        core = fold_spaces(framed.core)
        if core.text and not _is_language(core):
            copied = write(core.text, core.spans, core.tags, core.escape)
            pieces += [framed.before, copied, framed.behind]
        elif core.text:
            pieces += [framed.before, core, framed.behind]
        else:
            pieces += [framed.before, framed.behind]
    return [piece for piece in pieces if piece != ""]


def _prepared(block: Segment, vocabulary: Vocabulary, protect: Sequence[Any]) -> Segment:
    """Find the spans and signs of a block, and give the rest its usual characters."""
    for span in find_spans(block.text, protect):
        block = _with_span(block, span)
    return normalize(signs_to_tags(block), vocabulary.count_pieces)


def _sentences(block: Segment, language: str, vocabulary: Vocabulary, *, split: bool) -> Iterator[Segment]:
    """Cut a block and make what the model cannot read spans and tags."""
    kept = [(span.start, span.end) for span in block.spans]
    for part in block.cut(_separators(block.text, kept) if " " in block.text else ()):
        if not _LETTERS.search(part.text):
            yield part
            continue
        part = vocabulary.readable(pairs_to_tags(part, vocabulary.knows), language)
        kept = [(span.start, span.end) for span in part.spans]
        yield from part.cut(sentence_borders(part.text, language, kept) if split else ())


def _with_span(block: Segment, span: Span) -> Segment:
    """Add a span, unless the reader has one there. Elements within it become part of what is written."""
    if any(one.start < span.end and span.start < one.end for one in block.spans):
        return block
    inner = [tag for tag in block.tags if span.start < tag.at < span.end]
    tags = block.tags
    if inner:
        pairs = {tag.pair for tag in inner if tag.pair >= 0}
        inner = [
            tag for tag in tags if tag in inner or (tag.pair in pairs and span.start <= tag.at <= span.end)
        ]
        if any(tag.pair in pairs and tag not in inner for tag in tags):
            return block
        tags = tuple(tag for tag in tags if tag not in inner)
        output = write(block.text, (), inner, block.escape, span.start, span.end)
        span = Span(span.start, span.end, output)
    spans = sorted([*block.spans, span], key=lambda one: one.start)
    return Segment(block.text, tuple(spans), tags, block.escape)


def _separators(text: str, kept: Sequence[tuple[int, int]]) -> list[int]:
    """Cut before and behind signs that part what belongs to no common sentence: `Home » Chairs`."""
    return [
        offset
        for match in SEPARATOR.finditer(text)
        if not any(start < match.end() and match.start() < end for start, end in kept)
        for offset in match.span()
        if 0 < offset < len(text)
    ]


def _is_language(core: Segment) -> bool:
    """Tell whether there is something to translate outside of the spans: a word of two letters or more."""
    if not core.spans:
        text = core.text
    else:
        text = core.edited([(span.start, span.end, " ") for span in core.spans]).text
    return _TWO_LETTERS.search(text) is not None
