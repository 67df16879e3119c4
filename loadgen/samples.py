"""What came of requests: a few numbers each, in columns, so that an hour of load fits into memory."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

ANSWERED = "200"
"""Kind of a request that was translated; every other kind is a failure."""


@dataclass(slots=True)
class Samples:
    """Requests in the order of their ends; times are seconds since the load began. Used from one event loop.

    Attributes:
        meant_s: when each was meant to be sent.
        late_s: how much later the client got to it: large values mean that the client was the bottleneck.
        finished_s: when it ended.
        words: of its translation.
        retries: requests that were sent again after `Retry-After`.
        counts: how many have ended in which way.
    """

    meant_s: array[float] = field(default_factory=lambda: array("d"))
    late_s: array[float] = field(default_factory=lambda: array("d"))
    finished_s: array[float] = field(default_factory=lambda: array("d"))
    words: array[int] = field(default_factory=lambda: array("L"))
    retries: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    _kinds: array[int] = field(default_factory=lambda: array("H"))
    _names: list[str] = field(default_factory=lambda: [ANSWERED])

    def __len__(self) -> int:
        """How many requests have ended."""
        return len(self._kinds)

    def add(self, kind: str, meant_s: float, late_s: float, finished_s: float, words: int = 0) -> None:
        """Note a request.

        Args:
            kind: `ANSWERED`, or how it failed; one of few.
            meant_s: when it was meant to be sent.
            late_s: how much later that was done.
            finished_s: when it ended.
            words: of its translation.
        """
        if kind not in self._names:
            self._names.append(kind)
        self.counts[kind] += 1
        self._kinds.append(self._names.index(kind))
        self.meant_s.append(meant_s)
        self.late_s.append(late_s)
        self.finished_s.append(finished_s)
        self.words.append(words)

    @property
    def kinds(self) -> list[str]:
        """How each request ended."""
        return [self._names[kind] for kind in self._kinds]
