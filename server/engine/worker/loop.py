"""The threads of the engine: workers that share a model and a waiting line.

A request's way: `Pool.submit` puts its sentences in the scheduler and wakes the workers; a worker's
`Engine.step` takes them over and decodes them; `Outcome.resolve` sets each future, exactly once. Nothing
polls: an idle worker sleeps on a condition until there is work or the end, and only once before that gets up
to give memory back.
"""

import asyncio
import functools
import logging
import math
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf

import numpy as np
from numpy.typing import NDArray

from server.engine.dispatch.pool import Pool
from server.engine.kv_cache.budget import CacheBudget
from server.engine.limits import EngineLimits, EngineStats
from server.engine.observer import EngineObserver, NullObserver
from server.engine.scheduling.placement import Shares
from server.engine.scheduling.priority import LANES, STARTS_FIRST, Lane
from server.engine.scheduling.waiting_queue import GUARDED_TOKENS, Load
from server.engine.sequence import Sequence, end_of_unwanted
from server.engine.shortlist.lexical_table import Shortlist, extra_bytes_of
from server.engine.worker.engine import Engine, encoder_tokens
from server.engine.worker.worker import Lanes
from server.errors import DrainingError
from server.process_tuning import return_free_memory
from server.runtime.onnx.capture_lock import DEVICE_GATE
from server.runtime.sessions import Runtime

_log = logging.getLogger("dragoman.engine")

JOIN_TIMEOUT_S = 5.0
"""How long `close` waits for threads whose runs were terminated; they are daemons and hold up nothing."""

IDLE_S = 60.0
"""How long a worker has nothing to do before it gives its arenas back: they have room for the most sentences
and, of each beam width in each lane, for targets of 128 tokens. Who comes next waits 2 ms for new ones."""


class WorkerPool(Pool):
    """Worker threads over one model. Thread-safe."""

    def __init__(
        self,
        runtime: Runtime,
        limits: EngineLimits,
        observer: EngineObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
        shortlist: Shortlist | None = None,
        stops: SequenceOf[NDArray[np.int64]] | None = None,
    ) -> None:
        """Make the engines; no thread runs before `start`.

        Args:
            runtime: the model, shared by all workers.
            limits: what the pool takes on.
            observer: told what happens; None looks away.
            clock: monotonic seconds; deadlines are on this clock.
            shortlist: candidates of sentences, if the decoders take their columns as inputs.
            stops: int64 [] of each worker, which ends its burst when it is not 0; made here unless given.
        """
        super().__init__(runtime.spec, limits, observer or NullObserver(), clock)
        self._runtime: Runtime | None = runtime
        self._calls = [threading.Condition(self._lock) for _ in range(limits.workers)]
        self._budget = CacheBudget(runtime.spec, limits, extra_bytes_of(shortlist, runtime.spec, limits))
        self._stops = stops or [np.zeros((), np.int64) for _ in range(limits.workers)]
        self._lanes = [self._lanes_of(worker, runtime, shortlist) for worker in range(limits.workers)]
        self._threads: list[threading.Thread] = []
        self._shares = Shares(limits.workers, limits.max_rows, on_device=runtime.device is not None)
        self._cache_bytes = [0] * limits.workers
        self._news = 0  # goes up when a worker should look up from decoding
        self._memory_epoch = 0  # goes up when there may be memory for a sentence that lacks it

    def start(self) -> None:
        """Start the worker threads."""
        self._threads = [
            threading.Thread(target=self._work, args=(worker,), name=f"dragoman-worker-{worker}", daemon=True)
            for worker in range(self._limits.workers)
        ]
        for thread in self._threads:
            thread.start()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do nothing: futures are resolved on the workers' threads, whoever waits for them."""

    def close(self, timeout_s: float) -> None:
        """Take no new work, finish what there is, stop the threads.

        Args:
            timeout_s: seconds for what there is; what is not done then ends with DrainingError, and a run
                that is in progress is terminated. Afterwards the engines' memory is free.
        """
        with self._lock:
            self._draining = True
            self._changed.wait_for(lambda: not self._live or self._death is not None, timeout_s)
            self._stopping = True
            left = self._take_all()
            self._tell()
        if left and self._runtime is not None:
            self._runtime.terminate()
            self._observer.error("terminated")
            self._end(left, lambda _: DrainingError("the server shut down before the translation was ready"))
        join_by_s = time.monotonic() + JOIN_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0.0, join_by_s - time.monotonic()))
            if thread.is_alive():
                _log.error("%s has not ended", thread.name)
                return
        # Without this their memory would stay for a while: futures and engines refer to us in circles.
        with DEVICE_GATE.together():
            for lanes in self._lanes:
                lanes.close()
            self._lanes, self._runtime = [], None

    def stats(self) -> EngineStats:
        """Say what the engine is doing now."""
        with self._lock:
            oldest_s = self._scheduler.oldest_s()
            return EngineStats(
                queue_sentences=self._scheduler.sentences,
                queue_tokens=self._scheduler.tokens,
                queue_oldest_age_s=0.0 if oldest_s is None else self._clock() - oldest_s,
                rows_busy=self._shares.rows,
                rows_total=self._limits.max_rows * self._limits.workers * len(LANES),
                max_rows=self._limits.max_rows,
                kv_cache_bytes=sum(self._cache_bytes),
                alive=self._death is None,
                last_progress_s=self._last_progress_s,
            )

    def _lanes_of(self, worker: int, runtime: Runtime, shortlist: Shortlist | None) -> Lanes:
        """Make a worker's engines and give them access to the line."""
        run_tokens = encoder_tokens(runtime, self._limits)
        # On a device an encoder run takes little more than a step, and with few tokens no less.
        guarded_tokens = GUARDED_TOKENS if runtime.device is None else run_tokens

        def schedule(lane: Lane, free_rows: int) -> list[Sequence]:
            now_s = self._clock()
            with self._lock:
                overdue = self._scheduler.expire(now_s)
                busy = self._limits.max_rows - free_rows
                self._shares.note(worker, lane, busy)
                share = self._shares.share(
                    worker, lane, self._scheduler.rows[lane], everyone=self._scheduler.lacks_memory
                )
                reserve = functools.partial(self._budget.reserve, worker, lane)
                load = Load(free_rows, share, lane, run_tokens, guarded_tokens, reserve)
                admitted = self._scheduler.admit(now_s, load)
                self._shares.note(worker, lane, busy + sum(sequence.beam_size for sequence in admitted))
                if self._scheduler.sentences:
                    self._tell()  # it may be another's turn now
            self._end(overdue, end_of_unwanted)
            return admitted

        def make_engine(lane: Lane, take: Callable[[int], list[Sequence]]) -> Engine:
            shared = (runtime, self._limits, take, self._observer, self._clock, shortlist)
            return Engine(*shared, starts_first=lane in STARTS_FIRST, stop=self._stops[worker])

        return Lanes(make_engine, schedule, self._observer, self._clock)

    def _work(self, worker: int) -> None:
        """Step the worker's engines while there is work; a worker thread's whole life."""
        tried_epoch: int | None = -1
        try:
            while tried_epoch is not None:
                tried_epoch = self._turn(worker, tried_epoch)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the callers must hear of it
            self._die(error)

    def _turn(self, worker: int, tried_epoch: int) -> int | None:
        """Wait for work and do some of it.

        Args:
            worker: who.
            tried_epoch: memory epoch at which what waits could not be started, -1 if it could.

        Returns:
            The same for the next turn; None ends the thread.
        """
        self._stops[worker][...] = 0
        self._look_up()
        news = self._news  # before it waits: what comes meanwhile is news
        waiting = self._wait_for_work(worker, tried_epoch)
        if waiting is None:
            return None
        lanes = self._lanes[worker]
        outcomes = lanes.step(waiting)
        if not outcomes and not any(waiting.values()):
            outcomes = lanes.decode(functools.partial(self._goes_on, news))
        with self._lock:
            tried_epoch = self._note_step(worker, ended=bool(outcomes))
        for outcome in outcomes:
            self._finish(outcome)
        return tried_epoch

    def _look_up(self) -> None:
        """Do what has to be done before every turn: here nothing."""

    def _wait_for_work(self, worker: int, tried_epoch: int) -> dict[Lane, bool] | None:
        """Sleep until there are rows to decode or sentences that may be started.

        Args:
            worker: who.
            tried_epoch: memory epoch at which what waits could not be started.

        Returns:
            For each lane, whether sentences wait in it that the worker should start; None ends the thread.
        """
        lanes = self._lanes[worker]

        def has_work() -> bool:
            return (
                self._stopping
                or any(lanes.rows.values())
                or (worker in self._called() and self._memory_epoch != tried_epoch)
            )

        patience_s = IDLE_S
        while True:
            with self._lock:
                if self._sleep(worker, has_work, patience_s):
                    return None if self._stopping else {lane: worker in self._called(lane) for lane in LANES}
                self._rest(worker)
            return_free_memory()
            patience_s = math.inf

    def _sleep(self, worker: int, has_work: Callable[[], bool], patience_s: float) -> bool:
        """Wait until there is something to do, asked when anything has changed; call with the lock held.

        Returns:
            Whether there is; False after so many seconds without.
        """
        return self._calls[worker].wait_for(has_work, None if patience_s == math.inf else patience_s)

    def _rest(self, worker: int) -> None:
        """Give back what only sentences need; call with the lock held.

        A device keeps it: no other process could have it, and recordings of its addresses would be lost.
        """
        if self._runtime is not None and self._runtime.device is None and self._free_idle(worker):
            self._retry_memory()
        self._cache_bytes[worker] = self._lanes[worker].cache_bytes

    def _free_idle(self, worker: int) -> bool:
        """Drop arenas without a sentence; gives whether there is more room now. Call with the lock held."""
        kept = self._lanes[worker].free_idle()
        freed = [self._budget.freed(worker, lane, kept[lane]) for lane in LANES]
        return any(freed)

    def _goes_on(self, news: int) -> bool:
        """Note that a worker makes progress, and tell whether it may go on without looking up."""
        self._last_progress_s = self._clock()
        return self._news == news

    def _tell(self) -> None:
        """Let the workers look up, and wake those who have something to start; call with the lock held."""
        self._news += 1
        for stop in self._stops:
            stop[...] = 1  # ends a burst
        for worker in range(len(self._calls)) if self._stopping else self._called():
            self._calls[worker].notify()

    def _called(self, *lanes: Lane) -> set[int]:
        """Give the workers that should start what waits, in some lanes or all; call with the lock held."""
        rows, everyone = self._scheduler.rows, self._scheduler.lacks_memory
        called = (self._shares.called(lane, rows[lane], everyone=everyone) for lane in lanes or LANES)
        return set().union(*called)

    def _note_step(self, worker: int, *, ended: bool) -> int:
        """Take over what a step has changed; call with the lock held.

        Returns:
            The memory epoch at which the worker need not try again, -1 for none.
        """
        lanes, rows = self._lanes[worker], self._lanes[worker].rows
        changed = [self._shares.note(worker, lane, rows[lane]) for lane in LANES]
        if any(changed) and self._scheduler.sentences:
            self._tell()  # it may be another's turn now
        for lane in LANES:
            if not rows[lane]:
                self._budget.emptied(worker, lane)
        self._last_progress_s = self._clock()
        tried_epoch = -1
        if self._scheduler.lacks_memory:
            if self._free_idle(worker) or ended:
                self._retry_memory()
            elif not any(rows.values()):
                tried_epoch = self._memory_epoch
        self._cache_bytes[worker] = lanes.cache_bytes
        return tried_epoch

    def _unwanted(self, sequences: SequenceOf[Sequence]) -> None:
        self._retry_memory()

    def _retry_memory(self) -> None:
        """Let every worker try again to start what lacked memory; call with the lock held."""
        self._memory_epoch += 1
        self._tell()
