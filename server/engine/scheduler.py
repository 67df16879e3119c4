"""Who is decoded next: a pure policy that takes `now` and owns no clock, no thread and no session.

**Fairness.** A request's turn comes at `submitted_s + tokens already admitted / FAIR_TOKENS_PER_S`; the
earliest turn goes first. A document of 200 sentences is pushed back with every sentence that it gets, so that
a short request that arrives later waits for a few sentences, not for the document. And because new requests
start at the time of their arrival, the document's turn comes too, however many short requests arrive: that is
the ageing.

**Admission.** By rows (a sentence takes `beam_size` of them), by source tokens (so that encoding does not
hold up the rows that are decoding) and by share (so that the first worker to ask does not take what others
could do beside it). A sentence that does not fit stops the admission rather than being overtaken: rows then
run free until it fits.

**Bounds.** The line is bounded in sentences and in source tokens, and a request is taken whole or not at all.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from server.errors import QueueFullError, TextTooLongError, TooManyTextsError

from .sequence import EngineLimits, Sequence

FAIR_TOKENS_PER_S = 200.0
"""Source tokens that a long request is granted per second beside new ones, once there is more work than rows.

Larger favours long requests, smaller favours short ones; it only orders the line and throttles nothing.
"""

CALL_COST_TOKENS = 20
"""What one more encoder run costs, in positions: padding is cut off only where it costs more than that.

Measured on one thread, int8: 0.5 ms a run and 0.031 ms a position with 6 layers of 256; 1.5 and 0.075 with 6
of 512.
"""

MIN_RETRY_S, MAX_RETRY_S = 1.0, 60.0
"""Bounds of the advice to a refused client."""


@dataclass(slots=True)
class _Request:
    """The waiting sentences of one request, longest first, and when it is its turn."""

    turn_s: float
    waiting: deque[Sequence] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the asking worker is, and the others.

    Attributes:
        free_rows: rows the worker could take.
        busy_rows: rows it is decoding.
        busy_rows_all: rows all workers are decoding, this one included.
        workers: number of workers.
    """

    free_rows: int
    busy_rows: int = 0
    busy_rows_all: int = 0
    workers: int = 1


class Scheduler:
    """The waiting line of all workers. Not thread-safe: the worker pool calls it under its lock."""

    def __init__(self, limits: EngineLimits) -> None:
        """Start with an empty line.

        Args:
            limits: bounds of the line and of an admission.
        """
        self._limits = limits
        self._requests: dict[str, _Request] = {}
        self._turns: list[tuple[float, int, str]] = []
        self._pushes = 0
        self._rate = _ServiceRate()
        self._first_deadline_s = math.inf
        self.sentences = 0
        self.tokens = 0
        self.rows = 0

    def add(self, sequences: list[Sequence]) -> None:
        """Put all sentences of a request in the line, or none.

        Args:
            sequences: sentences with the same request id and time of submission.

        Raises:
            QueueFullError: the line has no room for all of them now.
            TooManyTextsError: it never has room for so many sentences.
            TextTooLongError: it never has room for so many tokens.
        """
        limits, tokens = self._limits, sum(len(sequence.source) for sequence in sequences)
        if len(sequences) > limits.max_queue_sentences:
            raise TooManyTextsError(f"more than {limits.max_queue_sentences} sentences in one request")
        if tokens > limits.max_queue_tokens:
            raise TextTooLongError(f"more than {limits.max_queue_tokens} tokens in one request")
        excess = self.tokens + tokens - limits.max_queue_tokens
        if self.sentences + len(sequences) > limits.max_queue_sentences or excess > 0:
            raise QueueFullError("too many sentences are waiting", self.retry_after_s(max(excess, tokens)))
        if not sequences:
            return
        key, submitted_s = sequences[0].request_id, sequences[0].submitted_s
        request = self._requests.get(key)
        if request is None:
            request = self._requests[key] = _Request(submitted_s)
            self._push(key, request)
        # Longest first: the sentences that take most steps start first, and neighbours in the encoder are
        # alike.
        request.waiting = deque(sorted([*request.waiting, *sequences], key=lambda s: -len(s.source)))
        for sequence in sequences:
            self._count(sequence, 1)
            self._first_deadline_s = min(self._first_deadline_s, sequence.deadline_s)

    def admit(self, now_s: float, load: Load) -> list[Sequence]:
        """Take the next sentences out of the line.

        Args:
            now_s: monotonic time.
            load: what the asking worker has room for.

        Returns:
            Sentences to start now, none of them aborted; `expire` drops the overdue ones beforehand.
        """
        share = -(-(load.busy_rows_all + self.rows) // load.workers) - load.busy_rows
        budget_tokens, free_rows = self._limits.max_batch_tokens, load.free_rows
        admitted: list[Sequence] = []
        while self._turns and share > 0:
            _, _, key = self._turns[0]
            request = self._requests.get(key)
            if request is None or not request.waiting:
                heapq.heappop(self._turns)
                self._requests.pop(key, None)
                continue
            sequence = request.waiting[0]
            if not sequence.aborted:
                fits = sequence.beam_size <= free_rows and (
                    len(sequence.source) <= budget_tokens or not admitted
                )
                if not fits:
                    break
                admitted.append(sequence)
                free_rows -= sequence.beam_size
                share -= sequence.beam_size
                budget_tokens -= len(sequence.source)
                request.turn_s += len(sequence.source) / FAIR_TOKENS_PER_S
            request.waiting.popleft()
            self._count(sequence, -1)
            heapq.heappop(self._turns)
            if request.waiting:
                self._push(key, request)
            else:
                del self._requests[key]
        self._rate.note(now_s, sum(len(sequence.source) for sequence in admitted), idle=self.sentences == 0)
        return admitted

    def expire(self, now_s: float) -> list[Sequence]:
        """Take sentences out of the line whose deadline has passed; nothing is computed for them."""
        if now_s < self._first_deadline_s:
            return []
        removed = self._remove(sequence for sequence in self._waiting() if sequence.overdue(now_s))
        self._first_deadline_s = min((sequence.deadline_s for sequence in self._waiting()), default=math.inf)
        return removed

    def abort(self, request_id: str) -> list[Sequence]:
        """Take what is left of a request out of the line."""
        request = self._requests.get(request_id)
        return self._remove(request.waiting) if request else []

    def waiting(self, request_id: str) -> int:
        """Count the sentences of a request that are still in the line."""
        request = self._requests.get(request_id)
        return len(request.waiting) if request else 0

    def drain(self) -> list[Sequence]:
        """Take everything out of the line."""
        return self._remove(self._waiting())

    def oldest_s(self) -> float | None:
        """Time of submission of the sentence that has waited longest, or None."""
        return min((sequence.submitted_s for sequence in self._waiting()), default=None)

    def retry_after_s(self, tokens: int) -> float:
        """Estimate how long the line takes to shrink by `tokens`, between one second and a minute."""
        rate = self._rate.tokens_per_s
        return min(max(tokens / rate, MIN_RETRY_S), MAX_RETRY_S) if rate else MIN_RETRY_S

    def _waiting(self) -> Iterable[Sequence]:
        """All sentences in the line, in no particular order."""
        return (sequence for request in self._requests.values() for sequence in request.waiting)

    def _push(self, key: str, request: _Request) -> None:
        """Note a request's turn; earlier pushes win between equal ones."""
        self._pushes += 1
        heapq.heappush(self._turns, (request.turn_s, self._pushes, key))

    def _remove(self, sequences: Iterable[Sequence]) -> list[Sequence]:
        """Take these out, wherever they stand; turns of emptied requests are dropped when they come up."""
        removed = list(sequences)
        gone = set(removed)
        for key in {sequence.request_id for sequence in removed}:
            request = self._requests[key]
            request.waiting = deque(sequence for sequence in request.waiting if sequence not in gone)
        for sequence in removed:
            self._count(sequence, -1)
        return removed

    def _count(self, sequence: Sequence, sign: int) -> None:
        """Keep the sums over the line."""
        self.sentences += sign
        self.tokens += sign * len(sequence.source)
        self.rows += sign * sequence.beam_size


class _ServiceRate:
    """Source tokens admitted per second while there was always someone waiting."""

    def __init__(self) -> None:
        self._events: deque[tuple[float, int]] = deque(maxlen=64)

    def note(self, now_s: float, tokens: int, *, idle: bool) -> None:
        """Count an admission; an empty line ends the measurement, for then arrivals are what is slow."""
        if tokens:
            self._events.append((now_s, tokens))
        if idle and len(self._events) > 1:
            last = self._events[-1]
            self._events.clear()
            self._events.append(last)

    @property
    def tokens_per_s(self) -> float:
        """The mean over the last admissions, 0.0 when there are too few to tell."""
        if len(self._events) < 2:
            return 0.0
        duration_s = self._events[-1][0] - self._events[0][0]
        return sum(tokens for _, tokens in list(self._events)[1:]) / duration_s if duration_s > 0 else 0.0


def encoder_batches(sequences: list[Sequence], max_batch_tokens: int) -> list[list[Sequence]]:
    """Cut an admission into encoder runs of one beam width each, with little padding.

    Args:
        sequences: sentences to start.
        max_batch_tokens: positions of one run, padding included; a single sentence may have more.

    Returns:
        Runs, each with its longest sentence first.
    """
    runs: list[list[Sequence]] = []
    ordered = sorted(sequences, key=lambda s: (s.beam_size, -len(s.source)))
    for _, group in itertools.groupby(ordered, key=lambda s: s.beam_size):
        alike = list(group)
        run: list[Sequence] = []
        for index, sequence in enumerate(alike):
            if run:
                longest = len(run[0].source)
                padding_saved = (longest - len(sequence.source)) * (len(alike) - index)
                if padding_saved > CALL_COST_TOKENS or longest * (len(run) + 1) > max_batch_tokens:
                    runs.append(run)
                    run = []
            run.append(sequence)
        runs.append(run)
    return runs
