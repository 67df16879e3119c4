"""The tags of a sentence as a tree of elements."""

from collections.abc import Sequence
from dataclasses import dataclass

from server.service.text.segment import Tag


@dataclass(slots=True)
class Element:
    """An element, or (the first one) the whole sentence.

    Attributes:
        parent: index of the element around it; the sentence is its own.
        last: index of the last element inside of it; its own if it has none.
        first_tag: index of its opening tag; 0 if that stands in a sentence before.
        last_tag: index of its closing tag; that of the sentence's last tag if it stands in a later sentence.
        opens: whether its opening tag is in the sentence.
        closes: whether its closing tag is in the sentence.
        start: offset behind its opening tag.
        end: offset of its closing tag.
    """

    parent: int
    last: int
    first_tag: int
    last_tag: int
    opens: bool
    closes: bool
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        """Whether both of its tags are in the sentence."""
        return self.opens and self.closes


@dataclass(frozen=True, slots=True)
class Nesting:
    """The elements of a sentence, outer ones before inner ones, and the innermost one around each tag.

    Not to be changed, so safe for any thread.
    """

    elements: list[Element]
    around: list[int]

    def contains(self, outer: int, inner: int) -> bool:
        """Whether an element is another one or stands around it."""
        return outer <= inner <= self.elements[outer].last

    def common(self, one: int, other: int) -> int:
        """Find the innermost element around two."""
        while not self.contains(one, other):
            one = self.elements[one].parent
        return one


def nesting(tags: Sequence[Tag], length: int) -> Nesting | None:
    """Find the elements of a sentence.

    An element whose opening tag is not there reaches from the beginning of the sentence, one whose closing
    tag is not there to its end.

    Args:
        tags: of a segment.
        length: of its text.

    Returns:
        None if elements overlap.
    """
    opened = [tag.pair for tag in tags if tag.opens and tag.pair >= 0]
    closed = [tag.pair for tag in tags if tag.closes]
    if len(set(opened)) < len(opened) or len(set(closed)) < len(closed):
        return None
    last_tag = len(tags) - 1
    elements = [Element(0, 0, 0, last_tag, False, False, 0, length)]
    around: list[int] = []
    begun = set(opened)
    stack = [(0, -1)]  # index of an element, its pair
    for pair in reversed([pair for pair in closed if pair not in begun]):
        elements.append(Element(stack[-1][0], 0, 0, last_tag, False, False, 0, length))
        stack.append((len(elements) - 1, pair))
    for index, tag in enumerate(tags):
        if tag.closes:
            number, pair = stack[-1]
            if pair != tag.pair:
                return None
            stack.pop()
            element = elements[number]
            element.closes, element.end, element.last_tag = True, tag.at, index
            element.last = len(elements) - 1
        around.append(stack[-1][0])
        if tag.opens and tag.pair >= 0:
            parent = stack[-1][0]
            elements.append(Element(parent, 0, index, last_tag, True, False, tag.at, length))
            stack.append((len(elements) - 1, tag.pair))
    for number, _ in stack:
        elements[number].last = len(elements) - 1
    return Nesting(elements, around)
