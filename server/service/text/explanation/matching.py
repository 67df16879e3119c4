"""Where the characters of one text stand in another that is nearly the same.

What the text layer keeps of a text (pieces that are copied, sentences with their tags) is the client's text
but for what it rewrote: entities, white space, look-alike letters, values of attributes. So both are walked
side by side, and after a difference the nearest place is found where they agree again.
"""

from bisect import bisect_right
from collections.abc import Iterator

_BLOCK = 64
_NEAR = 6
"""Characters that most differences have: an entity, a run of white space."""
_AGREE = 4
_GRAM = 8
_WINDOW = 256
_WORK = 8
"""Characters that may be looked at for each one of both texts, in all searches together."""


class Matching:
    """Equal characters of two texts, in order. Immutable; thread-safe."""

    def __init__(self, text: str, other: str) -> None:
        """Match two texts, in time proportional to their length.

        Args:
            text: where characters are looked for.
            other: whose characters they are.
        """
        runs = list(_runs(text, other))
        self._starts = [start for _, start, _ in runs]
        self._runs = runs

    def range(self, start: int, end: int) -> tuple[int, int] | None:
        """Find a part of the other text.

        Args:
            start: offset in the other text.
            end: behind its last character.

        Returns:
            The range from its first to its last character that was found; None if none was.
        """
        index = max(0, bisect_right(self._starts, start) - 1)
        first = last = -1
        for place in range(index, len(self._runs)):
            at, from_, length = self._runs[place]
            low, high = max(start, from_), min(end, from_ + length)
            if from_ >= end:
                break
            if low < high:
                first = at + low - from_ if first < 0 else first
                last = at + high - from_
        return None if first < 0 else (first, last)


def _runs(text: str, other: str) -> Iterator[tuple[int, int, int]]:
    """Yield offset in the text, offset in the other one, and length of each run of equal characters."""
    if text == other:
        yield 0, 0, len(text)
        return
    left = _WORK * (len(text) + len(other)) + 4 * _WINDOW
    i = j = 0
    while i < len(text) and j < len(other):
        length = _common(text, i, other, j)
        if length:
            yield i, j, length
            i, j = i + length, j + length
        if i == len(text) or j == len(other):
            return
        found = _nearby(text, i, other, j)
        left -= _NEAR * _NEAR
        window = _WINDOW
        while found is None and left > 0:
            left -= 2 * window
            found = _ahead(text, i, other, j, window)
            if window > max(len(text) - i, len(other) - j):
                break
            window *= 4
        if found is None:
            length = _common_end(text, i, other, j)
            yield len(text) - length, len(other) - length, length
            return
        i, j = found


def _common_end(text: str, i: int, other: str, j: int) -> int:
    """Count the characters that both have at their ends, behind these offsets."""
    length = 0
    while length < min(len(text) - i, len(other) - j) and text[-1 - length] == other[-1 - length]:
        length += 1
    return length


def _common(text: str, i: int, other: str, j: int) -> int:
    """Count the characters that both have from here on."""
    length = 0
    most = min(len(text) - i, len(other) - j)
    while length < most and text[i + length : i + length + _BLOCK] == other[j + length : j + length + _BLOCK]:
        length += _BLOCK
    while length < most and text[i + length] == other[j + length]:
        length += 1
    return min(length, most)


def _nearby(text: str, i: int, other: str, j: int) -> tuple[int, int] | None:
    """Find where both agree again after few characters of either."""
    for distance in range(1, _NEAR + 1):
        for skipped in range(distance + 1):
            a, b = i + skipped, j + distance - skipped
            here, there = text[a : a + _AGREE], other[b : b + _AGREE]
            if here == there and (len(here) == _AGREE or (a + len(here) == len(text) and here)):
                return a, b
    return None


def _ahead(text: str, i: int, other: str, j: int, window: int) -> tuple[int, int] | None:
    """Find where both agree again within a window."""
    places: dict[str, int] = {}
    for a in range(i, min(i + window, len(text) - _GRAM + 1)):
        places.setdefault(text[a : a + _GRAM], a)
    for b in range(j, min(j + window, len(other) - _GRAM + 1)):
        found = places.get(other[b : b + _GRAM])
        if found is not None:
            return found, b
    return None
