"""Tags of a sentence to their places in its translation.

Words carry their elements with them along word links. The method is that of browsers' translators (bergamot):
find the elements of each target word, then open and close tags wherever they change. It always gives all
tags, well nested; where links are missing, relative positions decide.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from server.service.text.protection.linking import Links, cut_words, link_words
from server.service.text.protection.nesting import Nesting, nesting
from server.service.text.protection.ownership import Ownership, source_owners
from server.service.text.protection.words import Word, find_words
from server.service.text.segment import Segment, Tag, Target

Placed = list[tuple[int, Tag]]
_MAX_WORK = 400_000  # elements times words; what has more goes by relative position

_NEAR_SPACES = 200  # on either side of where a line break is expected


def place_tags(segment: Segment, target: Target, links: Links | None = None) -> Placed:
    """Find the places of a sentence's tags in its translation.

    Args:
        segment: the sentence.
        target: its translation.
        links: of words; None links equal words alone.

    Returns:
        Offsets in the target's text and tags, in the order of writing: all tags of the segment, once.
    """
    if not segment.tags:
        return []
    tree = nesting(segment.tags, len(segment.text))
    words = find_words(target.text, target.spans)
    if tree is not None and len(tree.elements) * (len(segment.text) + len(words)) <= _MAX_WORK and words:
        placed = _Projection(segment, target, tree, words, links).placed()
        if _is_sound(placed, segment.tags):
            return placed
    return _by_position(segment, target, words)


@dataclass(slots=True)
class _Unit:
    """Tags that stay together and cover no word."""

    tags: Sequence[Tag]
    parent: int  # element that they stand in
    before: int  # index of the source word before them; -1 for none
    is_glued: bool  # whether they follow that word as a part of it
    element: int = 0  # the element that they are, if it goes on beyond the sentence
    gap: int = -1  # index of the target word that they stand before
    leads: bool = True  # whether they go with the word behind them


class _Projection:
    def __init__(
        self, segment: Segment, target: Target, tree: Nesting, words: list[Word], links: Links | None
    ) -> None:
        self._segment = segment
        self._text = target.text
        self._tree = tree
        whole = find_words(segment.text, segment.spans)
        pairs = link_words(segment, target, whole, words, links)
        self._source, self._words, sources = cut_words(segment, target, whole, words, pairs)
        self._owned = source_owners(tree, [word.start for word in self._source])
        self._ownership = Ownership(
            tree,
            [word.is_mark for word in self._source],
            [word.is_mark for word in self._words],
            [word.end - word.start for word in self._words],
            self._owned,
            sources,
            {
                index
                for index, word in enumerate(self._words)
                if word.span >= 0 and target.spans[word.span].output is not None
            },
        )
        self._owners = self._ownership.owners
        self._targets: list[list[int]] = [[] for _ in self._source]
        for index, linked in enumerate(sources):
            for source in linked:
                self._targets[source].append(index)

        last = len(self._owners)
        # Before, between and behind words: elements on both sides.
        self._gaps: list[tuple[int, int, int]] = []
        for gap in range(last + 1):
            here = self._owners[gap - 1] if gap else self._beyond(self._owners[0], opens=False)
            there = self._owners[gap] if gap < last else self._beyond(here, opens=True)
            self._gaps.append((here, tree.common(here, there), there))

    def placed(self) -> Placed:
        """Walk over the gaps between words; close what ends there, open what begins."""
        tree, words = self._tree, self._words
        units: dict[tuple[int, bool, int], list[_Unit]] = defaultdict(list)
        for unit in self._placed_units():
            units[unit.gap, unit.leads, unit.parent].append(unit)
        placed: Placed = []

        def put(gap: int, leads: bool, element: int, offset: int) -> None:
            placed.extend((offset, tag) for unit in units.pop((gap, leads, element), ()) for tag in unit.tags)

        for gap, (here, common, there) in enumerate(self._gaps):
            behind = words[gap - 1].end if gap else words[0].start
            ahead = words[gap].start if gap < len(words) else behind
            while here != common:
                put(gap, False, here, behind)
                placed.append((behind, self._segment.tags[tree.elements[here].last_tag]))
                here = tree.elements[here].parent
            put(gap, False, common, behind)
            put(gap, True, common, ahead)
            path = []
            while there != common:
                path.append(there)
                there = tree.elements[there].parent
            for element in reversed(path):
                placed.append((ahead, self._segment.tags[tree.elements[element].first_tag]))
                put(gap, True, element, ahead)
        return placed

    def _beyond(self, owner: int, *, opens: bool) -> int:
        """The innermost element around a word at an end of the sentence that goes on beyond that end."""
        while owner and (self._tree.elements[owner].closes if opens else self._tree.elements[owner].opens):
            owner = self._tree.elements[owner].parent
        return owner

    def _units(self) -> Iterator[_Unit]:
        """Tags that stand alone, and whole elements that have no words in the translation."""
        tree, tags = self._tree, self._segment.tags
        held = Counter(self._owners)
        starts = [word.start for word in self._source]
        whole: dict[int, int] = {}  # by first tag: an element without words
        for index in range(len(tree.elements) - 1, 0, -1):
            element = tree.elements[index]
            if not any(held[inner] for inner in range(index, element.last + 1)):
                whole[element.first_tag] = index
        at = 0
        while at < len(tags):
            first = tags[at]
            last, parent, number = at, tree.around[at], 0
            if at in whole:
                element = tree.elements[whole[at]]
                last, parent = element.last_tag, element.parent
                number = 0 if element.is_whole else whole[at]
            elif first.pair >= 0:
                at += 1
                continue
            before = bisect_left(starts, first.at) - 1
            glued = before >= 0 and self._source[before].end == first.at
            if glued and before + 1 < len(starts):
                behind = self._source[before + 1]
                glued = behind.start > tags[last].at or behind.is_mark
            if before >= 0:
                low, high = self._owned[1][parent]
                glued = low <= before and (glued or before + 1 >= high)
            yield _Unit(tags[at : last + 1], parent, before, glued, number)
            at = last + 1

    def _placed_units(self) -> list[_Unit]:
        units = list(self._units())
        breaks = [unit for unit in units if _is_break(unit.tags[0])]
        self._place_breaks(breaks)
        before = [-1] * (len(self._source) + 1)  # last linked source word before an index
        for index, targets in enumerate(self._targets):
            before[index + 1] = index if targets else before[index]
        behind = [-1] * (len(self._source) + 1)
        for index in range(len(self._source) - 1, -1, -1):
            behind[index] = index if self._targets[index] else behind[index + 1]
        for unit in units:
            if unit.gap >= 0:
                continue
            left, right = before[unit.before + 1], behind[unit.before + 1]
            is_next = right == unit.before + 1
            if left >= 0 and (right < 0 or unit.is_glued or not is_next):
                unit.gap, unit.leads = max(self._targets[left]) + 1, False
            elif right >= 0:
                unit.gap = min(self._targets[right])
            else:
                unit.gap = round((unit.before + 1) / max(1, len(self._source)) * len(self._words))
            self._keep_inside(unit)
        return units

    def _place_breaks(self, breaks: list[_Unit]) -> None:
        """Give inner line breaks spaces at about the same share of the sentence, each its own.

        Those of plain text may stand in any element, a `<br>` only in its own.
        """
        words, tree = self._words, self._tree
        spaces = [gap for gap in range(1, len(words)) if words[gap - 1].end < words[gap].start]
        scale = len(self._text) / max(1, len(self._segment.text))
        behind = 0  # the gap of the break before
        for unit in breaks:
            wanted = unit.tags[0].at * scale
            is_plain = unit.tags[0].breaks_line
            first = bisect_left(spaces, behind + 1)
            nearest = max(first, bisect_left(spaces, wanted, key=lambda gap: words[gap].start))
            near = spaces[max(first, nearest - _NEAR_SPACES) : nearest + _NEAR_SPACES]
            gaps = [gap for gap in near if is_plain or self._is_at(gap, unit.parent)]
            inner = [gap for gap in gaps if tree.contains(unit.parent, self._gaps[gap][1])]
            unit.gap = min(inner or gaps, key=lambda gap: abs(words[gap].start - wanted), default=-1)
            if unit.gap < 0 and is_plain:
                unit.gap = len(words)
            if is_plain:
                unit.parent = self._gaps[unit.gap][1]
            elif unit.gap >= 0:
                unit.leads = tree.contains(unit.parent, self._gaps[unit.gap][2])
            behind = max(behind, unit.gap)

    def _is_at(self, gap: int, element: int) -> bool:
        """Whether tags in a gap can stand in an element and in none inside of it."""
        here, common, there = self._gaps[gap]
        contains = self._tree.contains
        return contains(common, element) and (contains(element, here) or contains(element, there))

    def _keep_inside(self, unit: _Unit) -> None:
        """Move tags to the nearest place in the element that they stand in, and in none inside of that."""
        if unit.element:
            opens = self._tree.elements[unit.element].opens
            unit.gap, unit.leads = (len(self._owners), True) if opens else (0, False)
            return
        for distance in range(len(self._gaps)):
            for gap in (unit.gap - distance, unit.gap + distance):
                if 0 <= gap < len(self._gaps) and self._is_at(gap, unit.parent):
                    here, _, there = self._gaps[gap]
                    is_there = self._tree.contains(unit.parent, there)
                    is_here = self._tree.contains(unit.parent, here)
                    unit.gap, unit.leads = gap, is_there and (unit.leads or not is_here)
                    return


def _is_break(tag: Tag) -> bool:
    """Whether a tag begins a new line, in text or on a page."""
    return tag.breaks_line or tag.output[:3].lower() == "<br"


def _is_sound(placed: Placed, tags: Sequence[Tag]) -> bool:
    """Whether all tags are there once, and elements are well nested."""
    counts = Counter(tag for _, tag in placed)
    if counts != Counter(tags):
        return False
    open_pairs: list[int] = []
    begun = {tag.pair for tag in tags if tag.opens}
    offsets = [offset for offset, _ in placed]
    for _, tag in placed:
        if tag.opens and tag.pair >= 0:
            open_pairs.append(tag.pair)
        elif tag.pair in begun and tag.closes and (not open_pairs or open_pairs.pop() != tag.pair):
            return False
    return offsets == sorted(offsets)


def _by_position(segment: Segment, target: Target, words: list[Word]) -> Placed:
    """Put tags between words at the same share of the text, in the order of the source."""
    borders = sorted({0, len(target.text), *(word.start for word in words), *(word.end for word in words)})
    scale = len(target.text) / max(1, len(segment.text))
    placed = []
    for tag in segment.tags:
        at = bisect_left(borders, tag.at * scale)
        at = min(at, len(borders) - 1)
        if at and borders[at] - tag.at * scale > tag.at * scale - borders[at - 1]:
            at -= 1
        placed.append((borders[at], tag))
    return placed
