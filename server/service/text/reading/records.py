"""Files of keys and values in a plain text: which parts of their lines are translated.

JSON, YAML, `.properties`, `.ini`, `.strings`, PO and CSV. Keys, numbers and names in code stay.
"""

import json
import re
from functools import cached_property

_STRING = re.compile(r"\"((?:[^\"\\]|\\.)*)\"(?=(\s*:)?)")
_NAME = re.compile(
    r"\S*[^\W][_/\\#@:][\w/]\S*|[\w-]+(?:\.[\w-]+)+|#[0-9A-Fa-f]{3,8}|[a-z]+[A-Z]\w*|[A-Z0-9]+_[A-Z0-9_]+"
)
_PAIR = re.compile(
    r"\s*\"(?:[^\"\\\n]|\\.){1,200}\"\s*(?::|=)\s*\"((?:[^\"\\\n]|\\.)*)\"\s*+[,;]?\s*+\}?\s*+"
)
_ENTRY = re.compile(r"\s*(?:- )?([A-Za-z_][\w.-]{0,80}):(?:\s+|$)")
_PROPERTY = re.compile(r"\s*(?:export )?([A-Za-z_][\w.\-]{0,100}(?:\[\w*\])?)\s*=\s*(?=\S)")
_SECTION = re.compile(r"\s*\[[\w .:/-]{1,80}\]\s*")
_PO = re.compile(r"(msgid|msgid_plural|msgstr(?:\[\d\])?|msgctxt)\s+\"(.*)\"\s*$")
_PO_MORE = re.compile(r"\"(.*)\"\s*$")
_ESCAPE = re.compile(r"(?:\\[nrt])+")
_QUOTES = "\"'`"
_JSON_LIMIT = 4_000_000  # characters
Parts = list[tuple[int, int]]


class Records:
    """Says of each line of one text whether it is a record. For one thread."""

    def __init__(self, text: str, spans: list[tuple[int, int]]) -> None:
        """Look at a text as a whole.

        Args:
            text: the text.
            spans: start and end of its lines.
        """
        self._text = text
        self._spans = spans
        self._is_po = text.startswith("msgid") or "\nmsgid " in text
        self._keeps_ids = self._is_po and bool(re.search(r"^msgstr(?:\[\d\])?\s+\"[^\"]", text, re.MULTILINE))
        self._copies_more = False

    def parts(self, index: int) -> Parts | None:
        """Find what of a line is translated.

        Args:
            index: number of the line; each is asked for once, in order.

        Returns:
            Start and end of each part, perhaps none; None if the line is no record.
        """
        start, end = self._spans[index]
        line = self._text[start:end]
        if self._is_po:
            return self._po(line, start)
        if self._is_json:
            return _strings(line, start)
        if line[:1] in "{[" and _is_json(line):
            return _strings(line, start)
        pair = _PAIR.fullmatch(line) if '"' in line else None
        if pair:
            return _pieces(self._text, start + pair.start(1), start + pair.end(1))
        if index in self._rows:
            return self._row(index)
        if index in self._entries:
            match = _ENTRY.match(line)
            return _value(self._text, start + match.end(), end) if match else None
        match = _PROPERTY.match(line)
        if match and not line.startswith(("    ", "\t")):  # that is code
            return _value(self._text, start + match.end(), end)
        if _SECTION.fullmatch(line) and index + 1 < len(self._spans):
            below = self._text[slice(*self._spans[index + 1])]
            return [] if _PROPERTY.match(below) else None
        return None

    @cached_property
    def _is_json(self) -> bool:
        return "\n" in self._text and self._text.lstrip()[:1] in ("{", "[") and _is_json(self._text)

    @cached_property
    def _entries(self) -> frozenset[int]:
        """Lines of YAML: at least two keys in a row that are written as in code, or one in front matter."""
        found: set[int] = set()
        run: list[int] = []
        for index in range(len(self._spans) + 1):
            line = self._text[slice(*self._spans[index])] if index < len(self._spans) else ""
            match = _ENTRY.match(line)
            if match and match[1][0].islower():
                run.append(index)
            elif not line.strip().startswith(("- ", "#")) or index == len(self._spans):
                in_front = run == [1] and self._text[: self._spans[0][1]].strip() == "---"
                found.update(run if len(run) > 1 or in_front else ())
                run = []
        return frozenset(found)

    @cached_property
    def _rows(self) -> dict[int, str]:
        """Lines of CSV with their separators: at least two in a row with as many cells, not spaced."""
        found: dict[int, str] = {}
        for separator, fewest in ((",", 2), (";", 1)):
            counts = [self._cells(index, separator) for index in range(len(self._spans))]
            for index, count in enumerate(counts):
                beside = counts[index - 1 : index] + counts[index + 1 : index + 2]
                is_quoted = f'{separator}"' in self._text[slice(*self._spans[index])]
                if count >= (1 if is_quoted else fewest) and count in beside:
                    found.setdefault(index, separator)
        return found

    def _cells(self, index: int, separator: str) -> int:
        line = re.sub(r"\"[^\"]*\"", "x", self._text[slice(*self._spans[index])])
        is_spaced = re.search(f"{separator}\\s", line.rstrip())
        is_code = line.rstrip().endswith(separator)
        return 0 if is_spaced or is_code else line.count(separator)

    def _row(self, index: int) -> Parts:
        start, end = self._spans[index]
        parts: Parts = []
        # A quote within quotes is written twice.
        pattern = re.compile(rf"(\"(?:[^\"]|\"\")*+\"|[^{self._rows[index]}]*)(?:{self._rows[index]}|$)")
        for match in pattern.finditer(self._text[start:end]):
            parts += _value(self._text, start + match.start(1), start + match.end(1))
        return parts

    def _po(self, line: str, start: int) -> Parts | None:
        match = _PO.match(line)
        if match:
            is_source = match[1].startswith("msgid")
            self._copies_more = match[1] == "msgctxt" or (is_source and self._keeps_ids)
            return (
                [] if self._copies_more else _pieces(self._text, start + match.start(2), start + match.end(2))
            )
        match = _PO_MORE.match(line)
        if match:
            is_header = re.match(r"[\w-]+: ", match[1])
            copied = self._copies_more or is_header
            return [] if copied else _pieces(self._text, start + match.start(1), start + match.end(1))
        return [] if line.startswith("#") else None


def _is_json(text: str) -> bool:
    if len(text) > _JSON_LIMIT:
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict | list) and '"' in text


def _is_name(value: str) -> bool:
    return len(value) <= 200 and " " not in value and bool(_NAME.fullmatch(value))


def _strings(line: str, start: int) -> Parts:
    """Find the values of JSON in a line."""
    parts: Parts = []
    for match in _STRING.finditer(line):
        if match[2] is None and not _is_name(match[1]):
            parts += _pieces(line, *match.span(1), shift=start)
    return parts


def _value(text: str, start: int, end: int) -> Parts:
    """Take the quotes and the last comma or semicolon off a value."""
    value = text[start:end]
    end -= len(value) - len(value.rstrip())
    start += len(value) - len(value.lstrip())
    core = text[start:end]
    if len(core) > 2 and core[0] in _QUOTES:
        closed = core.rstrip(",;")
        if closed[-1:] == core[0]:
            return _pieces(text, start + 1, start + len(closed) - 1)
    if _is_name(core) or core in ("true", "false", "null", "yes", "no", "|", ">"):
        return []
    return _pieces(text, start, end)


def _pieces(text: str, start: int, end: int, shift: int = 0) -> Parts:
    """Cut a value at line breaks that are written as two characters."""
    parts: Parts = []
    for match in _ESCAPE.finditer(text, start, end):
        parts.append((shift + start, shift + match.start()))
        start = match.end()
    parts.append((shift + start, shift + end))
    return [(a, b) for a, b in parts if b > a]
