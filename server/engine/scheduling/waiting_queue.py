"""Who is decoded next: a pure policy that takes `now` and owns no clock, no thread and no session.

**Lanes.** A request of more than `LONG_TOKENS` source tokens is a document and goes the long lane, any other
the short one. A worker decodes each lane in batches of their own and takes turns (`turns.Turns`): a step of
32 rows takes four times as long as a step of one, and in one batch a short request would pay that at every
step, after having waited for a document's sentence to end before there was a row for it at all.

**Fairness.** Within a lane, a request's turn comes at `submitted_s + tokens already admitted / granted
tokens/s` (`FAIR_SHARE`); the earliest turn goes first. A large request is pushed back with every sentence
that it gets, so that one that arrives later waits for a few sentences, not for all of them. And because new
requests start at the time of their arrival, the large one's turn comes too, however many others arrive: that
is the ageing.

**Admission.** By rows (a sentence takes `beam_size` of them), by source tokens (so that encoding does not
hold up the rows that are decoding; for documents one encoder run, and less while there are short requests to
be held up), by memory (the caches of its arena, grown to hold it, must fit) and by share (so that the first
worker to ask does not take what others could do beside it). A sentence that does not fit stops the admission
of its lane rather than being overtaken: rows then run free until it fits. One that lacks memory stops both
lanes, because arenas give memory back only when they are empty.

**Bounds.** The line is bounded in sentences and in source tokens, and a request is taken whole or not at all.
"""

import heapq
import math
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from server.engine.limits import EngineLimits
from server.engine.scheduling.priority import LANES, Lane, lane_of
from server.engine.sequence import Sequence
from server.errors import QueueFullError, TextTooLongError, TooManyTextsError

FAIR_SHARE = 0.25
"""Share of the source tokens per second that a long request is granted beside new ones, once there is more
work than rows.

Larger favours long requests, smaller favours short ones; it only orders the line and throttles nothing. 64
clients of the shipped model, one text in 32 of 150 words, p95 and p99: 207 and 1,275 ms with 200 tokens/s
whatever the model can do, 218 and 333 ms with this share, 243 and 300 ms with 1.
"""

FAIR_TOKENS_PER_S = 200.0
"""Source tokens per second that it is granted at least; before it is known what the model can do, too."""


GUARDED_TOKENS = 128
"""Source tokens of documents that a worker starts in one step while there are short requests, which wait for
it: 8 ms with 6 layers of 512, as long as two steps of 32 rows. With a whole encoder run it would be 15 ms,
and a document of 64 sentences 1.02 to 1.03 times as fast."""

GUARDED_FOR_S = 1.0
"""How long after the last short request documents are started in such small portions."""


MIN_RETRY_S, MAX_RETRY_S = 1.0, 60.0
"""Bounds of the advice to a refused client."""


@dataclass(slots=True)
class _Request:
    """The waiting sentences of one request, longest first, and when it is its turn."""

    lane: Lane
    turn_s: float
    waiting: deque[Sequence] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class Load:
    """What the asking worker can take in one lane.

    Attributes:
        free_rows: rows the worker could take.
        share: rows it should take, so that others have work too; see `server.engine.scheduling.placement`.
        lane: the lane.
        run_tokens: source tokens that one encoder run takes; of documents no more are started at a time.
        guarded_tokens: the same while short requests have come.
        fits: whether there is memory for a sentence in addition to those it said yes to.
    """

    free_rows: int
    share: int = sys.maxsize
    lane: Lane = "short"
    run_tokens: int = sys.maxsize
    guarded_tokens: int = GUARDED_TOKENS
    fits: Callable[[Sequence], bool] = lambda _: True


class Scheduler:
    """The waiting line of all workers. Not thread-safe: the worker pool calls it under its lock.

    Attributes:
        sentences: waiting.
        tokens: source tokens waiting.
        rows: waiting, by lane.
    """

    def __init__(self, limits: EngineLimits) -> None:
        """Start with an empty line.

        Args:
            limits: bounds of the line and of an admission.
        """
        self._limits = limits
        self._requests: dict[str, _Request] = {}
        self._turns: dict[Lane, list[tuple[float, int, str]]] = {lane: [] for lane in LANES}
        self._pushes = 0
        self._rate = _ServiceRate()
        self._first_deadline_s = math.inf
        self._last_short_s = -math.inf
        self._lacks_memory: Sequence | None = None
        self.sentences = 0
        self.tokens = 0
        self.rows: dict[Lane, int] = dict.fromkeys(LANES, 0)

    def add(self, sequences: list[Sequence], lane: Lane | None = None) -> None:
        """Put all sentences of a request in the line, or none.

        Args:
            sequences: sentences with the same request id and time of submission.
            lane: of their request; None if these are all of it and tell.

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
        self.check_room(len(sequences), tokens)
        if not sequences:
            return
        key, submitted_s = sequences[0].request_id, sequences[0].submitted_s
        request = self._requests.get(key)
        if request is None:
            request = self._requests[key] = _Request(lane or lane_of(sequences), submitted_s)
            self._push(key, request)
        if request.lane == "short":
            self._last_short_s = submitted_s
        # Longest first: the sentences that take most steps start first, and neighbours in the encoder are
        # alike.
        request.waiting = deque(sorted([*request.waiting, *sequences], key=lambda s: -len(s.source)))
        for sequence in sequences:
            self._count(sequence, request.lane, 1)
            self._first_deadline_s = min(self._first_deadline_s, sequence.deadline_s)

    def check_room(self, sentences: int = 1, tokens: int = 1) -> None:
        """Check that a request could be put in the line.

        Args:
            sentences: of the request.
            tokens: source tokens of them all.

        Raises:
            QueueFullError: the line has no room for it now.
        """
        excess = self.tokens + tokens - self._limits.max_queue_tokens
        if self.sentences + sentences > self._limits.max_queue_sentences or excess > 0:
            raise QueueFullError("too many sentences are waiting", self.retry_after_s(max(excess, tokens)))

    def admit(self, now_s: float, load: Load) -> list[Sequence]:
        """Take the next sentences out of the line.

        Args:
            now_s: monotonic time.
            load: what the asking worker has room for.

        Returns:
            Sentences to start now, none of them aborted; `expire` drops the overdue ones beforehand.
        """
        budget_tokens, free_rows, share = self._limits.max_batch_tokens, load.free_rows, load.share
        if load.lane == "long":
            guarded = now_s < self._last_short_s + GUARDED_FOR_S
            budget_tokens = min(budget_tokens, load.guarded_tokens if guarded else load.run_tokens)
        granted_tokens_per_s = max(FAIR_TOKENS_PER_S, FAIR_SHARE * self._rate.tokens_per_s)
        turns = self._turns[load.lane]
        admitted: list[Sequence] = []
        while turns and share > 0:
            _, _, key = turns[0]
            request = self._requests.get(key)
            if request is None or request.lane != load.lane or not request.waiting:
                heapq.heappop(turns)
                if request is not None and not request.waiting:
                    del self._requests[key]
                continue
            sequence = request.waiting[0]
            if not sequence.aborted:
                fits = sequence.beam_size <= free_rows and (
                    len(sequence.source) <= budget_tokens or not admitted
                )
                if not fits or not self._has_memory(sequence, load):
                    break
                admitted.append(sequence)
                free_rows -= sequence.beam_size
                share -= sequence.beam_size
                budget_tokens -= len(sequence.source)
                request.turn_s += len(sequence.source) / granted_tokens_per_s
            request.waiting.popleft()
            self._count(sequence, request.lane, -1)
            heapq.heappop(turns)
            if request.waiting:
                self._push(key, request)
            else:
                del self._requests[key]
        self._rate.note(now_s, sum(len(sequence.source) for sequence in admitted), idle=self.sentences == 0)
        return admitted

    def _has_memory(self, sequence: Sequence, load: Load) -> bool:
        """Ask for a sentence's memory; while one lacks it, no other is admitted."""
        if self.lacks_memory and self._lacks_memory is not sequence:
            return False
        self._lacks_memory = None if load.fits(sequence) else sequence
        return self._lacks_memory is None

    @property
    def lacks_memory(self) -> bool:
        """Whether a sentence waits for memory, and all others for it."""
        return self._lacks_memory is not None and self._is_waiting(self._lacks_memory)

    def _is_waiting(self, sequence: Sequence) -> bool:
        request = self._requests.get(sequence.request_id)
        return request is not None and sequence in request.waiting and not sequence.aborted

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
        heapq.heappush(self._turns[request.lane], (request.turn_s, self._pushes, key))

    def _remove(self, sequences: Iterable[Sequence]) -> list[Sequence]:
        """Take these out, wherever they stand; turns of emptied requests are dropped when they come up."""
        removed = list(sequences)
        gone = set(removed)
        for key in {sequence.request_id for sequence in removed}:
            request = self._requests[key]
            request.waiting = deque(sequence for sequence in request.waiting if sequence not in gone)
        for sequence in removed:
            self._count(sequence, self._requests[sequence.request_id].lane, -1)
        return removed

    def _count(self, sequence: Sequence, lane: Lane, sign: int) -> None:
        """Keep the sums over the line."""
        self.sentences += sign
        self.tokens += sign * len(sequence.source)
        self.rows[lane] += sign * sequence.beam_size


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
