"""Sentences whose worker died while it had them: one of them may be what killed it."""

from collections import deque
from collections.abc import Iterable

from server.engine.sequence import Sequence

MOST_DEATHS, DEATHS_WITHIN_S = 3, 60.0
"""So many deaths of workers in so many seconds mean that replacing them does not help."""


class Suspects:
    """Gives every worker one suspect at a time, so that one that kills again is known. Not thread-safe."""

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
        """Note that a worker died.

        Args:
            worker: which.
            lost: the sentences that it had; they are tried again.

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
