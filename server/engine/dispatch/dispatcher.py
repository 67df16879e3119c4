"""A pool whose workers are in processes of their own, so that none of them waits for Python's lock.

The line stays here. A sentence is sent to a process as soon as that has a row for it, or nearly: a few more
than there are rows, so that a row that becomes free is not idle until we have heard of it. What is sent waits
in the process's own line, by the same rules.
"""

import asyncio
import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace

from server.engine.dispatch.fork_server import EngineProcesses
from server.engine.dispatch.pool import Pool
from server.engine.dispatch.worker_handle import EngineProcess
from server.engine.ipc.messages import Drop, Extend, Report, Sentence, Start, ToProcess
from server.engine.limits import EngineLimits, EngineStats
from server.engine.observer import EngineObserver
from server.engine.scheduling.placement import Packing
from server.engine.scheduling.priority import LANES, Lane
from server.engine.scheduling.waiting_queue import Load
from server.engine.sequence import Outcome, Sequence, end_of_unwanted
from server.errors import DrainingError

ROWS_AHEAD = 8
"""Rows that a process is sent beyond those that it has."""

_CLOSE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class _Sent:
    sequence: Sequence
    process: int
    lane: Lane


class ProcessPool(Pool):
    """Engine processes over one model. Thread-safe."""

    def __init__(
        self,
        processes: EngineProcesses,
        limits: EngineLimits,
        observer: EngineObserver,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wait until all processes are ready.

        Args:
            processes: as they were started, with the same model and limits; this object ends them.
            limits: what the pool takes on; `max_rows` are those that a process has chosen.
            observer: told what happens.
            clock: monotonic seconds, the same clock that the processes have.

        Raises:
            EngineDeadError: a process has ended.
            Exception: as a process refused to load its model.
        """
        try:
            first, *_ = processes.wait_ready()
        except BaseException:
            processes.close(0.0)
            raise
        super().__init__(first.spec, replace(limits, max_rows=first.limits.max_rows), observer, clock)
        self._owned = processes
        self._processes: SequenceOf[EngineProcess] = processes.each
        self._numbers = itertools.count()
        self._sent: dict[int, _Sent] = {}
        self._number_of: dict[Sequence, int] = {}
        self._rows: dict[Lane, list[int]] = {lane: [0] * len(self._processes) for lane in LANES}
        self._packing = Packing(self._rows, first.limits.max_rows)
        self._room = first.limits.max_rows + ROWS_AHEAD
        self._stats: list[EngineStats | None] = [None] * len(self._processes)
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear of results on an event loop from now on; called once, on its thread, before `submit`."""
        self._loop = loop
        for index, process in enumerate(self._processes):
            loop.add_reader(process.fileno(), self._receive, index)
            self._receive(index)  # what came while it was loaded
            self._flush_later(index)

    def close(self, timeout_s: float) -> None:
        """Take no new work, finish what there is, end the processes.

        Args:
            timeout_s: seconds for what there is; what is not done then ends with DrainingError.
        """
        with self._lock:
            self._draining = True
            self._changed.wait_for(lambda: not self._live or self._death is not None, timeout_s)
            self._stopping = True
            left = self._take_all()
        if left:
            self._observer.error("terminated")
            self._end(left, lambda _: DrainingError("the server shut down before the translation was ready"))
        self._detach()
        self._owned.close(0.0 if left else _CLOSE_TIMEOUT_S)
        # Futures refer to us in circles, and the memory that we share with a process is an open file.
        with self._lock:
            self._processes = ()
            self._sent.clear()
            self._number_of.clear()

    def stats(self) -> EngineStats:
        """Say what the engine is doing now; what the processes do, as they told last."""
        with self._lock:
            oldest_s = self._scheduler.oldest_s()
            told = [stats for stats in self._stats if stats is not None]
            ages_s = [0.0 if oldest_s is None else self._clock() - oldest_s]
            return EngineStats(
                queue_sentences=self._scheduler.sentences + sum(one.queue_sentences for one in told),
                queue_tokens=self._scheduler.tokens + sum(one.queue_tokens for one in told),
                queue_oldest_age_s=max(ages_s + [one.queue_oldest_age_s for one in told]),
                rows_busy=sum(one.rows_busy for one in told),
                rows_total=self._limits.max_rows * self._limits.workers * len(LANES),
                max_rows=self._limits.max_rows,
                kv_cache_bytes=sum(one.kv_cache_bytes for one in told),
                alive=self._death is None,
                last_progress_s=self._last_progress_s,
                engine_pids=self._owned.pids,
            )

    def _detach(self) -> None:
        """Have the event loop forget the sockets, before they are closed."""
        detached = threading.Event()

        def detach(loop: asyncio.AbstractEventLoop) -> None:
            for process in self._processes:
                loop.remove_reader(process.fileno())
                loop.remove_writer(process.fileno())
            detached.set()

        loop, self._loop = self._loop, None
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(detach, loop)
                detached.wait(_CLOSE_TIMEOUT_S)

    def _say(self, process: int, message: ToProcess) -> None:
        """Send a message; what the socket does not take now, the event loop sends."""
        loop = self._loop
        if not self._processes[process].send(message) and loop is not None:
            loop.call_soon_threadsafe(self._flush_later, process)

    def _flush_later(self, process: int) -> None:
        """Send the rest, when the socket takes it."""
        child, loop = self._processes[process], self._loop
        if loop is None:
            return
        if child.flush():
            loop.remove_writer(child.fileno())
        else:
            loop.add_writer(child.fileno(), self._flush_later, process)

    def _tell(self) -> None:
        """Send what waits to processes that have room for it."""
        if self._stopping or not self._scheduler.sentences:
            return
        now_s = self._clock()
        self._packing.arrive(self._scheduler.sentences)
        for lane in LANES:
            starts: dict[int, list[Sentence]] = {}
            while self._scheduler.rows[lane]:
                free_rows = self._room - min(self._rows[lane])
                admitted = self._scheduler.admit(now_s, Load(free_rows, share=1, lane=lane))
                if not admitted:
                    break
                for sequence in admitted:
                    process = self._packing.choose(sequence, lane)
                    starts.setdefault(process, []).append(self._send(sequence, process, lane))
            for process, sentences in starts.items():
                self._say(process, Start(lane, sentences))

    def _send(self, sequence: Sequence, process: int, lane: Lane) -> Sentence:
        """Note that a sentence is now with a process."""
        number = next(self._numbers)
        self._sent[number] = _Sent(sequence, process, lane)
        self._number_of[sequence] = number
        self._rows[lane][process] += sequence.beam_size
        return Sentence(
            number,
            sequence.request_id,
            sequence.source,
            sequence.options,
            sequence.submitted_s,
            sequence.deadline_s,
        )

    def _unwanted(self, sequences: SequenceOf[Sequence]) -> None:
        numbers: dict[int, list[int]] = {}
        for sequence in sequences:
            number = self._number_of.get(sequence)
            if number is not None:
                numbers.setdefault(self._sent[number].process, []).append(number)
        for process, dropped in numbers.items():
            self._say(process, Drop(dropped))
        self._tell()

    def _extend(self, sequence: Sequence, deadline_s: float) -> None:
        super()._extend(sequence, deadline_s)
        number = self._number_of.get(sequence)
        if number is not None:
            self._say(self._sent[number].process, Extend(number, sequence.deadline_s))

    def _receive(self, process: int) -> None:
        """Take the reports of a process that have come."""
        try:
            for report in self._processes[process].receive():
                self._take_report(process, report)
        except Exception as error:  # noqa: BLE001 - whatever it is, the callers must hear of it
            if self._loop is not None:
                self._loop.remove_reader(self._processes[process].fileno())
            self._die(error)

    def _take_report(self, process: int, report: Report) -> None:
        """Resolve what has ended, and send on."""
        outcomes: list[Outcome] = []
        with self._lock:
            now_s = self._clock()
            self._stats[process] = report.stats
            self._last_progress_s = now_s
            for number, result in report.ended:
                sent = self._sent.pop(number)
                del self._number_of[sent.sequence]
                self._rows[sent.lane][process] -= sent.sequence.beam_size
                outcomes.append(Outcome(sent.sequence, result))
            overdue = self._scheduler.expire(now_s)
            self._tell()
        for outcome in outcomes:
            self._finish(outcome)
        self._end(overdue, end_of_unwanted)
        for record in report.records:
            logging.getLogger(record.name).handle(record)
        for name, arguments in report.seen:
            getattr(self._observer, name)(*arguments)
