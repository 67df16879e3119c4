"""One worker's engines, a lane each, and their turns."""

import functools
import logging
from collections.abc import Callable, Mapping

from server.engine.observer import EngineObserver
from server.engine.scheduling.priority import LANES, Lane, Turns
from server.engine.sequence import Outcome, Sequence
from server.engine.worker.engine import Engine
from server.errors import OutOfMemoryError

_log = logging.getLogger("dragoman.engine")


class Lanes:
    """Steps one lane at a time. Owned by the worker thread."""

    def __init__(
        self,
        make_engine: Callable[[Lane, Callable[[int], list[Sequence]]], Engine],
        schedule: Callable[[Lane, int], list[Sequence]],
        observer: EngineObserver,
        clock: Callable[[], float],
    ) -> None:
        """Make the engines.

        Args:
            make_engine: given a lane and what gives it sentences, makes its engine.
            schedule: given a lane and its free rows, hands over the sentences to start now.
            observer: told of a lane that lacked memory.
            clock: monotonic seconds.
        """
        self._make_engine = make_engine
        self._schedule = schedule
        self._observer = observer
        self._clock = clock
        self._turns = Turns()
        self._inside: dict[Lane, set[Sequence]] = {lane: set() for lane in LANES}
        self.engines = {lane: self._engine(lane) for lane in LANES}

    @property
    def rows(self) -> dict[Lane, int]:
        """Decoder rows in use, by lane."""
        return {lane: engine.rows for lane, engine in self.engines.items()}

    @property
    def cache_bytes(self) -> int:
        """Bytes of the caches of all arenas."""
        return sum(engine.cache_bytes for engine in self.engines.values())

    def step(self, waiting: Mapping[Lane, bool]) -> list[Outcome]:
        """Step the lane whose turn it is.

        A lane whose engine lacks memory loses its sentences and their arenas, and goes on with new ones.

        Args:
            waiting: for each lane, whether there are sentences to start.

        Returns:
            The sentences that left in this step.
        """
        work = {lane: waiting[lane] or engine.rows > 0 for lane, engine in self.engines.items()}
        lane = self._turns.next(short=work["short"], long=work["long"])
        other: Lane = "long" if lane == "short" else "short"
        bursts = not work[other] and not waiting[lane]
        outcomes = self._step(lane, functools.partial(self.engines[lane].step, bursts=bursts))
        if not outcomes and not self.engines[lane].rows and work[other]:
            outcomes = self._step(
                other, self.engines[other].step
            )  # what waits in this lane cannot be started now
        return outcomes

    def free_idle(self) -> dict[Lane, set[int]]:
        """Give back the arenas without a sentence; returns the beam widths that stay."""
        return {lane: engine.free_idle() for lane, engine in self.engines.items()}

    def close(self) -> None:
        """Let the engines go, and with them the model and the caches; nothing is stepped any more."""
        self.engines.clear()

    def decode(self, undisturbed: Callable[[], bool]) -> list[Outcome]:
        """Go on decoding without looking for news, if only one lane has sentences.

        With one row, what this leaves out is a third of Python's share of a step.

        Args:
            undisturbed: asked before each step; False ends it.

        Returns:
            The sentences that left in the last step.
        """
        busy = [lane for lane, engine in self.engines.items() if engine.rows]
        if len(busy) != 1:
            return []
        engine = self.engines[busy[0]]
        outcomes: list[Outcome] = []
        until_s = engine.next_deadline_s
        while not outcomes and undisturbed() and self._clock() < until_s:
            outcomes = self._step(busy[0], functools.partial(engine.decode, bursts=True))
        return outcomes

    def _step(self, lane: Lane, step: Callable[[], list[Outcome]]) -> list[Outcome]:
        started_s = self._clock()
        try:
            outcomes = step()
        except MemoryError:
            _log.exception("no memory for a step: %d sentences are lost", len(self._inside[lane]))
            self._observer.error("out_of_memory")
            error = OutOfMemoryError("the server has no memory for this request now")
            outcomes = [Outcome(sequence, error) for sequence in self._inside[lane]]
            self.engines[lane] = self._engine(lane)
        if outcomes:
            self._inside[lane].difference_update(outcome.sequence for outcome in outcomes)
        self._turns.took(lane, self._clock() - started_s)
        return outcomes

    def _engine(self, lane: Lane) -> Engine:
        def schedule(free_rows: int) -> list[Sequence]:
            admitted = self._schedule(lane, free_rows)
            self._inside[lane].update(admitted)
            return admitted

        return self._make_engine(lane, schedule)
