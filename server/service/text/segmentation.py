"""Text to sentences and exactly back.

A text is cut into pieces whose concatenation is the text: sentences to translate, and everything between them
(line breaks, indentation, spaces, parts without any letter or digit), which is copied. So what comes back is
laid out like what went in.
"""

import re
from dataclasses import dataclass

import sentencex

# Where a line ends for Unicode; `\r\n` is one break. Sentences never cross a line.
_LINE_BREAK = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text.

    Attributes:
        text: the characters, as they stand in the text.
        is_sentence: whether it is to be translated; otherwise it is copied.
    """

    text: str
    is_sentence: bool


def split_sentences(text: str, language: str) -> list[Piece]:
    """Cut a text into sentences and the white space around them.

    Args:
        text: any text.
        language: ISO 639 code of its language; unknown ones are split by general rules.

    Returns:
        Pieces whose texts joined give `text` again.
    """
    pieces: list[Piece] = []
    start = 0
    for line_break in _LINE_BREAK.finditer(text):
        _split_line(text[start : line_break.start()], language, pieces)
        pieces.append(Piece(line_break.group(), is_sentence=False))
        start = line_break.end()
    _split_line(text[start:], language, pieces)
    return pieces


def whole_line(text: str) -> list[Piece]:
    """Take a text as one sentence; only the white space at its ends is set aside.

    Args:
        text: any text.

    Returns:
        Pieces whose texts joined give `text` again.
    """
    pieces: list[Piece] = []
    _trim(text, pieces)
    return pieces


def _split_line(line: str, language: str, pieces: list[Piece]) -> None:
    if not line or line.isspace():
        if line:
            pieces.append(Piece(line, is_sentence=False))
        return
    end = 0
    for boundary in sentencex.get_sentence_boundaries(language, line):
        # The spans are taken over, never the library's own text: nothing may get lost between two of them.
        _trim(line[end : boundary["end_index"]], pieces)
        end = boundary["end_index"]
    _trim(line[end:], pieces)


def _trim(text: str, pieces: list[Piece]) -> None:
    core = text.strip()
    if not any(char.isalnum() for char in core):  # nothing to translate in "...", "-- " or an emoji
        if text:
            pieces.append(Piece(text, is_sentence=False))
        return
    start = len(text) - len(text.lstrip())
    end = start + len(core)
    if start:
        pieces.append(Piece(text[:start], is_sentence=False))
    pieces.append(Piece(core, is_sentence=True))
    if end < len(text):
        pieces.append(Piece(text[end:], is_sentence=False))
