"""What a worker tells the dispatcher."""

import logging
import logging.handlers

from server.engine.ipc.messages import Report
from server.engine.ipc.worker_ports import WorkerPorts
from server.engine.sequence import Outcome, SequenceResult
from server.errors import DragomanError

REPORT_INTERVAL_S = 0.05
"""How often a worker reports while it decodes and nothing ends."""


class Reporter:
    """Collects what happens and sends it. Implements `RunObserver`. Owned by the worker's thread."""

    def __init__(self, ports: WorkerPorts) -> None:
        """Collect for the first report.

        Args:
            ports: of the worker.
        """
        self._ports = ports
        self._reported_bytes = 0
        self._due_s = 0.0
        self.forget()

    def forget(self) -> None:
        """Drop what was collected, for instance by the golden sentences."""
        self._ended: list[tuple[int, SequenceResult | DragomanError]] = []
        self._encoder_runs: list[tuple[int, int, int, float]] = []
        self._steps: list[tuple[int, int, float]] = []
        self._errors: list[str] = []

    def encode(self, sentences: int, real_tokens: int, padding_tokens: int, duration_s: float) -> None:
        """Note an encoder run."""
        self._encoder_runs.append((sentences, real_tokens, padding_tokens, duration_s))

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        """Note a decoder step."""
        self._steps.append((busy_rows, idle_rows, duration_s))

    def error(self, kind: str) -> None:
        """Note a fault."""
        self._errors.append(kind)

    def report(self, outcomes: list[Outcome], cache_bytes: int) -> None:
        """Report what has ended; without that, from time to time how things go.

        Args:
            outcomes: of the last step.
            cache_bytes: held by the caches now.
        """
        self._ended += [(outcome.sequence.number, outcome.result) for outcome in outcomes]
        if self._ended or self._ports.records or (self._steps and self._ports.clock() > self._due_s):
            self.send(cache_bytes)

    def report_rest(self, cache_bytes: int) -> None:
        """Report what the dispatcher does not know yet, before nothing happens for a while."""
        if self._steps or self._errors or cache_bytes != self._reported_bytes:
            self.send(cache_bytes)

    def send(self, cache_bytes: int) -> None:
        """Report all that was collected."""
        records = list(self._ports.records)
        self._ports.records.clear()
        self._reported_bytes = cache_bytes
        self._ports.channel.send(
            Report(self._reported_bytes, self._ended, self._encoder_runs, self._steps, self._errors, records)
        )
        self.forget()
        self._due_s = self._ports.clock() + REPORT_INTERVAL_S


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
