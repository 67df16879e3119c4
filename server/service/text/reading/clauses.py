"""Where a sentence that is too long for a model is cut best.

A cut belongs behind a mark or before a conjunction or relative pronoun, and near the middle: what is
short has no context. Where there is no such place, a space near the middle has to do, in a wall of
characters any place.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

# Behind a mark that a space follows, or that needs none; how good a place it is.
_MARKS = {
    **dict.fromkeys(".!?…;。！？；।؟", 1.0),
    **dict.fromkeys(":–—：", 0.95),
    **dict.fromkeys(",，、،", 0.75),
    **dict.fromkeys(")]»”", 0.4),
}
_MARK = re.compile(r"[.!?…;:,)\]»”،؟।–—][\"'”’»)\]]{0,3}\s+|\s-\s+|[。！？；：，、][」』）”’]?\s*")
_WORD = re.compile(r"\S+")
_STRONG = 0.6
_WEAK = 0.3
# Conjunctions and relative pronouns; the weak ones also join single words, or begin what the verb needs.
_CONJUNCTIONS = {
    "en": (
        "but because which who whom whose when while if although though since unless until where whether",
        "and or that so before after as",
    ),
    "de": (
        "aber denn weil dass daß ob wenn während obwohl bevor nachdem damit sondern sobald solange falls",
        "und oder sowie als wo",
    ),
    "fr": (
        "mais car parce puisque qui dont où lorsque quand tandis afin alors quoique comme pendant",
        "et ou que si pour",
    ),
    "es": (
        "pero porque quien quienes donde cuando aunque mientras sino pues cuyo cuya como",
        "y e o u que si para",
    ),
}
_FEWEST = 4  # words of a clause
_BALANCE = 1.4  # what a cut at an end costs, in units of a place's goodness


def clause_borders(
    text: str,
    language: str,
    kept: Sequence[tuple[int, int]],
    most: int,
    length: Callable[[int, int], int],
) -> list[int]:
    """Cut a sentence into clauses that are short enough.

    Args:
        text: a sentence.
        language: ISO 639 code; other languages than en, de, fr, es are cut by punctuation alone.
        kept: start and end of parts that are not cut, disjoint and ascending.
        most: the length of a clause that is not cut, at least 1.
        length: gives the length of the text between two offsets, in the unit of `most`.

    Returns:
        Offsets above 0 and below the length of the text, ascending; none if the sentence is short enough. A
        clause is longer than `most` only if it is one character or one kept part.
    """
    places = _Places(text, language, kept)
    borders: list[int] = []
    ranges = [(0, len(text))]
    while ranges:
        start, end = ranges.pop()
        total = length(start, end)
        if total <= most:
            continue
        border = places.best(start, end, most / total)
        if border is not None:
            borders.append(border)
            ranges += (start, border), (border, end)
    return sorted(borders)


class _Places:
    """Where one sentence may be cut. For one thread."""

    def __init__(self, text: str, language: str, kept: Sequence[tuple[int, int]]) -> None:
        self._text = text
        self._kept = kept
        self._kept_starts = [start for start, _ in kept]
        goodness: dict[int, float] = {}
        strong, weak = (frozenset(words.split()) for words in _CONJUNCTIONS.get(language, ("", "")))
        words = list(_WORD.finditer(text))
        self._words = [word.start() for word in words]
        for word in words:
            name = word[0].strip(",.:;").lower() if len(word[0]) < 20 else ""
            if name in strong or name in weak:
                goodness[word.start()] = _STRONG if name in strong else _WEAK
        for match in _MARK.finditer(text):
            mark = match[0].strip()[:1].replace("-", "–")
            goodness[match.end()] = _MARKS[mark] + goodness.get(match.end(), 0.0) / 2
        self._spaced = [at for at in self._words if self._is_free(at)]
        self._places = sorted(at for at in goodness if self._is_free(at))
        self._goodness = goodness

    def best(self, start: int, end: int, share: float) -> int | None:
        """Choose a place between two offsets.

        Args:
            start: offset of the first character.
            end: offset behind the last one.
            share: what part of this a clause may be, below 1.

        Returns:
            An offset between them; None if they can not be parted.
        """
        first, last = bisect_left(self._words, start), bisect_left(self._words, end)
        found, most_score = None, -1.0
        for at in self._places[bisect_right(self._places, start) : bisect_left(self._places, end)]:
            word = bisect_left(self._words, at)
            left, right = word - first, last - word
            if min(left, right) < _FEWEST:
                continue
            smaller = min(at - start, end - at) / (end - start)
            if share < 0.25 and smaller < 0.2:
                continue  # of a very long text, so that the number of rounds stays small
            score = self._goodness[at] + _BALANCE * (smaller - 0.5)
            if share >= 0.5 and smaller < 1 - share:
                score -= 0.3  # the longer part would have to be cut again
            if score > most_score:
                found, most_score = at, score
        return found if found is not None else self._middle(start, end)

    def _middle(self, start: int, end: int) -> int | None:
        """Take the space nearest to the middle, or else the character."""
        middle = (start + end) // 2
        index = bisect_left(self._spaced, middle)
        near = [at for at in self._spaced[max(0, index - 1) : index + 1] if start < at < end]
        best = min(near, key=lambda at: abs(at - middle), default=None)
        if best is not None and min(best - start, end - best) * 8 >= end - start:
            return best
        for at in self._around(middle):
            if start < at < end and self._is_free(at):
                return at
        return best

    def _around(self, middle: int) -> list[int]:
        """Offsets near one that part no character from its marks, best first, or ends of a kept part."""
        index = bisect_right(self._kept_starts, middle) - 1
        if index >= 0 and middle < self._kept[index][1]:
            return sorted(self._kept[index], key=lambda at: abs(at - middle))
        text = self._text
        for at in range(middle, max(0, middle - 32), -1):
            is_mark = text[at : at + 1] in ("\u200d", "\ufe0f") or unicodedata.category(text[at])[0] == "M"
            if not is_mark and text[at - 1 : at] != "\u200d":
                return [at, middle]
        return [middle]

    def _is_free(self, at: int) -> bool:
        index = bisect_left(self._kept_starts, at) - 1
        return not (index >= 0 and at < self._kept[index][1])
