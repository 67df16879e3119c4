"""Text to words and punctuation marks with their offsets."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from server.service.text.segment import Span

_PARTS = re.compile(
    r"(?:[ldjmtscn]|qu)['’](?=\w)"  # elided words of French: l'eau, qu'il
    r"|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # written without spaces: a word a character
    r"|\w[\w\u0300-\u036f\u00ad\u200b-\u200d]*(?:['’.\-\u2010\u2011]\w[\w\u0300-\u036f]*)*"
    r"|[^\w\s]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word, a punctuation mark or a span.

    Attributes:
        start: offset of its first character.
        end: offset behind its last one.
        is_mark: whether it is a punctuation mark or another sign.
        span: index of the span that it is; -1 for none.
    """

    start: int
    end: int
    is_mark: bool = False
    span: int = -1


def find_words(text: str, spans: Sequence[Span] = ()) -> list[Word]:
    """Cut text into words and marks. A span is one word.

    Args:
        text: plain text.
        spans: disjoint, ascending; empty ones are no words.

    Returns:
        In order; white space belongs to none.
    """
    words: list[Word] = []
    at = 0
    for index, span in enumerate(spans):
        words += _between(text, at, span.start)
        if span.start < span.end:
            words.append(Word(span.start, span.end, span=index))
        at = span.end
    return words + _between(text, at, len(text))


def _between(text: str, start: int, end: int) -> list[Word]:
    return [
        Word(match.start(), match.end(), not (match.group()[0].isalnum() or match.group()[0] == "_"))
        for match in _PARTS.finditer(text, start, end)
    ]
