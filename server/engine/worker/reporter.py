"""What a worker process tells the server."""

import logging
import logging.handlers
import time
from concurrent.futures import Future
from typing import Any

from server.engine.ipc.channel import Channel
from server.engine.ipc.messages import Report
from server.engine.limits import EngineStats
from server.engine.observer import EndReason, EngineObserver
from server.engine.sequence import SequenceResult
from server.engine.worker.loop import WorkerPool
from server.errors import AbortedError, DragomanError, EngineDeadError

REPORT_INTERVAL_S = 0.05
"""How often a process reports while it decodes and nothing ends."""


class Reporter:
    """Collects what happens and tells the server. Implements `EngineObserver`. Owned by the one thread."""

    def __init__(self, channel: Channel, records: list[logging.LogRecord]) -> None:
        """Say nothing before `begin`.

        Args:
            channel: to the server.
            records: of the log; whoever adds to it has them sent.
        """
        self._channel = channel
        self._worker: WorkerPool | None = None
        self._ended: list[tuple[int, SequenceResult | DragomanError]] = []
        self._seen: list[tuple[str, tuple[Any, ...]]] = []
        self._records = records
        self._due_s = 0.0
        self._told = (0, 0, 0)

    def begin(self, worker: WorkerPool) -> None:
        """Report from now on.

        Args:
            worker: whose state goes with every report.
        """
        self._worker = worker
        self._seen = []  # of golden sentences
        self._report(worker)

    def report(self) -> None:
        """Tell the server what has ended, if anything has."""
        if self._worker is not None and (self._ended or self._records):
            self._report(self._worker)

    def settle(self) -> None:
        """Tell the server how things are, if it does not know, before nothing happens for a while."""
        if self._worker is not None and _state(self._worker.stats()) != self._told:
            self._report(self._worker)

    def ended(self, number: int, future: "Future[SequenceResult]") -> None:
        """Note how a sentence has ended."""
        error: BaseException | None = AbortedError("dropped") if future.cancelled() else future.exception()
        if error is not None and not isinstance(error, DragomanError):
            error = EngineDeadError(type(error).__name__)
        self._ended.append((number, future.result() if error is None else error))

    def encode(self, sentences: int, real_tokens: int, padding_tokens: int, duration_s: float) -> None:
        """Note an encoder run."""
        self._seen.append(("encode", (sentences, real_tokens, padding_tokens, duration_s)))

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        """Note a decoder step."""
        self._seen.append(("step", (busy_rows, idle_rows, duration_s)))
        if self._worker is not None and time.monotonic() > self._due_s:
            self._report(self._worker)

    def finished(self, reason: EndReason, source_tokens: int, target_tokens: int, queue_s: float) -> None:
        """Do nothing: the server sees for itself what has ended."""

    def error(self, kind: str) -> None:
        """Note an engine fault."""
        self._seen.append(("error", (kind,)))

    def of_model(self, name: str) -> EngineObserver:
        """There is one model in a process."""
        return self

    def _report(self, worker: WorkerPool) -> None:
        stats = worker.stats()
        self._told = _state(stats)
        self._channel.send(Report(stats, self._ended, self._seen, self._records))
        self._ended, self._seen = [], []
        self._records.clear()
        self._due_s = time.monotonic() + REPORT_INTERVAL_S


def _state(stats: EngineStats) -> tuple[int, int, int]:
    return stats.rows_busy, stats.queue_sentences, stats.kv_cache_bytes


class LogRelay(logging.handlers.QueueHandler):
    """Collects records of the log, made fit to be sent; `QueueHandler` knows how.

    Attributes:
        records: that nobody has sent yet.
    """

    def __init__(self) -> None:
        """Start with none."""
        super().__init__(None)  # type: ignore[arg-type]  # there is no queue
        self.setLevel(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def enqueue(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.records.append(record)
