"""Lines on standard error that say how long a part has run and how much of it is done."""

from __future__ import annotations

import re
import sys
import time

_LINE = re.compile(r"\[ *[\d.]+ s, +(\d+) %\] ")


class Progress:
    """Clock and share of one part. Not thread-safe."""

    def __init__(self, units: float) -> None:
        """Start the clock.

        Args:
            units: of work in all; what a unit is, the part knows.
        """
        self._units, self._done = max(units, 1e-9), 0.0
        self._started_s = time.monotonic()

    def say(self, line: str, *, done: float = 0.0) -> None:
        """Print a line.

        Args:
            line: to print.
            done: units that were finished just now.
        """
        self._done += done
        percent = min(100, int(100 * self._done / self._units))
        passed_s = time.monotonic() - self._started_s
        print(f"[{passed_s:6.1f} s, {percent:3d} %] {line}", file=sys.stderr, flush=True)


def share_of(line: str) -> float | None:
    """Read how much of its part a line says is done, from 0 to 1; None if it says nothing of it."""
    found = _LINE.match(line)
    return int(found[1]) / 100 if found else None


def time_left_s(share: float, passed_s: float, expected_s: float) -> float:
    """Estimate what is left of a part.

    The more of it is done, the less the estimate from before counts.

    Args:
        share: of it that is done.
        passed_s: since it began.
        expected_s: what was expected of all of it before it began.
    """
    if share >= 1:
        return 0.0
    before_s = max(expected_s - passed_s, expected_s * (1 - share) / 2)
    if share <= 0:
        return before_s
    return share * passed_s * (1 - share) / share + (1 - share) * before_s
