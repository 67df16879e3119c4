"""Which worker a sentence goes to: a pure policy over the rows that every worker has.

A worker takes sentences for its rows and a few ahead, so that a row that becomes free is not idle until the
dispatcher has heard of it. The worker with the fewest rows is next, but few rows stay together where that
pays: a step costs almost as much for one row as for a few, because reading the weights is what it takes, and
a worker that is alone may use the threads of the others.

While interactive and bulk requests compete, bulk ones get one row in `SHARE`, so that a step stays short, and
never less. While interactive ones may come at any time, the same share is kept free for them.

Sentences whose worker died while it had them are suspects: one of them may be what killed it. Every worker
gets one of them at a time, so that one that kills again is known.
"""

from collections import deque
from collections.abc import Iterable

from server.engine.scheduling.waiting_queue import SHARE, Rivalry
from server.engine.sequence import Sequence

FEW_ROWS = 6
"""Rows that stay together on one worker before another one joins."""

MOST_DEATHS, DEATHS_WITHIN_S = 3, 60.0
"""So many deaths of workers in so many seconds mean that replacing them does not help."""


class Placement:
    """Rows in use by worker. Not thread-safe: the dispatcher calls it under its lock."""

    def __init__(self, workers: int, max_rows: int, rows_ahead: int, rows_together: int) -> None:
        """Start with idle workers, all of them available.

        Args:
            workers: how many there are.
            max_rows: rows that each decodes at a time.
            rows_ahead: rows that each is given beyond those.
            rows_together: rows up to which sentences stay on a worker that has some; 1 spreads them.
        """
        self._max_rows = max_rows
        self._most = max_rows + rows_ahead
        self._together = max(1, min(rows_together, max_rows // 2))
        self._rows = [0] * workers
        self._bulk = [0] * workers
        self._available = set(range(workers))

    @property
    def busy_rows(self) -> int:
        """Rows that are decoded, over all workers."""
        return sum(min(rows, self._max_rows) for rows in self._rows)

    @property
    def rows_ahead(self) -> int:
        """Rows that wait with a worker."""
        return sum(max(0, rows - self._max_rows) for rows in self._rows)

    @property
    def available(self) -> list[int]:
        """Workers that can take sentences."""
        return sorted(self._available)

    def set_available(self, worker: int, *, available: bool) -> None:
        """Note that a worker can take sentences, or has died and has none."""
        if available:
            self._available.add(worker)
        else:
            self._available.discard(worker)
            self._rows[worker] = self._bulk[worker] = 0

    def choose(self, sequence: Sequence, rivalry: Rivalry) -> int | None:
        """Choose the worker for a sentence; None if all have as many rows as they may have.

        `rivalry` says whether requests of the other class compete for rows.
        """
        able = [worker for worker in self._available if self._has_room(worker, sequence, rivalry)]
        if not able:
            return None
        together = [worker for worker in able if 0 < self._rows[worker] < self._together]
        if together:
            return max(together, key=lambda worker: (self._rows[worker], -worker))
        return self._least(able)

    def place(self, sequence: Sequence, worker: int) -> None:
        """Count the rows of a sentence that is sent to a worker."""
        self._count(worker, sequence, 1)

    def remove(self, sequence: Sequence, worker: int) -> None:
        """Count the rows of a sentence that has left a worker no more."""
        self._count(worker, sequence, -1)

    def _least(self, workers: Iterable[int]) -> int:
        return min(workers, key=lambda worker: (self._rows[worker], worker))

    def _has_room(self, worker: int, sequence: Sequence, rivalry: Rivalry) -> bool:
        rows, bulk, wanted = self._rows[worker], self._bulk[worker], sequence.beam_size
        if rows + wanted > self._most:
            return rows == 0
        share = self._max_rows // SHARE
        if sequence.priority == "bulk":
            limit = {"none": self._most, "expected": self._most - share, "present": share}[rivalry]
            return not bulk or bulk + wanted <= limit
        interactive = rows - bulk
        return rivalry != "present" or not interactive or interactive + wanted <= self._most - share

    def _count(self, worker: int, sequence: Sequence, sign: int) -> None:
        self._rows[worker] += sign * sequence.beam_size
        if sequence.priority == "bulk":
            self._bulk[worker] += sign * sequence.beam_size


class Suspects:
    """Gives every worker one suspect at a time. Not thread-safe."""

    def __init__(self, workers: int) -> None:
        """Suspect nobody."""
        self._waiting: deque[Sequence] = deque()
        self._decoding: list[Sequence | None] = [None] * workers
        self._deaths_s: deque[float] = deque(maxlen=MOST_DEATHS)

    def __len__(self) -> int:
        """Sentences that wait to be tried again."""
        return len(self._waiting)

    def take(self, workers: Iterable[int]) -> list[tuple[Sequence, int]]:
        """Choose a suspect for each of these workers that has none; aborted ones are dropped."""
        taken = []
        for worker in workers:
            while self._waiting and self._decoding[worker] is None:
                sequence = self._waiting.popleft()
                if not sequence.aborted:
                    self._decoding[worker] = sequence
                    taken.append((sequence, worker))
        return taken

    def acquit(self, worker: int, sequence: Sequence) -> None:
        """Note that a sentence has ended on a worker."""
        if self._decoding[worker] is sequence:
            self._decoding[worker] = None

    def convict(self, worker: int, lost: Iterable[Sequence]) -> Sequence | None:
        """Note that a worker died with these sentences, which are tried again.

        Returns:
            The one that has now had two workers that died, if there is one; it is not tried again.
        """
        killer, self._decoding[worker] = self._decoding[worker], None
        self._waiting.extend(sequence for sequence in lost if sequence is not killer)
        return killer

    def is_hopeless(self, now_s: float) -> bool:
        """Count a death now; whether there were too many lately."""
        self._deaths_s.append(now_s)
        return len(self._deaths_s) == MOST_DEATHS and self._deaths_s[0] > now_s - DEATHS_WITHIN_S

    def clear(self) -> None:
        """Forget all of them."""
        self._waiting.clear()
        self._decoding = [None] * len(self._decoding)
