"""HTML to tokens that know where they stand in the source.

Follows the tokenization of the HTML standard (section 13.2.5) where browsers and authors agree, and keeps to
linear time on any input. Python's own parser does not: releases that are still in use need quadratic time for
unfinished constructs (CVE-2025-6069), and it gives no offsets of attribute values.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from server.service.text.detection.word_lists import words

WHITE = " \t\n\f\r"
VOID = words("area base basefont bgsound br col embed frame hr img input link meta param source track wbr")
# No tags inside of them: only their own end tag ends them.
_RAW = words("script style xmp iframe noembed noframes textarea title")
_W = r"[ \t\n\f\r]"
_NAME = r"[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+"
_ATTRIBUTE = re.compile(
    rf"({_NAME})(?:{_W}*+={_W}*+(?:\"([^\"]*+)\"|'([^']*+)'|(?![\"'])([^ \t\n\f\r>]*+)))?+"
)
# Quantifiers are possessive: nothing is tried twice.
_VALUE = r"(?:\"[^\"]*+\"|'[^']*+'|(?![\"'])[^ \t\n\f\r>]*+)"
_TAG = re.compile(
    r"<(/?)([A-Za-z][^ \t\n\f\r/>]*+)"
    rf"((?:[ \t\n\f\r/]++|{_NAME}(?:{_W}*+={_W}*+{_VALUE})?+)*+)>"
)
_LENIENT_TAG = re.compile(r"<(/?)([A-Za-z][^ \t\n\f\r/<>]*+)([^<>]*+)>")
_BEGIN = re.compile(r"<(?:/?[A-Za-z]|!|\?)")
_CUT_OFF = re.compile(
    r"</?[A-Za-z][\w:-]*+"
    rf"(?:{_W}++[\w:@.-]++{_W}*+=(?:{_W}*+(?:\"[^\"<]*+\"|'[^'<]*+'|[^ \t\n\f\r\"'<>]++)))*+"
    rf"{_W}*+(?:[\w:@.-]++(?:{_W}*+=(?:\"[^\"<]*+|'[^'<]*+)?+)?+)?+/?+\Z"
)
_COMMENT_END = re.compile(r"--!?>")
_PROGRAM = re.compile(r"<\?(?:php|xml|=)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """A construct of the source.

    Attributes:
        kind: `other` is a comment, a doctype, a processing instruction, CDATA, or a tag that was cut off.
        start: offset of its first character.
        end: offset behind its last one.
        name: of a tag, in lower case.
        attributes_at: of a tag: offset behind its name.
        is_closed: whether a tag ends in `/>`.
    """

    kind: Literal["text", "start", "end", "other"]
    start: int
    end: int
    name: str = ""
    attributes_at: int = 0
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """Where the value of an attribute stands, without its quotes."""

    start: int
    end: int
    is_quoted: bool


def attributes(markup: str, tag: Token) -> dict[str, Attribute]:
    """Find the attributes of a tag; of those with one name the first, as browsers do.

    Args:
        markup: the source.
        tag: a start tag in it.

    Returns:
        By names in lower case. One without a value has an empty range.
    """
    found: dict[str, Attribute] = {}
    for match in _ATTRIBUTE.finditer(markup, tag.attributes_at, tag.end - 1 - tag.is_closed):
        group = next((group for group in (2, 3, 4) if match.group(group) is not None), None)
        start, end = match.span(group) if group else (match.end(), match.end())
        found.setdefault(match.group(1).lower(), Attribute(start, end, group in (2, 3)))
    return found


def scan(markup: str) -> Iterator[Token]:
    """Cut HTML into tokens, in order; together they are the whole source.

    A `<` that begins nothing is text. A comment or an element like `script` that does not end goes to the end
    of the source.

    Args:
        markup: a document or a fragment; need not be well formed.
    """
    scanner = _Scanner(markup)
    text_at = at = 0
    while found := _BEGIN.search(markup, at):
        token = scanner.construct(found.start())
        if token is None:
            at = found.start() + 1
            continue
        if text_at < token.start:
            yield Token("text", text_at, token.start)
        yield token
        text_at = at = token.end
        if token.kind == "start" and token.name in _RAW and not token.is_closed:
            end = re.compile(rf"</{token.name}(?=[ \t\n\f\r/>])", re.IGNORECASE).search(markup, at)
            at = end.start() if end else len(markup)
    if text_at < len(markup):
        yield Token("text", text_at, len(markup))


class _Scanner:
    """Reads one construct. What is known of the rest of the source spares looking through it again."""

    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._tag = _TAG
        self._last_end = markup.rfind(">")
        self._last_cdata_end = markup.rfind("]]>")
        self._last_program_end = markup.rfind("?>")

    def construct(self, at: int) -> Token | None:
        """Read what begins with the `<` at an offset; None if that is text."""
        markup = self._markup
        if markup.startswith("<!--", at):
            # `<!-->` and `<!--->` are whole comments.
            end = _COMMENT_END.search(markup, at + 2)
            return Token("other", at, end.end() if end else len(markup))
        if markup[at + 1] in "!?":
            end_at = self._declaration_end(at)
            return Token("other", at, end_at) if end_at else None
        if at < self._last_end:
            match = self._tag.match(markup, at)
            if match is None and self._tag is _TAG:
                # It goes on to the end of the source: so a quote is missing, and may be missing again.
                self._tag = _LENIENT_TAG
                match = self._tag.match(markup, at)
            if match:
                kind: Literal["start", "end"] = "end" if match.group(1) else "start"
                name = match.group(2).lower()
                return Token(kind, at, match.end(), name, match.end(2), self._is_closed(at, match.end()))
        elif _CUT_OFF.match(markup, at):
            return Token("other", at, len(markup))
        return None

    def _is_closed(self, at: int, end: int) -> bool:
        """Whether a tag ends in `/>` and the `/` is not the end of a value, as in `<a href=/x/>`."""
        if self._markup[end - 2] != "/":
            return False
        value = self._markup[self._markup.rfind("=", at, end) + 1 : end].lstrip(WHITE)
        return value.startswith("<") or any(char in value for char in WHITE + "\"'") or value == "/>"

    def _declaration_end(self, at: int) -> int:
        """Offset behind `<!...>` or `<?...>`; 0 if it does not end."""
        if at > self._last_end:
            return 0
        if self._markup.startswith("<![CDATA[", at) and at < self._last_cdata_end:
            return self._markup.index("]]>", at) + 3
        if _PROGRAM.match(self._markup, at) and at < self._last_program_end:
            return self._markup.index("?>", at) + 2
        return self._markup.find(">", at) + 1
