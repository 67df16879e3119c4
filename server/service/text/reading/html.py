"""HTML to blocks: one segment for each run of text between block elements, and everything else as it was.

Inline elements never cut a block: they become its tags. What must not be translated becomes a span of the
block that it stands in. Only slices of the source are copied; nothing is rebuilt from parsed parts.
"""

import re

from server.service.text.reading.markup.blocks import (
    Item,
    cut_at_links,
    join_footnote,
    join_index,
    parts,
    strip_ends,
    to_segment,
)
from server.service.text.reading.markup.elements import (
    ENDED_BY,
    INLINE,
    LINKS,
    P_ENDS,
    WITHOUT_TEXT,
    Element,
    OpenElements,
    decoded,
)
from server.service.text.reading.markup.tokens import VOID, WHITE, Token, attributes, scan
from server.service.text.segment import Segment

_TRANSLATED_ATTRIBUTES = ("alt", "title", "placeholder", "aria-label")
_NUMBERED = re.compile("[a-z]{1,2}[0-9]{1,3}")  # `<b0>`, as extensions of browsers write inline elements
_MAX_SPAN = 60  # characters of a span's plain text, which a model may see
_WHITE_RUN = re.compile(f"[{WHITE}]+")
_LETTERS = re.compile(r"[A-Za-z0-9]{1,9}(?![A-Za-z0-9])")


def read_html(markup: str, language: str) -> list[str | Segment]:
    """Cut HTML into what is copied and blocks of text.

    Args:
        markup: a document or a fragment; need not be well formed.
        language: ISO 639 code of the text. Elements whose `lang` is neither it nor the document's are copied.

    Returns:
        Strings, which are slices of the source, and segments whose text has its entities decoded and its
        white space folded. Joined, with the segments written back, they are the source but for that.
    """
    return _BlockReader(markup, language).read()


def read_attributes(markup: str, language: str) -> list[str | Segment]:
    """Cut HTML into the values of its attributes for people (`alt`, `title`, ...) and all the rest.

    Done before `read_html`, whose tags then carry the translated values wherever they go.

    Args:
        markup: as for `read_html`.
        language: as for `read_html`.

    Returns:
        Strings, which are slices of the source (and quotes where it has none), and segments to be written
        with the escape `attribute`.
    """
    elements = OpenElements(markup, language)
    pieces: list[str | Segment] = []
    copied = 0
    for token in scan(markup):
        if token.kind == "end" and elements.has(token.name):
            while elements.pop().name != token.name:
                pass
        if token.kind != "start":
            continue
        elements.imply_ends(token.name)
        element = elements.element(token)
        is_frame = token.name == "iframe" and elements.top.is_translated  # its text is for old browsers
        if (element.is_translated or is_frame) and token.name not in ("link", "meta", "style", "script"):
            found = attributes(markup, token)
            values = sorted(
                (found[name] for name in _TRANSLATED_ATTRIBUTES if name in found),
                key=lambda value: value.start,
            )
            for value in values:
                text = decoded(markup[value.start : value.end])
                if not any(map(str.isalpha, text)):
                    continue
                quote = "" if value.is_quoted else '"'
                pieces += (
                    markup[copied : value.start] + quote,
                    Segment(text, escape="attribute"),
                )
                if quote:
                    pieces.append(quote)
                copied = value.end
        if not element.is_void:
            elements.push(element)
    return [*pieces, markup[copied:]] if copied < len(markup) else pieces


class _BlockReader:
    """Collects the parts of a block until a border comes. What becomes no segment is copied."""

    def __init__(self, markup: str, language: str) -> None:
        self._markup = markup
        self._elements = OpenElements(markup, language)
        self._pieces: list[str | Segment] = []
        self._copied = 0  # the source up to here is in the pieces
        self._items: list[Item] = []
        self._verbatim: Element | None = None  # the inline element that is being skipped
        self._verbatim_text: list[str] = []

    def read(self) -> list[str | Segment]:
        for token in scan(self._markup):
            if token.kind == "text":
                self._text(token)
            elif token.kind == "start":
                self._start(token)
            elif token.kind == "end":
                self._end(token)
            elif self._elements.top.is_translated:
                self._items.append(Item("lone", token.start, token.end))
        self._border()
        if self._copied < len(self._markup):
            self._pieces.append(self._markup[self._copied :])
        return self._pieces

    def _text(self, token: Token) -> None:
        raw = self._markup[token.start : token.end]
        element = self._elements.top
        if self._verbatim is not None:
            self._verbatim_text.append(raw)
        elif element.is_translated and not element.keeps_white:
            start = token.start + self._extend_formula(raw, token.start)
            text = _WHITE_RUN.sub(" ", decoded(self._markup[start : token.end]))
            if text:
                self._items.append(Item("text", start, token.end, text))
        elif element.is_translated:
            start = token.start
            for line in raw.splitlines(keepends=True):  # each is a block
                self._items.append(Item("text", start, start + len(line), decoded(line), keeps_white=True))
                start += len(line)
                if line[-1] in "\n\r":
                    self._border()

    def _extend_formula(self, raw: str, at: int) -> int:
        """Add letters and digits to a formula that they follow (`H<sub>2</sub>O`); gives their number."""
        formula = self._items[-1] if self._items else None
        if formula is None or not formula.is_formula or formula.end != at:
            return 0
        more = _LETTERS.match(raw)
        if more is None:
            return 0
        formula.text += more.group()
        formula.end += more.end()
        return more.end()

    def _start(self, token: Token) -> None:
        elements = self._elements
        while elements.is_ended_by(token.name):
            self._border()
            elements.pop()
        was_translated = elements.top.is_translated
        element = elements.element(token)
        is_inline = self._is_inline(token.name)
        if not is_inline or (element.is_translated and not was_translated):
            self._border()
        if element.is_void:
            if element.name == "br" and self._verbatim is not None:
                self._border()  # what has lines stands alone
            if is_inline and was_translated:
                self._items.append(Item("break" if element.name == "br" else "lone", token.start, token.end))
            return
        elements.push(element)
        if not is_inline:
            return
        if element.is_translated:
            element.opener = Item("open", token.start, token.end, "", element.number)
            element.opener.is_link = element.name in LINKS
            element.opener_at = len(self._items)
            self._items.append(element.opener)
        elif was_translated:
            self._verbatim, self._verbatim_text = element, []

    def _end(self, token: Token) -> None:
        elements = self._elements
        is_inline = self._is_inline(token.name)
        if not is_inline:
            self._border()
        if not elements.has(token.name):
            if is_inline and elements.top.is_translated:
                self._items.append(Item("lone" if token.name in VOID else "border", token.start, token.end))
            return
        while elements.top.name != token.name:
            element = elements.pop()
            self._leave(element, token.start)
            if is_inline and element.opener is not None:
                element.opener.kind = "border"
        element = elements.pop()
        if is_inline and element.is_translated:
            self._items.append(
                Item("close", token.start, token.end, "", element.number, is_link=token.name in LINKS)
            )
            if token.name in ("sup", "sub") and self._items_hold(element):
                join_index(self._items, element.opener_at, self._markup, token.name)
            elif token.name == "a" and self._items_hold(element):
                join_footnote(self._items, element.opener_at, self._markup)
        self._leave(element, token.end)

    def _is_inline(self, name: str) -> bool:
        """Whether an element is a part of the text around it.

        Pictures and formulas have elements of their own.
        """
        if self._verbatim is not None and self._verbatim.name in ("svg", "math"):
            return name not in P_ENDS and name not in ENDED_BY
        return name in INLINE or (_NUMBERED.fullmatch(name) is not None and name not in P_ENDS)

    def _items_hold(self, element: Element) -> bool:
        at = element.opener_at
        return at < len(self._items) and self._items[at] is element.opener

    def _leave(self, element: Element, end: int) -> None:
        """An element that was popped ends here."""
        if element is self._verbatim:
            text = "" if element.name in WITHOUT_TEXT else decoded("".join(self._verbatim_text))
            text = _WHITE_RUN.sub(" ", text).strip()[:_MAX_SPAN]
            self._items.append(Item("verbatim" if text else "lone", element.start, end, text))
            self._verbatim = None
        elif element.is_translated and not self._elements.top.is_translated:
            self._border()

    def _border(self) -> None:
        """End the block. A verbatim element that was begun in it is copied with what follows."""
        items, self._items, self._verbatim = self._items, [], None
        for part in parts(items):
            strip_ends(part)
            if not any(item.kind == "text" and any(map(str.isalnum, item.text)) for item in part):
                continue
            raw = self._markup[part[0].start : part[0].end]
            start = part[0].start + (len(raw) - len(raw.lstrip(WHITE)))
            raw = self._markup[part[-1].start : part[-1].end]
            end = part[-1].end - (len(raw) - len(raw.rstrip(WHITE)))
            part[0].text = part[0].text.lstrip(WHITE)
            part[-1].text = part[-1].text.rstrip(WHITE)
            if self._copied < start:
                self._pieces.append(self._markup[self._copied : start])
            self._pieces += cut_at_links(to_segment(part, self._markup), part)
            self._copied = end
