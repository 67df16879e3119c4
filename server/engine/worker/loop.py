"""One worker: schedule, run, update, with sentences that come in messages.

Its transport is a socket if it is a process and a queue in memory if it is a thread; nothing here knows
which. The queue of requests, their futures and who gets which rows are the dispatcher's. What waits here was
given to this worker: it starts as soon as there are rows and memory for it.
"""

import logging
import math
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf

from server.engine.ipc.channel import WorkerPorts
from server.engine.ipc.messages import Drop, Ready, Refused, Report, Start, ToWorker
from server.engine.kv_cache.budget import CacheBudget
from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import Outcome, Sequence, SequenceResult, check_sources, end_of_unwanted
from server.engine.shortlist.lexical_table import Shortlist, extra_bytes_of
from server.engine.source import Source
from server.engine.worker.engine import Engine
from server.errors import DragomanError, OutOfMemoryError
from server.process_tuning import return_free_memory
from server.runtime.sessions import Runtime

IDLE_S = 60.0
"""How long a worker has nothing to do before it gives its arenas back. The next sentence waits 2 ms for new
ones."""

DELAYED_ROWS, DELAY_STEPS = 8, 2
"""Batching delay: a busy worker lets up to so many rows gather for so many steps, for an encoder run costs as
much for its weights as for one or two short sentences. See docs/experiments/scheduling.md."""

DEVICE_DELAYED_ROWS, DEVICE_DELAY_STEPS = 64, 4
"""The same on a GPU, where an encoder run costs as much as several steps, however few its sentences are."""

REPORT_INTERVAL_S = 0.05
"""How often a worker reports while it decodes and nothing ends."""

_log = logging.getLogger("dragoman.engine")


class Reporter:
    """Collects what happens and sends it. Implements `RunObserver`. Owned by the worker's thread."""

    def __init__(self, ports: WorkerPorts) -> None:
        """Collect for the first report."""
        self._ports = ports
        self._report = Report()
        self._reported_bytes = 0
        self._due_s = 0.0

    def forget(self) -> None:
        """Drop what was collected, for instance by the golden sentences."""
        self._report = Report()

    def encode(self, sentences: int, real_tokens: int, padding_tokens: int, duration_s: float) -> None:
        """Note an encoder run."""
        self._report.encoder_runs.append((sentences, real_tokens, padding_tokens, duration_s))

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        """Note a decoder step."""
        self._report.steps.append((busy_rows, idle_rows, duration_s))

    def error(self, kind: str) -> None:
        """Note a fault."""
        self._report.errors.append(kind)

    def report(self, outcomes: list[Outcome], cache_bytes: int) -> None:
        """Report what has ended in the last step; without that, from time to time how things go."""
        report = self._report
        report.ended += [(outcome.sequence.number, outcome.result) for outcome in outcomes]
        if report.ended or self._ports.records or (report.steps and self._ports.clock() > self._due_s):
            self.send(cache_bytes)

    def report_rest(self, cache_bytes: int) -> None:
        """Report what the dispatcher does not know yet, before nothing happens for a while."""
        if self._report.steps or self._report.errors or cache_bytes != self._reported_bytes:
            self.send(cache_bytes)

    def send(self, cache_bytes: int) -> None:
        """Report all that was collected."""
        report, self._report = self._report, Report()
        report.cache_bytes = self._reported_bytes = cache_bytes
        report.records = list(self._ports.records)
        self._ports.records.clear()
        self._ports.channel.send(report)
        self._due_s = self._ports.clock() + REPORT_INTERVAL_S


class Worker:
    """Decodes what its channel brings. Owned by the thread that runs it."""

    def __init__(
        self, runtime: Runtime, limits: EngineLimits, ports: WorkerPorts, shortlist: Shortlist | None = None
    ) -> None:
        """Make the engine.

        Args:
            runtime: the model, which workers that are threads share.
            limits: of this worker; `max_cache_bytes` is its share.
            ports: its connections.
            shortlist: candidates of sentences, if the decoders take their columns as inputs.
        """
        self.spec, self.limits = runtime.spec, limits
        self._channel, self._interrupt, self._clock = ports.channel, ports.interrupt, ports.clock
        self._reporter = Reporter(ports)
        self._engine = Engine(runtime, limits, self._reporter, ports.clock, shortlist, ports.interrupt.array)
        self._budget = CacheBudget(runtime.spec, limits, extra_bytes_of(shortlist, runtime.spec))
        self._waiting: deque[Sequence] = deque()
        self._sequences: dict[int, Sequence] = {}
        self._on_device = runtime.device is not None
        self._delayed_steps = 0

    def run(self) -> None:
        """Schedule, run and update until the dispatcher closes the channel.

        Raises:
            EOFError, ConnectionError: it has.
        """
        self._reporter.forget()
        while True:
            self._receive()
            if self._waiting or self._engine.rows:
                self._update(self._step())
            else:
                self._rest()

    def decode(self, sources: SequenceOf[Source], options: DecodingOptions) -> list[SequenceResult]:
        """Decode sentences before `run`, to see that the model works; nothing is reported.

        Raises:
            DragomanError: a sentence fails, or could never be decoded.
        """
        check_sources(sources, [options] * len(sources), self.spec, self.limits)
        now_s = self._clock()
        sequences = [
            Sequence(number, source, options, "interactive", now_s, math.inf)
            for number, source in enumerate(sources)
        ]
        self._waiting.extend(sequences)
        results: dict[int, SequenceResult | DragomanError] = {}
        while len(results) < len(sequences):
            results |= {outcome.sequence.number: outcome.result for outcome in self._step()}
        for result in results.values():
            if isinstance(result, DragomanError):
                raise result
        return [result for _, result in sorted(results.items()) if isinstance(result, SequenceResult)]

    def report_crash(self) -> None:
        """Send what is collected, the last time."""
        self._reporter.send(self._engine.cache_bytes)

    def _receive(self) -> None:
        """Take the messages that have come."""
        self._interrupt.clear()
        self._channel.flush()
        for message in self._channel.receive():
            self._take(message)

    def _take(self, message: ToWorker) -> None:
        match message:
            case Start(sequences):
                self._sequences.update((sequence.number, sequence) for sequence in sequences)
                self._enqueue(sequences)
            case Drop(numbers):
                for number in numbers:
                    if number in self._sequences:
                        self._sequences[number].aborted = True

    def _enqueue(self, sequences: list[Sequence]) -> None:
        """Let sentences wait for rows, interactive ones before bulk ones."""
        self._waiting.extend(sequences)
        if any(sequence.priority == "bulk" for sequence in self._waiting):
            self._waiting = deque(sorted(self._waiting, key=lambda sequence: sequence.priority == "bulk"))

    def _step(self) -> list[Outcome]:
        """Let unwanted sentences go, start what waits, decode one step or a few; gives what has ended."""
        was_idle = not self._engine.rows
        ended = self._drop_unwanted()
        starting: list[Sequence] = []
        try:
            starting = self._schedule()
            self._engine.start(starting, ended)
            if not (starting and was_idle):  # what came while the encoder ran starts before the first step
                self._engine.decode(ended, multi_step=not self._waiting)
        except MemoryError:
            lost = {*self._engine.sequences, *starting} - {outcome.sequence for outcome in ended}
            ended += self._lose(lost)
        return ended

    def _schedule(self) -> list[Sequence]:
        """Take the sentences out that start now: by rows, source tokens, memory and batching delay."""
        free_rows, tokens = self.limits.max_rows - self._engine.rows, self.limits.max_batch_tokens
        if not self._waiting or self._delays(free_rows):
            return []
        starting: list[Sequence] = []
        while self._waiting:
            sequence = self._waiting[0]
            fits = sequence.beam_size <= free_rows and (len(sequence.source) <= tokens or not starting)
            if not fits or not self._has_memory(sequence, starting):
                break
            starting.append(self._waiting.popleft())
            free_rows -= sequence.beam_size
            tokens -= len(sequence.source)
        return starting

    def _delays(self, free_rows: int) -> bool:
        """Whether the sentences that could start now wait for others to share their encoder run."""
        rows = min(free_rows, sum(sequence.beam_size for sequence in self._waiting))
        enough = DEVICE_DELAYED_ROWS if self._on_device else DELAYED_ROWS
        longest = DEVICE_DELAY_STEPS if self._on_device else DELAY_STEPS
        if 0 < rows < min(enough, self._engine.rows // 2) and self._delayed_steps < longest:
            self._delayed_steps += 1
            return True
        self._delayed_steps = 0
        return False

    def _has_memory(self, sequence: Sequence, starting: list[Sequence]) -> bool:
        """Reserve the memory that a sentence may need, if need be that of arenas without a sentence."""
        if self._budget.reserve(sequence):
            return True
        used = self._engine.free_idle() | {each.beam_size for each in starting}
        return self._budget.freed(used) and self._budget.reserve(sequence)

    def _drop_unwanted(self) -> list[Outcome]:
        """End sentences that were aborted or whose deadline has passed."""
        now_s = self._clock()
        outcomes = self._engine.drop_unwanted(now_s)
        unwanted = [sequence for sequence in self._waiting if sequence.aborted or sequence.overdue(now_s)]
        for sequence in unwanted:
            self._waiting.remove(sequence)
        return outcomes + [Outcome(sequence, end_of_unwanted(sequence)) for sequence in unwanted]

    def _lose(self, sequences: set[Sequence]) -> list[Outcome]:
        """End the sentences of a step for which there was no memory, and go on with new arenas."""
        _log.exception("no memory for a step: %d sentences are lost", len(sequences))
        self._reporter.error("out_of_memory")
        self._engine.drop_all()
        self._budget.freed(())
        error = OutOfMemoryError("the server has no memory for this request now")
        return [Outcome(sequence, error) for sequence in sequences]

    def _update(self, ended: list[Outcome]) -> None:
        """Forget what has ended, and report it."""
        for outcome in ended:
            self._sequences.pop(outcome.sequence.number, None)
        if ended and not self._engine.rows:
            self._budget.emptied()
        self._reporter.report(ended, self._engine.cache_bytes)

    def _rest(self) -> None:
        """Sleep until a message comes; after a while without, give memory back.

        A device keeps it: no other process could have it, and CUDA graphs that hold its addresses would be
        lost.
        """
        self._reporter.report_rest(self._engine.cache_bytes)
        if self._channel.wait(IDLE_S):
            return
        if not self._on_device:
            self._budget.freed(self._engine.free_idle())
        return_free_memory()
        self._reporter.report_rest(self._engine.cache_bytes)
        self._channel.wait(math.inf)


def run_worker(build: Callable[[WorkerPorts], Worker], ports: WorkerPorts, pid: int = 0) -> None:
    """Build a worker, say that it is ready, and run it until the dispatcher closes its channel.

    Args:
        build: makes the worker and sees that it translates.
        ports: its connections.
        pid: its process id; 0 if it is a thread.

    Raises:
        Exception: the worker crashed; this was logged and reported.
    """
    channel = ports.channel
    worker: Worker | None = None
    try:
        try:
            worker = build(ports)
        except Exception as error:  # noqa: BLE001 - the dispatcher raises it again
            channel.send(Refused(error))
            while not channel.flush():
                channel.wait(math.inf)
            return
        channel.send(Ready(worker.spec, worker.limits, pid))
        worker.run()
    except (EOFError, ConnectionError):
        return
    except BaseException as error:
        _log.critical("a worker crashes", exc_info=error)
        if worker is not None:
            worker.report_crash()
        raise
