"""Requests in, futures out: the one queue of a model, and which worker gets what.

A sentence waits here until a worker has a row for it, or nearly (`Placement`). What a worker says about it
comes in reports, and its future is resolved here, once. A worker that dies is replaced. The sentences that it
had are decoded again, one at a time on each worker, so that one that kills its second worker, too, is known:
it fails, alone. Workers that die again and again mean that nothing works: then the engine is dead.
"""

import asyncio
import contextlib
import functools
import itertools
import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from collections.abc import Sequence as SequenceOf
from concurrent.futures import Future, InvalidStateError
from dataclasses import replace

from server.engine.dispatch.worker_processes import WorkerProcesses
from server.engine.dispatch.worker_threads import WorkerThreads
from server.engine.ipc.messages import Drop, FromWorker, Ready, Refused, Report, Start
from server.engine.limits import EngineLimits, EngineStats
from server.engine.observer import EngineObserver, end_reason
from server.engine.options import DecodingOptions
from server.engine.scheduling.placement import Placement, Suspects
from server.engine.scheduling.waiting_queue import Rivalry, WaitingQueue, priority_of
from server.engine.sequence import Sequence, SequenceResult, check_sources, end_of_unwanted
from server.errors import DragomanError, DrainingError, EngineDeadError, InferenceError

_log = logging.getLogger("dragoman.engine")

_DETACH_TIMEOUT_S = 5.0


class Dispatcher:
    """Workers over one model. Thread-safe."""

    def __init__(
        self,
        workers: WorkerProcesses | WorkerThreads,
        limits: EngineLimits,
        observer: EngineObserver,
        clock: Callable[[], float] = time.monotonic,
        rows_together: int = 1,
    ) -> None:
        """Wait until all workers are ready.

        Args:
            workers: as they were started, with the same model and limits; this object ends them.
            limits: what the engine takes on; `max_rows` are those that the workers have chosen.
            observer: told what happens.
            clock: monotonic seconds, the same clock that the workers have.
            rows_together: see `Placement`.

        Raises:
            EngineDeadError: a worker has ended.
            Exception: as a worker refused to load its model.
        """
        self._workers = workers
        try:
            workers.wait_loaded()
            each = [handle.wait_ready() for handle in workers.each]
        except BaseException:
            workers.close()
            raise
        first = each[0]
        self._spec = first.spec
        self._limits = replace(limits, max_rows=first.limits.max_rows)
        self._observer, self._clock = observer, clock
        self._queue = WaitingQueue(self._limits)
        self._placement = Placement(len(each), first.limits.max_rows, workers.rows_ahead, rows_together)
        self._pids = [ready.pid for ready in each]
        self._cache_bytes = [0] * len(each)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # all sentences have ended, or the engine has
        self._numbers = itertools.count()
        self._live: dict[str, set[Sequence]] = {}
        self._sent: dict[int, Sequence] = {}
        self._suspects = Suspects(len(each))
        self._draining = self._stopping = False
        self._death: BaseException | None = None
        self._last_progress_s = clock()
        self._loop: asyncio.AbstractEventLoop | None = None
        for index in range(len(each)):
            self._listen(index)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear of worker processes on an event loop; called once, on its thread, before `submit`."""
        self._loop = loop
        self._workers.watch(loop, self._die)
        for handle in self._workers.each:
            handle.attach(loop)

    def submit(
        self,
        request_id: str,
        sources: SequenceOf[SequenceOf[int | bytes]],
        options: DecodingOptions | SequenceOf[DecodingOptions],
        deadline_s: float | None = None,
    ) -> list[Future[SequenceResult]]:
        """Queue all sentences of a request, or none.

        Each future ends exactly once: with a result, or with DeadlineExceededError, AbortedError,
        InferenceError, DrainingError (the engine closed before it was done) or EngineDeadError. Canceling a
        future frees its row.

        Args:
            request_id: names the request for `abort` and for fair sharing.
            sources: token ids of every sentence, prefix and suffix included; or its feature vectors.
            options: how to decode them, all the same way or each its own.
            deadline_s: time on the engine's clock after which nobody waits for them, if there is one.

        Returns:
            One future per sentence, in order.

        Raises:
            InvalidRequestError: an option or a sentence is out of range; subclasses say how.
            QueueFullError: there is no room in the queue now.
            DrainingError: the engine is closing.
            EngineDeadError: workers died again and again.
        """
        each = [options] * len(sources) if isinstance(options, DecodingOptions) else list(options)
        check_sources(sources, each, self._spec, self._limits)
        now_s, end_s = self._clock(), math.inf if deadline_s is None else deadline_s
        priority = priority_of(sources, each)
        futures: list[Future[SequenceResult]] = [Future() for _ in sources]
        sequences = [
            Sequence(next(self._numbers), tuple(source), one, priority, now_s, end_s, request_id, future)
            for source, one, future in zip(sources, each, futures, strict=True)
        ]
        with self._lock:
            if self._death is not None:
                raise EngineDeadError("the engine has stopped")
            if self._draining:
                raise DrainingError("the server is shutting down")
            if not sequences:
                return []  # nothing would ever end, and be forgotten
            self._queue.add(sequences)
            self._live.setdefault(request_id, set()).update(sequences)
            self._dispatch()
        for sequence, future in zip(sequences, futures, strict=True):
            # A future keeps its callbacks for ever: with the sentence itself among them the two would be a
            # circle, 31 objects for the collector to find, which took 5 % of the event loop's time.
            future.add_done_callback(functools.partial(self._on_done, weakref.ref(sequence)))
        return futures

    def check_room(self, active: int) -> None:
        """Raise QueueFullError without room for one more than those of `active` requests not here yet."""
        with self._lock:
            self._queue.check_room(1 + max(0, active - len(self._live)))

    def abort(self, request_id: str) -> None:
        """End a request: waiting sentences leave the queue now, decoding ones their rows within a step."""
        with self._lock:
            self._queue.abort(request_id)
            sequences = list(self._live.get(request_id, ()))
        self._drop(sequences)

    def decoding(self, request_id: str) -> bool:
        """Tell whether a sentence of a request has left the queue and is being encoded or decoded."""
        with self._lock:
            return len(self._live.get(request_id, ())) > self._queue.waiting(request_id)

    def stats(self) -> EngineStats:
        """Say what the engine is doing now."""
        with self._lock:
            oldest_s = self._queue.oldest_s()
            return EngineStats(
                queue_sentences=self._queue.sentences + len(self._suspects) + self._placement.rows_ahead,
                queue_tokens=self._queue.tokens,
                queue_oldest_age_s=0.0 if oldest_s is None else self._clock() - oldest_s,
                rows_busy=self._placement.busy_rows,
                rows_total=self._limits.max_rows * len(self._pids),
                max_rows=self._limits.max_rows,
                kv_cache_bytes=sum(self._cache_bytes),
                alive=self._death is None,
                last_progress_s=self._last_progress_s,
                engine_pids=self._workers.pids + tuple(pid for pid in self._pids if pid),
            )

    def close(self, timeout_s: float) -> None:
        """Take no new work, finish what there is, end the workers; afterwards their memory is free.

        What is not done after `timeout_s` ends with DrainingError, and a run in progress is terminated.
        """
        with self._lock:
            self._draining = True
            self._changed.wait_for(lambda: not self._live or self._death is not None, timeout_s)
            self._stopping = True
            left = self._take_all()
        if left:
            self._workers.terminate()
            self._observer.error("terminated")
            self._end(left, lambda _: DrainingError("the server shut down before the translation was ready"))
        self._detach()
        self._workers.close()

    def _detach(self) -> None:
        """Have the event loop forget the workers' sockets, before they are closed."""
        detached = threading.Event()

        def detach(loop: asyncio.AbstractEventLoop) -> None:
            self._workers.unwatch(loop)
            for handle in self._workers.each:
                handle.detach()
            detached.set()

        loop, self._loop = self._loop, None
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(detach, loop)
                detached.wait(_DETACH_TIMEOUT_S)

    def _listen(self, index: int) -> None:
        """Hear what a worker says from now on, and of its end."""
        self._workers.each[index].listen(
            functools.partial(self._on_message, index), functools.partial(self._on_death, index)
        )

    def _dispatch(self) -> None:
        """Send what waits to workers that have room for it; call with the lock held."""
        if self._stopping:
            return
        starts: dict[int, list[Sequence]] = {}
        now_s = self._clock()
        if self._suspects:
            for sequence, worker in self._suspects.take(self._placement.available):
                self._placement.place(sequence, worker)
                starts.setdefault(worker, []).append(sequence)
        if self._queue.sentences:
            for sequence, worker in self._queue.take(now_s, self._place):
                starts.setdefault(worker, []).append(sequence)
        for worker, sequences in starts.items():
            for sequence in sequences:
                sequence.worker = worker
                self._sent[sequence.number] = sequence
            self._workers.each[worker].send(Start(sequences))

    def _place(self, sequence: Sequence, rivalry: Rivalry) -> int | None:
        worker = self._placement.choose(sequence, rivalry)
        if worker is not None:
            self._placement.place(sequence, worker)
        return worker

    def _on_message(self, index: int, message: FromWorker) -> None:
        match message:
            case Report():
                self._take_report(index, message)
            case Ready():
                with self._lock:
                    self._pids[index] = message.pid
                    self._placement.set_available(index, available=True)
                    self._dispatch()
            case Refused(error):
                self._on_death(index, error)

    def _take_report(self, index: int, report: Report) -> None:
        """Resolve what has ended, and send on."""
        ended: list[tuple[Sequence, SequenceResult | DragomanError]] = []
        with self._lock:
            now_s = self._clock()
            self._cache_bytes[index] = report.cache_bytes
            self._last_progress_s = now_s
            for number, result in report.ended:
                sequence = self._sent.pop(number, None)
                if sequence is None or sequence.worker != index:
                    continue  # the engine is closing, or the worker was replaced
                self._placement.remove(sequence, index)
                self._suspects.acquit(index, sequence)
                ended.append((sequence, result))
            overdue = self._queue.expire(now_s)
            self._dispatch()
        for encoder_run in report.encoder_runs:
            self._observer.encode(*encoder_run)
        for step in report.steps:
            self._observer.step(*step)
        for kind in report.errors:
            self._observer.error(kind)
        for record in report.records:
            logging.getLogger(record.name).handle(record)
        for sequence, result in ended:
            self._finish(sequence, result)
        self._end(overdue, end_of_unwanted)

    def _on_death(self, index: int, error: Exception) -> None:
        """Replace a worker that has died, and decode again what it had."""
        with self._lock:
            if self._stopping:
                return
            lost = [sequence for sequence in self._sent.values() if sequence.worker == index]
            for sequence in lost:
                del self._sent[sequence.number]
                sequence.worker = None
            killer = self._suspects.convict(index, lost)
            self._placement.set_available(index, available=False)
            self._cache_bytes[index] = self._pids[index] = 0
            if self._suspects.is_hopeless(self._clock()):
                self._die(error)
                return
            handle, loop = self._workers.replace(index), self._loop
            self._listen(index)
            self._dispatch()
        _log.error("a worker died (%s); another takes its place, %d sentences again", error, len(lost))
        self._observer.error("worker_lost")
        if killer is not None:
            self._finish(killer, InferenceError("two workers died while they decoded this sentence"))
        if loop is not None:
            handle.attach(loop)

    def _die(self, error: Exception) -> None:
        """Record that workers cannot be replaced: nothing can be decoded any more, every caller is told."""
        with self._lock:
            if self._stopping:
                return
            _log.critical("workers died again and again; the engine has stopped", exc_info=error)
            self._death = error
            self._stopping = True
            left = self._take_all()
        self._observer.error("worker_lost")
        self._end(left, lambda _: EngineDeadError("the engine has stopped"))

    def _take_all(self) -> list[Sequence]:
        """Empty the queue and forget every sentence; call with the lock held."""
        self._queue.drain()
        self._suspects.clear()
        self._sent.clear()
        left = [sequence for sequences in self._live.values() for sequence in sequences]
        for sequence in left:
            sequence.aborted = True
        return left

    def _on_done(self, reference: weakref.ref[Sequence], future: Future[SequenceResult]) -> None:
        """Abort a sentence whose caller canceled its future."""
        if future.cancelled():
            sequence = reference()
            if sequence is not None:
                with self._lock:
                    self._queue.remove([sequence])
                self._drop([sequence])

    def _drop(self, sequences: SequenceOf[Sequence]) -> None:
        """End sentences as aborted, unless they have ended; their rows are free within a step."""
        with self._lock:
            numbers: dict[int, list[int]] = {}
            for sequence in sequences:
                sequence.aborted = True
                if sequence.worker is not None and sequence.number in self._sent:
                    numbers.setdefault(sequence.worker, []).append(sequence.number)
            for worker, dropped in numbers.items():
                self._workers.each[worker].send(Drop(dropped))
            self._dispatch()
        self._end(sequences, end_of_unwanted)

    def _end(self, sequences: Iterable[Sequence], error: Callable[[Sequence], DragomanError]) -> None:
        """End sentences without a result."""
        for sequence in sequences:
            self._finish(sequence, error(sequence))

    def _finish(self, sequence: Sequence, result: SequenceResult | DragomanError) -> None:
        """Forget a sentence, tell the observer and resolve its future; does nothing the second time."""
        with self._lock:
            request = self._live.get(sequence.request_id)
            if request is None or sequence not in request:
                return
            request.discard(sequence)
            if not request:
                del self._live[sequence.request_id]
            if not self._live:
                self._changed.notify_all()
        future = sequence.future
        assert future is not None
        if isinstance(result, SequenceResult):
            self._observer.finished(
                result.finish_reason, result.source_tokens, result.target_tokens, result.queue_s
            )
        else:
            self._observer.finished(end_reason(result), len(sequence.source), 0, sequence.queue_s)
        with contextlib.suppress(InvalidStateError):  # its caller has canceled it
            if isinstance(result, SequenceResult):
                future.set_result(result)
            else:
                future.set_exception(result)
