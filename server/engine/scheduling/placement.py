"""Which of the workers start waiting sentences, how many rows each and when: a policy without locks.

A step costs almost as much for one row as for a few, because what it takes is reading the weights. So few
rows stay together, on the worker that has most already, and another worker joins where there are more than
`FEW_ROWS` for each. With two cores, 2 to 4 rows of 6+6 layers of 512 then take 0.76 to 0.85 of the time that
they take spread out, since the worker that is left alone uses both cores, and 1 to 4 rows of 6+2 layers of
256 take 0.82 to 0.97 of it, where a second core gains nothing but the other worker's Python is saved.

An encoder run costs as much for its weights as for one or two short sentences. So a busy worker lets up to
`GATHERED_ROWS` gather, for `PATIENCE_STEPS` at most, and starts them in one run: with 64 sentences of the
shipped model in decoding that makes 1.04 to 1.08 times the tokens/s, and each sentence is ready sooner. The
sentences of a document do not gather before its other ones that start now are decoded: see
`Engine(starts_first=True)`.
"""

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf

from server.engine.scheduling.priority import LANES, STARTS_FIRST, Lane
from server.engine.sequence import Sequence

FEW_ROWS = 6
"""Rows of a lane that one worker decodes alone."""

GATHERED_ROWS = 8
"""Rows that a worker waits for before it starts them; half as many as it decodes, if that is less."""

PATIENCE_STEPS = 2
"""Steps that it waits for them."""

DEVICE_GATHERED_ROWS, DEVICE_PATIENCE_STEPS = 64, 4
"""The same on a GPU, where an encoder run costs as much as several steps, however few its sentences are."""


class Shares:
    """Rows in use, by lane and worker. Not thread-safe: the worker pool calls it under its lock."""

    def __init__(self, workers: int, max_rows: int, *, on_device: bool = False) -> None:
        """Start with idle workers.

        Args:
            workers: how many there are.
            max_rows: rows of a lane that each may have.
            on_device: whether they decode on a GPU.
        """
        self._gathered_rows = DEVICE_GATHERED_ROWS if on_device else GATHERED_ROWS
        self._patience_steps = DEVICE_PATIENCE_STEPS if on_device else PATIENCE_STEPS
        self._workers = range(workers)
        self._few_rows = max(1, min(FEW_ROWS, max_rows // 2))
        self._busy: dict[Lane, list[int]] = {lane: [0] * workers for lane in LANES}
        self._waited: dict[Lane, list[int]] = {lane: [0] * workers for lane in LANES}

    @property
    def rows(self) -> int:
        """Rows in use, of all workers and lanes."""
        return sum(map(sum, self._busy.values()))

    def note(self, worker: int, lane: Lane, rows: int) -> bool:
        """Record the rows that a worker has in use; tells whether that is news."""
        busy = self._busy[lane]
        changed, busy[worker] = busy[worker] != rows, rows
        return changed

    def called(self, lane: Lane, waiting: int, *, everyone: bool = False) -> list[int]:
        """List the workers that should start what waits.

        Args:
            lane: where it waits.
            waiting: rows of what waits.
            everyone: whether all of them are to try, few rows or not.

        Returns:
            None of them if nothing waits; else first those whose other lane is idle, and of these the one
            with most rows first.
        """
        if not waiting:
            return []
        if everyone:
            return list(self._workers)
        busy = self._busy[lane]
        beside = self._busy["long" if lane == "short" else "short"]
        wanted = -(-(sum(busy) + waiting) // self._few_rows)
        return sorted(self._workers, key=lambda worker: (beside[worker] > 0, -busy[worker], worker))[:wanted]

    def share(self, worker: int, lane: Lane, waiting: int, *, everyone: bool = False) -> int:
        """Say how many rows a worker should start now, so that all have about as many in the end.

        Every worker asks once a step: one that is busy gets none until more have gathered.

        Args:
            worker: who asks.
            lane: where they wait.
            waiting: rows of what waits.
            everyone: as in `called`.

        Returns:
            Rows; zero or less for none.
        """
        waited = self._waited[lane]
        called = self.called(lane, waiting, everyone=everyone)
        if worker not in called:
            waited[worker] = 0
            return 0
        busy = self._busy[lane]
        share = -(-(sum(busy[one] for one in called) + waiting) // len(called)) - busy[worker]
        gathers = 0 < share < min(self._gathered_rows, busy[worker] // 2) and not everyone
        waited[worker] = waited[worker] + 1 if gathers and waited[worker] < self._patience_steps else 0
        if waited[worker]:
            return 0
        if lane in STARTS_FIRST and share > 0:
            # It asks again before it decodes: what is left need not gather.
            waited[worker] = self._patience_steps
        return share


PACKED_ROWS = 40
"""Rows of each packed process from which on sentences are spread."""


PACKED_AGAIN_ROWS = 16
"""Rows of each packed process below which they are packed again."""


QUIET_ROWS = 6
"""Rows in use below which sentences that come together are spread: nobody else needs the processor."""


class Packing:
    """Chooses processes. Not thread-safe: the pool calls it under its lock."""

    def __init__(self, rows: Mapping[Lane, SequenceOf[int]], max_rows: int) -> None:
        """Have nothing to choose for yet.

        Args:
            rows: of each lane, those that each process has, kept by the pool.
            max_rows: those that it may have in a lane.
        """
        self._rows = rows
        self._all = range(len(rows["short"]))
        self._packed = self._all[:-1] or self._all
        self._most_rows = min(PACKED_ROWS, max_rows) * len(self._packed)
        self._again_rows = min(PACKED_AGAIN_ROWS, max_rows) * len(self._packed)
        self._many = False
        self._company = False

    def arrive(self, sentences: int) -> None:
        """Note how many sentences wait to be sent; those that come together do."""
        self._company = sentences > 1 and sum(self._rows["short"]) < QUIET_ROWS

    def choose(self, sequence: Sequence, lane: Lane) -> int:
        """Choose the process that a sentence goes to.

        Args:
            sequence: the sentence.
            lane: of its request.
        """
        total = sum(self._rows["short"])
        self._many = total >= (self._again_rows if self._many else self._most_rows)
        alike = lane == "short" and sequence.beam_size == 1 and not any(self._rows["long"])
        among = self._packed if alike and not (self._many or self._company) else self._all
        rows, beside = self._rows[lane], self._rows["long" if lane == "short" else "short"]
        return min(among, key=lambda process: (rows[process], beside[process]))
