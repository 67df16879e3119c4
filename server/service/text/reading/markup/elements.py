"""What HTML's elements are: which are parts of a sentence, which are not translated, which have ended."""

import html
import re
from collections import Counter
from dataclasses import dataclass
from itertools import count

from server.service.text.detection.word_lists import words
from server.service.text.languages import base_language
from server.service.text.reading.markup.blocks import Item
from server.service.text.reading.markup.tokens import VOID, Token, attributes

INLINE = words(
    "a abbr acronym b bdi bdo big blink br cite code data del dfn em font i img ins kbd label link mark"
    " math meta nobr output q rb rp rt rtc ruby s samp script small span strike strong style sub sup svg"
    " time tt u var wbr x g ph bx ex bpt ept it mrk"
)
VERBATIM = words(
    "code iframe kbd listing math noembed noframes plaintext pre rp rt rtc samp script style svg tt var xmp"
)
# Nothing in them is part of a sentence: `rt` says how the word before is read, `rp` brackets that.
WITHOUT_TEXT = words("script style svg rt rp rtc")
LINKS = frozenset(("a", "label"))
P_ENDS = words(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer"
    " form h1 h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre search section summary table ul"
)
# Elements whose end tag may be left out, and what begins behind them.
ENDED_BY = {"p": P_ENDS, "li": {"li"}, "dt": {"dt", "dd"}, "dd": {"dt", "dd"}, "tr": {"tr"}}
ENDED_BY |= {"td": {"td", "th", "tr"}, "th": {"td", "th", "tr"}, "option": {"option", "optgroup"}}
_KEEPS_WHITE = re.compile(r"white-space(?:-collapse)?\s*:\s*(?:pre|break-spaces)", re.IGNORECASE)
_ZEROS = re.compile(r"&#0++(?=[0-9])")
_LONG_NUMBER = re.compile(r"&#[0-9]{8,};?")


def decoded(markup: str) -> str:
    """Decode entities.

    A number of more digits than any character has is left out: Python would refuse to read a long one.

    Args:
        markup: text between tags, or the value of an attribute.
    """
    if "&" not in markup:
        return markup
    return html.unescape(_LONG_NUMBER.sub("", _ZEROS.sub("&#", markup)))


@dataclass(slots=True)
class Element:
    """An element that was begun.

    Attributes:
        name: in lower case.
        start: offset of its start tag.
        is_void: whether it ends with its start tag.
        is_verbatim: whether it, or one around it, is not to be translated.
        is_foreign: whether it is in another language.
        keeps_white: whether its white space counts.
        number: unique in the source.
        opener: its tag in the block that is being read, if it is a tag there.
        opener_at: index of the opener in the block.
    """

    name: str
    start: int
    is_void: bool = False
    is_verbatim: bool = False
    is_foreign: bool = False
    keeps_white: bool = False
    number: int = -1
    opener: Item | None = None
    opener_at: int = 0  # its index in the block

    @property
    def is_translated(self) -> bool:
        """Whether text in it is translated."""
        return not (self.is_verbatim or self.is_foreign)


class OpenElements:
    """The stack of elements that have not ended, and what each passes on to those inside of it.

    For one thread.
    """

    def __init__(self, markup: str, language: str) -> None:
        self._markup = markup
        self._languages = {base_language(language), ""}
        self._stack = [Element("", 0)]
        self._counts: Counter[str] = Counter()  # by name, so that a stray end tag costs no search
        self._numbers = count()

    @property
    def top(self) -> Element:
        """The innermost one; one without a name if all have ended."""
        return self._stack[-1]

    def has(self, name: str) -> bool:
        """Whether an element of that name is open."""
        return self._counts[name] > 0

    def push(self, element: Element) -> None:
        """Begin an element."""
        self._stack.append(element)
        self._counts[element.name] += 1

    def pop(self) -> Element:
        """End the innermost element."""
        element = self._stack.pop()
        self._counts[element.name] -= 1
        return element

    def is_ended_by(self, name: str) -> bool:
        """Whether the start of such an element is also the end of the innermost one."""
        return name in ENDED_BY.get(self.top.name, ())

    def imply_ends(self, name: str) -> None:
        """End what ends where such an element starts."""
        while self.is_ended_by(name):
            self.pop()

    def element(self, tag: Token) -> Element:
        """Make the element that a start tag begins."""
        parent, name = self.top, tag.name
        element = Element(
            name,
            tag.start,
            is_void=name in VOID or tag.is_closed,
            is_verbatim=parent.is_verbatim or name in VERBATIM,
            is_foreign=parent.is_foreign,
            keeps_white=parent.keeps_white or name == "textarea",
            number=next(self._numbers),
        )
        if tag.end - tag.attributes_at > 2:
            self._apply_attributes(element, tag)
        return element

    def _apply_attributes(self, element: Element, tag: Token) -> None:
        found = attributes(self._markup, tag)

        def value(name: str) -> str:
            return decoded(self._markup[found[name].start : found[name].end]) if name in found else ""

        if "notranslate" in value("class").lower().split():
            element.is_verbatim = True
        if "translate" in found:
            element.is_verbatim = value("translate").strip().lower() == "no"
        for name in ("lang", "xml:lang"):
            if name in found:
                language = base_language(value(name).strip())
                if element.name == "html":
                    self._languages.add(language)
                element.is_foreign = language not in self._languages
        if _KEEPS_WHITE.search(value("style")):
            element.keeps_white = True
