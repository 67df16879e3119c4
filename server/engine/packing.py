"""Which engine process a sentence goes to: a policy without locks.

Greedy sentences of short requests are packed: the last process gets none of them while there are few, and the
others get as many each. Its core is the event loop's and the clients' meanwhile, and larger batches take less
time a sentence. Two processes of the shipped model on two cores (AMD EPYC), texts of mixed lengths, packed in
turns with spread: 2, 4, 8, 16 and 24 clients take 0.83, 0.79, 0.81, 0.77 and 0.76 of the processor time a
request, and get 1.09, 1.14, 1.01, 1.07 and 1.06 times the sentences/s with 0.88, 0.85, 0.89, 0.77 and 0.73 of
the p95. More processes were not measured.

What was worse, and is not done: beams, of which the engine's share is too large (4 clients 0.90 times the
sentences/s); 32 clients with one process full and the other not (0.92), so once they are too many they are
spread until there are far fewer; an array's sentences one after the other while the other process is idle.
"""

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf

from .scheduler import Lane
from .sequence import Sequence

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
