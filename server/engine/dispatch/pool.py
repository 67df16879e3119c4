"""The sentences of a model that have not ended: their waiting line, their futures, and how each ends once.

What decodes them is up to a subclass: threads of this process (`worker.WorkerPool`) or processes of their own
(`process_pool.ProcessPool`).
"""

import functools
import logging
import math
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from collections.abc import Sequence as SequenceOf
from concurrent.futures import Future

from server.engine.limits import EngineLimits
from server.engine.observer import EndReason, EngineObserver
from server.engine.options import DecodingOptions
from server.engine.scheduling.priority import Lane
from server.engine.scheduling.waiting_queue import Scheduler
from server.engine.sequence import Outcome, Sequence, SequenceResult, end_of_unwanted
from server.engine.validation import check
from server.errors import DragomanError, DrainingError, EngineDeadError
from server.runtime.model_spec import ModelSpec

_log = logging.getLogger("dragoman.engine")

_END_REASONS: dict[str, EndReason] = {
    "aborted": "cancelled",
    "draining": "cancelled",
    "deadline_exceeded": "deadline",
}
"""Reason of an error -> reason for which a sentence left; every other is `error`."""


class Pool(ABC):
    """What all pools have in common. Thread-safe.

    A subclass takes sentences out of `_scheduler` and hands every outcome to `_finish`.
    """

    def __init__(
        self, spec: ModelSpec, limits: EngineLimits, observer: EngineObserver, clock: Callable[[], float]
    ) -> None:
        """Start with an empty line.

        Args:
            spec: sizes of the model.
            limits: what the pool takes on.
            observer: told what happens.
            clock: monotonic seconds; deadlines are on this clock.
        """
        self._spec = spec
        self._limits = limits
        self._observer = observer
        self._clock = clock
        self._scheduler = Scheduler(limits)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # all sentences have ended, or the engine has
        self._live: dict[str, set[Sequence]] = {}
        self._draining = False
        self._stopping = False
        self._death: BaseException | None = None
        self._last_progress_s = clock()

    @property
    def spec(self) -> ModelSpec:
        """Sizes of the model."""
        return self._spec

    @property
    def limits(self) -> EngineLimits:
        """What the pool takes on."""
        return self._limits

    def submit(
        self,
        request_id: str,
        sources: SequenceOf[SequenceOf[int]],
        options: DecodingOptions | SequenceOf[DecodingOptions],
        deadline_s: float | None = None,
    ) -> list[Future[SequenceResult]]:
        """Put all sentences of a request in the line, or none.

        Each future ends exactly once: with a result, or with DeadlineExceededError, AbortedError,
        InferenceError, DrainingError (the pool closed before it was done) or EngineDeadError. Cancelling a
        future frees its row.

        Args:
            request_id: names the request for `abort` and for fair sharing.
            sources: token ids of every sentence, prefix and suffix included.
            options: how to decode them, all alike or each its own way.
            deadline_s: time on the pool's clock after which nobody waits for them, if there is one.

        Returns:
            One future per sentence, in order.

        Raises:
            InvalidRequestError: an option or a sentence is out of range; subclasses say how.
            QueueFullError: there is no room in the line now.
            DrainingError: the pool is closing.
            EngineDeadError: a worker crashed.
        """
        each = [options] * len(sources) if isinstance(options, DecodingOptions) else list(options)
        check(sources, each, self._spec, self._limits)
        now_s, end_s = self._clock(), math.inf if deadline_s is None else deadline_s
        sequences = [
            Sequence(request_id, tuple(source), one, now_s, end_s, Future())
            for source, one in zip(sources, each, strict=True)
        ]
        self.take(request_id, sequences)
        return [sequence.future for sequence in sequences]

    def take(self, request_id: str, sequences: list[Sequence], lane: Lane | None = None) -> None:
        """Put sentences in the line that were checked before, all of them or none.

        Args:
            request_id: of their request.
            sequences: with futures that nobody has resolved.
            lane: of the request, where these are not all of its sentences.

        Raises:
            QueueFullError, DrainingError, EngineDeadError: as `submit`.
        """
        with self._lock:
            if self._death is not None:
                raise EngineDeadError("the engine has stopped")
            if self._draining:
                raise DrainingError("the server is shutting down")
            self._scheduler.add(sequences, lane)
            self._live.setdefault(request_id, set()).update(sequences)
            self._tell()
        for sequence in sequences:
            # A future keeps its callbacks for ever: with the sentence itself among them the two would be a
            # circle, 31 objects for the collector to find, which took 5 % of the event loop's time.
            sequence.future.add_done_callback(functools.partial(self._on_done, weakref.ref(sequence)))

    def check_room(self, active: int) -> None:
        """Raise QueueFullError without room for one more than those of `active` requests not here yet."""
        with self._lock:
            self._scheduler.check_room(1 + max(0, active - len(self._live)))

    def abort(self, request_id: str) -> None:
        """End a request: waiting sentences leave the line now, decoding ones their rows within a step."""
        with self._lock:
            self._scheduler.abort(request_id)
            sequences = list(self._live.get(request_id, ()))
        self.drop(sequences)

    def drop(self, sequences: SequenceOf[Sequence]) -> None:
        """End sentences as aborted, unless they have ended; their rows are free within a step."""
        with self._lock:
            for sequence in sequences:
                sequence.aborted = True
            self._unwanted(sequences)
        self._end(sequences, end_of_unwanted)

    def extend(self, request_id: str, futures: Collection[Future[SequenceResult]], deadline_s: float) -> None:
        """Try those of a request's sentences that have not ended until a later time."""
        with self._lock:
            for sequence in self._live.get(request_id, ()):
                if sequence.future in futures:
                    self._extend(sequence, deadline_s)

    def decoding(self, request_id: str) -> bool:
        """Tell whether a sentence of a request has left the line and is being encoded or decoded."""
        with self._lock:
            return len(self._live.get(request_id, ())) > self._scheduler.waiting(request_id)

    @abstractmethod
    def _tell(self) -> None:
        """Look after the line, or have it looked after, since it has changed; called with the lock held."""

    @abstractmethod
    def _unwanted(self, sequences: SequenceOf[Sequence]) -> None:
        """Free what aborted sentences have, wherever they are; called with the lock held."""

    def _extend(self, sequence: Sequence, deadline_s: float) -> None:
        """Move a deadline, never back; called with the lock held."""
        sequence.deadline_s = max(sequence.deadline_s, deadline_s)

    def _die(self, error: BaseException) -> None:
        """Record that a worker crashed: nothing can be decoded any more, every caller is told."""
        with self._lock:
            if self._stopping:
                return
            _log.critical("a worker crashed; the engine has stopped", exc_info=error)
            self._death = error
            self._stopping = True
            left = self._take_all()
            self._tell()
        self._observer.error("worker_lost")
        self._end(left, lambda _: EngineDeadError("the engine has stopped"))

    def _take_all(self) -> list[Sequence]:
        """Empty the line and forget every sentence; call with the lock held."""
        self._scheduler.drain()
        left = [sequence for sequences in self._live.values() for sequence in sequences]
        for sequence in left:
            sequence.aborted = True
        return left

    def _on_done(self, reference: weakref.ref[Sequence], future: Future[SequenceResult]) -> None:
        """Abort a sentence whose caller cancelled its future."""
        if future.cancelled():
            sequence = reference()
            if sequence is not None:
                self.drop([sequence])

    def _end(self, sequences: Iterable[Sequence], error: Callable[[Sequence], DragomanError]) -> None:
        """End sentences without a result."""
        for sequence in sequences:
            self._finish(Outcome(sequence, error(sequence)))

    def _finish(self, outcome: Outcome) -> None:
        """Forget a sentence, tell the observer and resolve its future; does nothing the second time."""
        sequence, result = outcome.sequence, outcome.result
        with self._lock:
            request = self._live.get(sequence.request_id)
            if request is None or sequence not in request:
                return
            request.discard(sequence)
            if not request:
                del self._live[sequence.request_id]
            if not self._live:
                self._changed.notify_all()
        if isinstance(result, SequenceResult):
            self._observer.finished(
                result.finish_reason, result.source_tokens, result.target_tokens, result.queue_s
            )
        else:
            reason = _END_REASONS.get(result.reason, "error")
            self._observer.finished(reason, len(sequence.source), 0, sequence.queue_s)
        outcome.resolve()
