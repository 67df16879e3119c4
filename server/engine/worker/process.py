"""What an engine process does: it decodes, and nothing else.

It has one worker and one thread, which looks between two steps for what the server says. When the server has
closed its end, or is gone, the process ends at once.
"""

import contextlib
import functools
import logging
import logging.handlers
import os
import time
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from concurrent.futures import Future

from server.engine.ipc.channel import Channel
from server.engine.ipc.interrupt_flag import SharedNumber
from server.engine.ipc.messages import Drop, Extend, Ready, Sentence, Start, ToProcess
from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import Sequence, SequenceResult
from server.engine.shortlist.lexical_table import Shortlist
from server.engine.worker.loop import WorkerPool
from server.engine.worker.reporter import Reporter
from server.runtime.sessions import Runtime

_log = logging.getLogger("dragoman.engine")

NICENESS = 2
"""What processor time the event loop is given before us, where there is too little: a request that has been
read makes a step larger, one that waits to be read makes another step. Shipped model, 64 clients, niceness 0,
1, 2, 5 and 10: 1.12, 1.16, 1.19, 1.15 and 1.15 times as many sentences/s as with threads (Intel Xeon)."""


class LoneWorker(WorkerPool):
    """A pool of one worker on the calling thread, which does what the server says. Owned by that thread."""

    def __init__(
        self,
        channel: Channel,
        stop: SharedNumber,
        reporter: Reporter,
        runtime: Runtime,
        limits: EngineLimits,
        shortlist: Shortlist | None = None,
    ) -> None:
        """Make the engine.

        Args:
            channel: to the server.
            stop: set to another number than 0 by who wants a burst to end.
            reporter: told what happens.
            runtime: the model.
            limits: of one worker.
            shortlist: as of `WorkerPool`.
        """
        self._channel = channel
        self._reporter = reporter
        self._sequences: dict[int, Sequence] = {}
        super().__init__(runtime, limits, reporter, shortlist=shortlist, stops=[stop.array])

    def work(self) -> None:
        """Say that it is ready, and decode what comes, for ever.

        Raises:
            EOFError, ConnectionError: the server has closed its end.
        """
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.nice(NICENESS)
        self._channel.send(Ready(self.spec, self.limits))
        self._reporter.begin(self)
        self._work(0)

    def start(self) -> None:
        """There is no thread to start."""

    def submit(
        self,
        request_id: str,
        sources: SequenceOf[SequenceOf[int]],
        options: DecodingOptions | SequenceOf[DecodingOptions],
        deadline_s: float | None = None,
    ) -> list[Future[SequenceResult]]:
        """Decode sentences at once, before `work`; arguments as of `Pool.submit`."""
        futures = super().submit(request_id, sources, options, deadline_s)
        while self._live:
            self._turn(0, -1)
        return futures

    def _look_up(self) -> None:
        self._reporter.report()
        self._read()

    def _sleep(self, worker: int, has_work: Callable[[], bool], patience_s: float) -> bool:
        until_s = time.monotonic() + patience_s
        while not has_work():
            self._reporter.settle()
            if not self._channel.wait(until_s - time.monotonic()):
                return False
            self._look_up()
        return True

    def _tell(self) -> None:
        self._news += 1

    def _die(self, error: BaseException) -> None:
        if not isinstance(error, EOFError | ConnectionError):
            _log.critical("an engine process crashes", exc_info=error)
            self._reporter.report()
        raise error

    def _goes_on(self, news: int) -> bool:
        self._read()
        return super()._goes_on(news)

    def _read(self) -> None:
        self._channel.flush()
        for message in self._channel.receive():
            self._take_message(message)

    def _take_message(self, message: ToProcess) -> None:
        match message:
            case Start(lane, sentences):
                by_request: dict[str, list[Sequence]] = {}
                for sentence in sentences:
                    by_request.setdefault(sentence.request_id, []).append(self._sequence(sentence))
                for request_id, sequences in by_request.items():
                    self.take(request_id, sequences, lane)
            case Drop(numbers):
                self.drop([self._sequences[number] for number in numbers if number in self._sequences])
            case Extend(number, deadline_s):
                sequence = self._sequences.get(number)
                if sequence is not None:
                    self._extend(sequence, deadline_s)

    def _sequence(self, sentence: Sentence) -> Sequence:
        future: Future[SequenceResult] = Future()
        sequence = Sequence(
            sentence.request_id,
            sentence.source,
            sentence.options,
            sentence.submitted_s,
            sentence.deadline_s,
            future,
        )
        self._sequences[sentence.number] = sequence
        future.add_done_callback(functools.partial(self._ended, sentence.number))
        return sequence

    def _ended(self, number: int, future: "Future[SequenceResult]") -> None:
        self._sequences.pop(number, None)
        self._reporter.ended(number, future)
