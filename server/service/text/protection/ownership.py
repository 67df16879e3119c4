"""Which element each word of a translation belongs to.

Elements are numbered as in `Nesting`; an owner is the innermost element around a word. The result can be
written as tags: the words of an element are one range, since none may be there twice, and an inner element
has only words of its outer one.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence, Set

from server.service.text.protection.nesting import Element, Nesting

MAX_GAP = 3  # words between two parts of an element that join it; what is farther off is left out


def source_owners(tree: Nesting, starts: Sequence[int]) -> tuple[list[int], list[tuple[int, int]]]:
    """Find the owners of the source's words, and the words of each element.

    Args:
        tree: of the sentence.
        starts: offsets of the words, which are cut at every tag.

    Returns:
        An owner for each word; first word and the one behind the last for each element.
    """
    owners = [0] * len(starts)
    ranges: list[tuple[int, int]] = []
    for index, element in enumerate(tree.elements):
        low = bisect_left(starts, element.start)
        high = bisect_left(starts, element.end) if element.closes else len(starts)
        ranges.append((low, max(low, high)))
        owners[low:high] = [index] * (high - low)
    return owners, ranges


class Ownership:
    """Finds the owners of the target's words. For one sentence and thread.

    Attributes:
        owners: the result, by target word.
    """

    def __init__(
        self,
        tree: Nesting,
        source_marks: Sequence[bool],
        target_marks: Sequence[bool],
        target_lengths: Sequence[int],
        source: tuple[list[int], list[tuple[int, int]]],
        links: Sequence[Sequence[int]],
        fixed: Set[int] = frozenset(),
    ) -> None:
        """Find them.

        Args:
            tree: elements of the source.
            source_marks: of each word of the source, whether it is a punctuation mark.
            target_marks: the same of the target.
            target_lengths: characters of each word of the target.
            source: of `source_owners`.
            links: for each target word the source words that it stands for, ascending.
            fixed: target words that hold elements of their own: they stay in the element that they were in.
        """
        self._tree = tree
        self._source_marks = source_marks
        self._marks = target_marks
        self._lengths = target_lengths
        self._source_owners, self._ranges = source
        self._links = links
        self._fixed = fixed
        self.owners: list[int] = [-1] * len(target_marks)
        self._own_linked_words()
        self._own_other_words()
        self._own_marks()
        for index in range(len(tree.elements) - 1, 0, -1):  # inner ones first
            self._make_contiguous(index)
        self._fill_empty()

    def words_of(self, index: int) -> list[int]:
        """The target words of an element, those of the elements inside of it included."""
        last = self._tree.elements[index].last
        return [word for word, owner in enumerate(self.owners) if index <= owner <= last]

    def _own_linked_words(self) -> None:
        for word, linked in enumerate(self._links):
            if linked and not self._marks[word]:
                owner = self._source_owners[linked[0]]
                for other in linked[1:]:
                    owner = self._tree.common(owner, self._source_owners[other])
                self.owners[word] = owner

    def _own_other_words(self) -> None:
        """A word without link belongs where the source words without links beside its neighbors' do.

        If there are none, it belongs to what both neighbors belong to.
        """
        words = [word for word, is_mark in enumerate(self._marks) if not is_mark]
        sources = [index for index, is_mark in enumerate(self._source_marks) if not is_mark]
        place = {index: at for at, index in enumerate(sources)}
        linked = {index for word in words for index in self._links[word]}
        base = self._source_owners[sources[0]] if sources else 0
        for index in sources:
            base = self._tree.common(base, self._source_owners[index])
        following: list[int] = [-1] * len(words)  # the next word with a link
        after = -1
        for at in range(len(words) - 1, -1, -1):
            following[at] = after
            if self._links[words[at]]:
                after = words[at]
        before = -1
        for at, word in enumerate(words):
            if self._links[word]:
                before = word
                continue
            low = place[self._links[before][-1]] + 1 if before >= 0 else 0
            high = place[self._links[following[at]][0]] - 1 if following[at] >= 0 else len(sources) - 1
            loose = [
                self._source_owners[sources[near]]
                for near in (high, low)
                if 0 <= near < len(sources) and sources[near] not in linked
            ]
            if not loose:
                loose = [self.owners[near] if near >= 0 else base for near in (before, following[at])]
            elif low > high:  # the neighbors' order was turned around: articles and the like go before
                del loose[1:]
            self.owners[word] = self._tree.common(loose[0], loose[-1])

    def _own_marks(self) -> None:
        """A mark is in an element if its source is and words of the element are beside it; else in few."""
        tree = self._tree
        after = [0] * (len(self._marks) + 1)
        for word in range(len(self._marks) - 1, -1, -1):
            after[word] = after[word + 1] if self._marks[word] else self.owners[word]
        before = 0
        for word, is_mark in enumerate(self._marks):
            if is_mark:
                owner = tree.common(before, after[word])
                for linked in self._links[word][:1]:
                    source = self._source_owners[linked]
                    is_beside = tree.contains(source, before) or tree.contains(source, after[word])
                    if (is_beside and tree.contains(owner, source)) or (
                        tree.elements[source].parent == owner and self._has_only_marks(source)
                    ):
                        owner = source
                self.owners[word] = owner
            before = self.owners[word]

    def _has_only_marks(self, index: int) -> bool:
        low, high = self._ranges[index]
        return all(self._source_marks[low:high])

    def _make_contiguous(self, index: int) -> None:
        words = self.words_of(index)
        if not words:
            return
        element, owners = self._tree.elements[index], self.owners
        if not element.is_whole:
            self._reach_to_end(index, element, words)
            return
        words = self._with_own_sources(index, words)
        runs: list[list[int]] = [words[:1]]
        for word in words[1:]:
            gap = range(runs[-1][-1] + 1, word)
            is_open = all(
                between not in self._fixed and self._tree.contains(owners[between], index) for between in gap
            )
            if is_open and len(gap) <= MAX_GAP:
                for between in gap:
                    owners[between] = index
                runs[-1].append(word)
            else:
                runs.append([word])
        longest = max(runs, key=lambda run: sum(self._lengths[word] for word in run))
        kept = self._one_range(index, words, longest)
        for word in set(words).difference(kept):
            owners[word] = element.parent

    def _with_own_sources(self, index: int, words: list[int]) -> list[int]:
        """Take from an element what stands for no other source words than a longer part of it does."""
        low, high = self._ranges[index]
        runs: list[list[int]] = []
        for word in words:
            if runs and runs[-1][-1] == word - 1:
                runs[-1].append(word)
            else:
                runs.append([word])
        kept: list[int] = []
        told: set[int] = set()
        for run in sorted(runs, key=lambda run: sum(self._lengths[word] for word in run), reverse=True):
            sources = {source for word in run for source in self._links[word] if low <= source < high}
            if not kept or sources - told or not self._fixed.isdisjoint(run):
                kept += run
                told |= sources
            else:
                for word in run:
                    self.owners[word] = self._tree.elements[index].parent
        return sorted(kept)

    def _one_range(self, index: int, words: list[int], longest: list[int]) -> list[int]:
        """Words of the longest run, or of all from the first to the last that holds elements."""
        needed = [word for word in words if word in self._fixed]
        if not needed or set(needed) <= set(longest):
            return longest
        kept = list(range(needed[0], needed[-1] + 1))
        for word in kept:
            if not self._tree.contains(index, self.owners[word]) and word not in self._fixed:
                self.owners[word] = index
        return kept

    def _reach_to_end(self, index: int, element: Element, words: list[int]) -> None:
        """Give an element that goes on beyond an end of the sentence all words up to that end."""
        owners = self.owners
        inside = set(words)
        order = range(len(owners) - 1, -1, -1) if element.opens else range(len(owners))
        # Words of other elements bound it, if any of its own are behind them.
        until = words[0] if element.opens else words[-1]
        taken: list[int] = []
        for word in order:
            is_other = word not in inside and not self._tree.contains(owners[word], index)
            if is_other and any(own in inside for own in taken):
                break
            taken.append(word)
            if word == until:
                break
        for word in inside.difference(taken):
            owners[word] = element.parent
        for word in taken:
            if word not in inside:
                owners[word] = index

    def _fill_empty(self) -> None:
        """Give an element that had words and has none the nearest one of those that it may have."""
        tree, owners = self._tree, self.owners
        held = Counter(owners)
        for index in range(1, len(tree.elements)):
            element = tree.elements[index]
            low, high = self._ranges[index]
            if low == high or not owners or any(held[inner] for inner in range(index, element.last + 1)):
                continue
            if element.is_whole:
                word = self._free_word(index, held)
            else:
                word = len(owners) - 1 if element.opens else 0
                word = word if owners[word] == element.parent else -1
            if word >= 0:
                held[owners[word]] -= 1
                owners[word] = index
                held[index] += 1

    def _free_word(self, index: int, held: Counter[int]) -> int:
        tree, owners = self._tree, self.owners
        low, high = self._ranges[index]
        parent = tree.elements[index].parent
        only_marks = self._has_only_marks(index)
        near = self._expected(low, high)
        free = [
            word
            for word, owner in enumerate(owners)
            if owner == parent and self._marks[word] == only_marks and word not in self._fixed
        ]
        linked = [word for word in free if any(low <= source < high for source in self._links[word])]
        if not free:
            free = [word for word, owner in enumerate(owners) if self._can_give(word, owner, parent, held)]
            linked = []
        return min(linked or free, key=lambda word: (abs(word - near), -word), default=-1)

    def _expected(self, low: int, high: int) -> float:
        """Where a word for some source words would stand: beside those of the nearest ones, if any."""
        best, distance = (
            (low + high - 1) / 2 / len(self._source_owners) * len(self.owners),
            len(self._source_owners),
        )
        for word, linked in enumerate(self._links):
            for source in linked:
                away = max(low - source, source - high + 1)
                if 0 < away < distance:
                    best, distance = word + (0.5 if source < low else -0.5), away
        return best

    def _can_give(self, word: int, owner: int, parent: int, held: Counter[int]) -> bool:
        """Whether a word is at the edge of a sibling that has others."""
        element, owners = self._tree.elements[owner], self.owners
        if (
            self._marks[word]
            or word in self._fixed
            or not owner
            or element.parent != parent
            or held[owner] < 2
            or not element.is_whole
        ):
            return False
        neighbors = {owners[beside] if 0 <= beside < len(owners) else -1 for beside in (word - 1, word + 1)}
        return any(
            beside != owner and (beside < 0 or not self._tree.contains(owner, beside)) for beside in neighbors
        )
