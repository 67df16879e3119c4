"""Plain text to blocks: lines keep their marks, wrapped lines become one block.

What is not translated is copied byte for byte: indentation, list marks, numbers and times of subtitles, marks
of quoted mail, code, separators of tables, keys, white space.
"""

import re
from collections.abc import Sequence
from itertools import count, pairwise

from server.service.text.reading.icu import read_icu, undoubled
from server.service.text.reading.lines import Line, read_lines
from server.service.text.reading.markdown import cut_at_links, read_inline
from server.service.text.reading.wrapping import joined_lines
from server.service.text.segment import Segment

# One line of words and usual marks, as most texts are: it has nothing that is looked for.
_SIMPLE = re.compile(r"(?!\w{1,4}[.)])[^\W\d_][\w ,.'’?!;\"()-]{0,500}(?<! )")
_COLUMNS_AND_MARKS = ("   ", "www.", "_")
_LETTER = re.compile(r"[^\W\d_]")
_BREAK = re.compile("[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
_MESSAGE = re.compile(r"\{\w+[,}]")
"""An argument, without which two apostrophes may be quotes."""
_KEY = re.compile(r"\s*[\w.\"'-]+\s*[=:]")
Range = tuple[int, int]


def read_plain(text: str, *, every_line: bool = False, language: str = "") -> list[str | Segment]:
    """Read a plain text.

    Args:
        text: any text.
        every_line: whether each line is a block of its own; otherwise wrapped lines are joined.
        language: ISO 639 code of the text; "" if it is not known.

    Returns:
        Strings to copy and blocks to translate, in order. Joined with the blocks written back they give the
        text, but for the spaces at line breaks that blocks hold as tags.
    """
    if _SIMPLE.fullmatch(text) and not any(mark in text for mark in _COLUMNS_AND_MARKS):
        return [Segment(text)]
    number = count().__next__
    if _BREAK.search(text) and not _KEY.match(text) and (message := read_icu(text, number)):
        return message
    lines, references = read_lines(text)
    result: list[str | Segment] = []
    position = 0
    for block in _blocks(text, lines, language, every_line=every_line):
        start, end = block[0][0], block[-1][1]
        breaks = [(a - start, b - start) for (_, a), (b, _) in pairwise(block)]
        message = read_icu(text[start:end], number)
        blocks: list[str | Segment] = [*message] if message else []
        if not message:
            segment = read_inline(text[start:end], breaks, references, number)
            if not _LETTER.search(segment.text):
                continue
            blocks += cut_at_links(undoubled(segment) if _MESSAGE.search(segment.text) else segment)
        if start > position:
            result.append(text[position:start])
        result += blocks
        position = end
    if position < len(text):
        result.append(text[position:])
    return result


def _blocks(text: str, lines: Sequence[Line], language: str, *, every_line: bool) -> list[list[Range]]:
    """Put lines together that are one block."""
    blocks: list[list[Range]] = []
    paragraph: list[Line] = []
    for line in lines:
        before = paragraph[-1] if paragraph else None
        if before and not (line.parts and line.continues and before.wraps and line.quote == before.quote):
            blocks += _wrapped(text, paragraph, language, every_line=every_line)
            paragraph = []
        if line.wraps and line.parts:
            paragraph.append(line)
        else:
            blocks += [[part] for part in line.parts]
    if paragraph:
        blocks += _wrapped(text, paragraph, language, every_line=every_line)
    return blocks


def _wrapped(text: str, lines: Sequence[Line], language: str, *, every_line: bool) -> list[list[Range]]:
    ranges = [line.parts[0] for line in lines]
    bodies = [text[start:end] for start, end in ranges]
    blocks = [[ranges[0]]]
    if len(ranges) == 1:
        return blocks
    joined = joined_lines(bodies, language, in_cue=lines[0].in_cue)
    for (before, after), is_joined in zip(pairwise(ranges), joined, strict=True):
        if is_joined and not (every_line and _BREAK.search(text, before[1], after[0])):
            blocks[-1].append(after)
        else:
            blocks.append([after])
    return blocks
