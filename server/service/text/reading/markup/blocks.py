"""The parts of a block of HTML, and the segment that they make."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from server.service.text.reading.markup.tokens import WHITE
from server.service.text.reading.wrapping import is_salutation
from server.service.text.segment import Segment, Span, Tag

_FORMULA = re.compile(
    r"(?:\d[\d.,]{,20}|\d{,9}(?:[a-zA-Z]|[mcdk]m|mc|[A-Z]{2,3}|(?:[A-Z][a-z]?){2,3})\d{,9})\Z"
)
_RAISED = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
_LOWERED = str.maketrans("0123456789+-", "₀₁₂₃₄₅₆₇₈₉₊₋")


@dataclass(slots=True)
class Item:
    """A part of a block: a slice of the source.

    Attributes:
        kind: `border` is a tag that cuts the block: it has no partner, or overlaps with another element.
        start: offset in the source.
        end: offset behind it.
        text: of a text or a verbatim part: the plain text.
        number: of the element whose tag it is.
        is_link: whether it is a tag of a link or a label.
        is_formula: whether it is verbatim because it is a formula.
        keeps_white: whether its white space counts.
    """

    kind: Literal["text", "open", "close", "lone", "break", "verbatim", "border"]
    start: int
    end: int
    text: str = ""
    number: int = -1
    is_link: bool = False
    is_formula: bool = False
    keeps_white: bool = False


def join_footnote(items: list[Item], at: int, markup: str) -> None:
    """Make one part of the link that was just closed, if it is a footnote: `war.<a><sup>55</sup></a>`.

    Args:
        items: the block until now.
        at: index of the link's opening tag.
        markup: the source.
    """
    before, inner = items[at - 1] if at else None, items[at + 1 : -1]
    text = "".join(item.text for item in inner)
    if before is None or not inner or before.kind in ("open", "break"):
        return
    if markup[inner[0].start : inner[0].end].lower()[:4] not in ("<sup", "<sub"):
        return
    if not any(map(str.isalpha, text)) and text.strip() and not before.text[-1:].isspace():
        items[at:] = [Item("lone", items[at].start, items[-1].end)]


def join_index(items: list[Item], at: int, markup: str, name: str) -> None:
    """Make one part of the `sup` or `sub` element that was just closed, if it has no letters of its own.

    Behind a short word (`m<sup>2</sup>`, `CO<sub>2</sub>`) both are a formula, which is verbatim; behind
    another (`book<sup>[3]</sup>`) it is a mark that follows the word and would spoil it as a part of it.

    Args:
        items: the block until now.
        at: index of the opening tag.
        markup: the source.
        name: `sup` or `sub`.
    """
    text = "".join(item.text for item in items[at:])
    before = items[at - 1] if at else None
    if before is None or not text.strip() or any(map(str.isalpha, text)) or before.end != items[at].start:
        return
    start, end = items[at].start, items[-1].end
    shown = text.translate(_RAISED if name == "sup" else _LOWERED)
    base = _FORMULA.search(before.text[-40:]) if before.kind == "text" and text.isdigit() else None
    if before.is_formula:
        formula = Item("verbatim", before.start, end, before.text + shown)
        items[at - 1 :] = [formula]
    elif (
        base
        and not before.text[: -len(base.group())][-1:].isalnum()
        and markup.endswith(base.group(), before.start, before.end)
    ):
        before.end -= len(base.group())
        before.text = before.text[: -len(base.group())]
        formula = Item("verbatim", before.end, end, base.group() + shown)
        items[at:] = [formula]
    elif before.kind not in ("open", "break") and not before.text[-1:].isspace():
        items[at:] = [Item("lone", start, end)]
        return
    else:
        return
    formula.is_formula = True


def parts(items: list[Item]) -> Iterator[list[Item]]:
    """Cut a block at tags that overlap and at line breaks that part sentences.

    Args:
        items: of the block.

    Yields:
        Those of each part, without what they were cut at.
    """
    part: list[Item] = []
    line = ""
    for index, item in enumerate(items):
        if item.kind == "text":
            line += item.text
        elif item.kind == "verbatim":
            line += "x"
        if item.kind == "border" or (item.kind == "break" and _parts_sentences(line, items, index + 1)):
            yield part
            part, line = [], ""
        else:
            line = "" if item.kind == "break" and line.strip() else line
            part.append(item)
    yield part


def _parts_sentences(line: str, items: list[Item], following: int) -> bool:
    """Whether a `<br>` is a border: not if the line before has no end and the next goes on in lower case."""
    line = line.strip()
    if not line or line[-1] in ".!?:…。！？" or is_salutation(line):
        return True
    for index in range(following, len(items)):
        item = items[index]
        if item.kind in ("break", "border"):
            return True
        if item.kind == "verbatim":
            return False
        if item.kind == "text" and (text := item.text.lstrip()):
            return not text[0].islower()
    return True


def strip_ends(part: list[Item]) -> None:
    """Take white space, what stands alone and empty elements off both ends.

    Args:
        part: of a block; changed.
    """

    def is_loose(item: Item) -> bool:
        return item.kind in ("lone", "break") or (item.kind == "text" and not item.text.strip(WHITE))

    def is_empty(opener: Item, closer: Item) -> bool:
        return (opener.kind, closer.kind, opener.number) == ("open", "close", closer.number)

    while part and (is_loose(part[-1]) or (len(part) > 1 and is_empty(part[-2], part[-1]))):
        del part[-1 if is_loose(part[-1]) else -2 :]
    first = 0
    while first < len(part):
        if is_loose(part[first]):
            first += 1
        elif first + 1 < len(part) and is_empty(part[first], part[first + 1]):  # a picture of a font
            first += 2
        else:
            break
    del part[:first]


def to_segment(part: list[Item], markup: str) -> Segment:
    """Write a block as text with spans and tags.

    Args:
        part: of a block, stripped.
        markup: the source.
    """
    text: list[str] = []
    length, last, before = 0, "", ""
    spans: list[Span] = []
    tags: list[Tag] = []
    for item in part:
        output = markup[item.start : item.end]
        new = item.text
        if item.kind == "text" and last in ("", " ") and not item.keeps_white:
            is_empty = before == "close" and len(tags) > 1 and tags[-2].pair == tags[-1].pair
            if new[:1] == " " and (before == "lone" or is_empty):  # a picture keeps its space
                tags[-1] = replace(tags[-1], output=f"{tags[-1].output} ")
            new = new.lstrip(" ")
        elif item.kind == "break" and last != " ":
            new = " "
        if item.kind == "verbatim":
            spans.append(Span(length, length + len(new), output))
        if new:
            text.append(new)
            length, last = length + len(new), new[-1]
        if item.kind not in ("text", "verbatim"):
            tags.append(Tag(length, output, item.number, item.kind == "open"))
        before = item.kind
    return Segment("".join(text), tuple(spans), tuple(tags), "html")


def cut_at_links(segment: Segment, part: list[Item]) -> list[Segment]:
    """Cut a row of links, which is no sentence: one that has words in two links at least and nowhere else.

    Args:
        segment: what the part became.
        part: of a block.
    """
    openers = {item.number for item in part if item.is_link and item.kind == "open"}
    if len(openers) < 2:
        return [segment]
    depth = 0
    for item in part:
        if item.is_link:
            depth += 1 if item.kind == "open" else -1
        elif depth == 0 and any(map(str.isalnum, item.text)):
            return [segment]
    borders = {tag.at for tag in segment.tags if tag.opens and tag.pair in openers}
    return segment.cut(sorted(borders - {0, len(segment.text)}))
