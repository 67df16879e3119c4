"""HTML to pieces: text between tags is translated, the tags come back byte for byte where they stood.

A sentence that a tag interrupts (`a <b>red</b> car`) is translated in parts, so its words keep their tags but
may lose their grammar. Entities are decoded before and `&`, `<` and `>` escaped after.
"""

import html
from html.parser import HTMLParser

from server.service.text.segmentation import Piece, split_sentences

# Their content is not language, or must reach the browser untouched.
_VERBATIM_TAGS = frozenset({"script", "style", "code", "kbd", "samp", "var", "textarea"})
# They never have an end tag.
_VOID_TAGS = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input"})
_VOID_TAGS |= {"link", "meta", "param", "source", "track", "wbr"}


def split_markup(markup: str, language: str) -> list[Piece]:
    """Cut HTML into sentences and what is copied: tags, comments, white space, untranslatable elements.

    Elements with `translate="no"` or the class `notranslate` are copied whole.

    Args:
        markup: a document or a fragment; need not be well formed.
        language: ISO 639 code of its text.

    Returns:
        Pieces; those that are sentences hold plain text (entities decoded), the others hold markup. Joining
        the copied ones with the escaped translations of the others gives the answer.
    """
    pieces: list[Piece] = []
    for part in _Splitter().split(markup):
        if not part.is_sentence:
            pieces.append(part)
            continue
        for piece in split_sentences(html.unescape(part.text), language):
            pieces.append(piece if piece.is_sentence else Piece(escape(piece.text), is_sentence=False))
    return pieces


def escape(text: str) -> str:
    """Make plain text safe between tags.

    Args:
        text: plain text.

    Returns:
        The text with `&`, `<` and `>` as entities and no-break spaces as `&nbsp;`; quotes stay.
    """
    return html.escape(text, quote=False).replace("\u00a0", "&nbsp;")


class _Splitter(HTMLParser):
    """Notes where each construct begins: pieces are slices of the input, never rebuilt from parsed parts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._starts: list[tuple[int, bool]] = []  # (offset, is text)
        self._line_starts = [0]
        self._closing: str | None = None  # tag whose end ends the untranslatable element we are in
        self._depth = 0

    def split(self, markup: str) -> list[Piece]:
        self._line_starts += [i + 1 for i, char in enumerate(markup) if char == "\n"]
        # Nothing after the last ">" can be a tag. Kept from the parser, whose time is quadratic in unfinished
        # tags.
        tail = markup.rfind(">") + 1
        self.feed(markup[:tail])
        self.close()
        if tail < len(markup):
            self._starts.append((tail, self._closing is None))
        parts: list[Piece] = []
        starts = [(0, False), *self._starts]  # what stands before the first construct is copied
        ends = [start for start, _ in self._starts] + [len(markup)]
        for (start, is_text), end in zip(starts, ends, strict=True):
            if start == end:
                continue
            if parts and parts[-1].is_sentence == is_text:
                parts[-1] = Piece(parts[-1].text + markup[start:end], is_text)
            else:
                parts.append(Piece(markup[start:end], is_text))
        return parts

    def _note(self, is_text: bool) -> None:
        line, column = self.getpos()
        self._starts.append((self._line_starts[line - 1] + column, is_text and self._closing is None))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(is_text=False)
        if self._closing is not None:
            self._depth += tag == self._closing
        elif tag not in _VOID_TAGS and (tag in _VERBATIM_TAGS or _is_untranslatable(attrs)):
            self._closing, self._depth = tag, 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(is_text=False)

    def handle_endtag(self, tag: str) -> None:
        self._note(is_text=False)
        if tag == self._closing:
            self._depth -= 1
            if self._depth == 0:
                self._closing = None

    def handle_data(self, data: str) -> None:
        self._note(is_text=True)

    def handle_comment(self, data: str) -> None:
        self._note(is_text=False)

    def handle_decl(self, decl: str) -> None:
        self._note(is_text=False)

    def handle_pi(self, data: str) -> None:
        self._note(is_text=False)

    def unknown_decl(self, data: str) -> None:
        self._note(is_text=False)


def _is_untranslatable(attrs: list[tuple[str, str | None]]) -> bool:
    values = dict(attrs)
    classes = (values.get("class") or "").split()
    return (values.get("translate") or "").lower() == "no" or "notranslate" in classes
