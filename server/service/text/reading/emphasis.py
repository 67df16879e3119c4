"""Which `*`, `_`, `~~` and `==` are emphasis: the delimiter algorithm of CommonMark 0.31, section 6.2.

It is stricter inside of words, so that products and names in code stay text: a lone `*` between letters or
digits is none. A single `~` counts only beside letters: `~5` is about five.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_DEPTH = 50  # how many openers are looked back at


@dataclass(slots=True)
class Run:
    """Equal delimiters in a row; those from `start` to `end` are not used yet.

    Attributes:
        start: offset of the first one.
        end: offset behind the last one.
        mark: the character.
        opens: whether it may begin emphasis.
        closes: whether it may end it.
        length: how many there were.
    """

    start: int
    end: int
    mark: str
    opens: bool
    closes: bool
    length: int

    @classmethod
    def of(cls, source: str, start: int, end: int) -> "Run":
        """Judge a run by the characters around it.

        Args:
            source: the text.
            start: offset of the first delimiter.
            end: offset behind the last one.
        """
        before, behind = source[start - 1 : start] if start else " ", source[end : end + 1] or " "
        mark, length = source[start], end - start
        left = not behind.isspace() and (_is_word(behind) or not _is_word(before))
        right = not before.isspace() and (_is_word(before) or not _is_word(behind))
        inside = _is_word(before) and _is_word(behind)
        if mark == "_":
            opens = left and (not right or not _is_word(before))
            closes = right and (not left or not _is_word(behind))
        else:
            is_sum = inside and (length == 1 or mark == "=" or (before.isdigit() and behind.isdigit()))
            opens, closes = left and not is_sum, right and not is_sum
        is_about = length == 1 and not (before.isalpha() or behind.isalpha())
        if length > 3 or (mark == "~" and (length == 3 or is_about)):
            opens = closes = False
        return cls(start, end, mark, opens, closes, length)


def pair_runs(runs: Sequence[Run]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Pair openers with closers, innermost first.

    Args:
        runs: in the order of the text; what is used of them is taken off.

    Yields:
        Start and end of the opening and of the closing delimiters of each emphasis; pairs do not cross.
    """
    openers: list[Run] = []
    for run in runs:
        while run.closes and run.end > run.start:
            index = _opener_of(run, openers)
            if index is None:
                break
            opener = openers[index]
            del openers[index + 1 :]
            used = 2 if min(opener.end - opener.start, run.end - run.start) >= 2 else 1
            yield (opener.end - used, opener.end), (run.start, run.start + used)
            opener.end -= used
            run.start += used
            if opener.end == opener.start:
                openers.pop()
        if run.opens and run.end > run.start:
            openers.append(run)


def _opener_of(run: Run, openers: Sequence[Run]) -> int | None:
    for index in range(len(openers) - 1, max(-1, len(openers) - 1 - _DEPTH), -1):
        opener = openers[index]
        if opener.mark != run.mark or opener.end == run.start:
            continue
        both = opener.closes or run.opens
        thirds = (opener.length + run.length) % 3 == 0 and not (
            opener.length % 3 == 0 and run.length % 3 == 0
        )
        if run.mark == "~" or not (both and thirds):
            return index
    return None


def _is_word(char: str) -> bool:
    """Whether a character is a letter, a digit or a mark on one."""
    return char.isalnum() or unicodedata.category(char)[0] == "M"
