"""Messages of ICU MessageFormat: syntax is copied, the text of every branch is a block.

Grammar and quoting by apostrophes: ICU User Guide, "Formatting Messages", and the API of MessagePattern. The
text around a plural is a block of its own: put into the branches, its arguments would be repeated.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from server.service.text.reading.lines import BLANKS_BEFORE
from server.service.text.reading.markdown import read_inline
from server.service.text.segment import Segment, Span, Tag

_COMPLEX = re.compile(r"\{\s{0,20}[\w.-]{1,100}\s{0,20},\s{0,20}(?:plural|select|selectordinal)\s{0,20},")
_HEAD = re.compile(r"\s*([\w.-]+)\s*(?:,\s*(\w+)\s*)?([,}])")
_SELECTOR = re.compile(r"\s*(?:offset:\d+\s+)?(?:=\d+|[\w-]+)\s*\{")
_END = re.compile(r"\s*\}")
_BREAK = re.compile(rf"{BLANKS_BEFORE}[\n\r]\s*")
_LETTER = re.compile(r"[^\W\d_]")
_DOUBLED = re.compile(r"(?<=[\w}])''(?=[\w{ ])")
_DEPTH = 20
# Arguments while Markdown is read: each is as many copies of one private character as it has characters.
_FIRST, _LAST = "\ue000", "\uf8ff"
_PRIVATE = re.compile(f"([{_FIRST}-{_LAST}])\\1*")
_MOST = ord(_LAST) - ord(_FIRST) + 1
Part = tuple[int, int, tuple[tuple[int, int], ...]]  # start and end of a text, and those of its arguments


def read_icu(text: str, number: Callable[[], int]) -> list[str | Segment] | None:
    """Read a message with plurals or selections.

    Args:
        text: perhaps a message.
        number: gives a new number for a pair of tags.

    Returns:
        Strings to copy and blocks to translate, whose arguments are spans; None if the text is no message, or
        one without branches.
    """
    if not _COMPLEX.search(text) or _PRIVATE.search(text):
        return None
    parser = _Parser(text)
    try:
        parser.message(0, 0, in_plural=False)
    except ValueError:
        return None
    result: list[str | Segment] = []
    position = 0
    for start, end, arguments in sorted(parser.parts):
        segment = _segment(text, start, end, arguments, number)
        if segment is None:
            continue
        if start > position:
            result.append(text[position:start])
        result.append(segment)
        position = end
    if position < len(text):
        result.append(text[position:])
    return result


class _Parser:
    """Collects the texts of a message. For one thread."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.parts: list[Part] = []

    def message(self, position: int, depth: int, *, in_plural: bool) -> int:
        """Read a message, up to its closing brace if it is a branch.

        Args:
            position: offset of its first character.
            depth: 0 for the whole text.
            in_plural: whether `#` is the number.

        Returns:
            Offset of the closing brace, or the length of the text.

        Raises:
            ValueError: this is no message.
        """
        text = self._text
        start = position
        arguments: list[tuple[int, int]] = []

        def finish(end: int) -> None:
            part = text[start:end]
            if part.strip():
                begin = start + len(part) - len(part.lstrip())
                self.parts.append((begin, start + len(part.rstrip()), tuple(arguments)))
            arguments.clear()

        special = re.compile("[{}'#]" if in_plural else "[{}']")
        while match := special.search(text, position):
            at, char = match.start(), match[0]
            if char == "}":
                if not depth:
                    raise ValueError("a brace is closed that was not opened")
                finish(at)
                return at
            position = self._quote(at, in_plural=in_plural) if char == "'" else at + 1
            if char == "{":
                position, is_complex = self._argument(at, depth, in_plural=in_plural)
                if is_complex:
                    finish(at)
                    start = position
                    continue
            if char != "'" or position > at + 2:
                arguments.append((at, position))
        if depth:
            raise ValueError("a branch is not closed")
        finish(len(text))
        return len(text)

    def _quote(self, at: int, *, in_plural: bool) -> int:
        """Skip an apostrophe, with what it quotes."""
        text = self._text
        behind = text[at + 1 : at + 2]
        if behind == "'":
            return at + 2
        if not behind or behind not in ("{}#" if in_plural else "{}"):
            return at + 1
        position = at + 1
        while (end := text.find("'", position)) >= 0:
            if text[end + 1 : end + 2] != "'":
                return end + 1
            position = end + 2
        return len(text.rstrip())  # what is not closed ends with the text

    def _argument(self, at: int, depth: int, *, in_plural: bool) -> tuple[int, bool]:
        """Read an argument; say where it ends and whether it has branches."""
        text = self._text
        head = _HEAD.match(text, at + 1)
        if not head or depth >= _DEPTH:
            raise ValueError("no argument")
        kind, position = head[2], head.end()
        if head[3] == "}":
            return position, False
        if kind not in ("plural", "select", "selectordinal"):
            end = text.find("}", position)
            if end < 0 or "{" in text[position:end]:
                raise ValueError("an argument is not closed")
            return end + 1, False
        branches = 0
        while not (end_match := _END.match(text, position)):
            selector = _SELECTOR.match(text, position)
            if not selector:
                raise ValueError("no selector")
            inner = in_plural or kind != "select"
            position = self.message(selector.end(), depth + 1, in_plural=inner) + 1
            branches += 1
        if not branches:
            raise ValueError("no branches")
        return end_match.end(), True


def _segment(
    text: str, start: int, end: int, arguments: tuple[tuple[int, int], ...], number: Callable[[], int]
) -> Segment | None:
    """Make a block of a text; None if it has no letters outside of its arguments."""
    if len(arguments) > _MOST:
        return None
    values: list[str] = []
    masked: list[str] = []
    position = start
    for first, last in arguments:
        private = chr(ord(_FIRST) + len(values))
        masked += text[position:first], private * (last - first)
        values.append(text[first:last])
        position = last
    source = "".join([*masked, text[position:end]])
    if not _LETTER.search(source):
        return None
    breaks = [match.span() for match in _BREAK.finditer(source)]
    segment = read_inline(source, breaks, (), number)

    def restored(part: str) -> str:
        return _PRIVATE.sub(lambda match: values[ord(match[1]) - ord(_FIRST)], part)

    spans = [
        Span(span.start, span.end, None if span.output is None else restored(span.output))
        for span in segment.spans
    ]
    spans += [
        Span(*match.span(), restored(match[0]))
        for match in _PRIVATE.finditer(segment.text)
        if not any(span.start <= match.start() < span.end for span in segment.spans)
    ]
    tags = tuple(Tag(tag.at, restored(tag.output), tag.pair, tag.opens) for tag in segment.tags)
    spans.sort(key=lambda span: span.start)
    return undoubled(Segment(restored(segment.text), tuple(spans), tags, "icu"))


def undoubled(segment: Segment) -> Segment:
    """Read the doubled apostrophes of a message as apostrophes, and have its translation double its own.

    Args:
        segment: a block of a message.

    Returns:
        The block; the same object if no apostrophe is doubled.
    """
    plain = segment.rewritten(_DOUBLED, lambda _: "'")
    return segment if plain is segment else replace(plain, escape="message")
