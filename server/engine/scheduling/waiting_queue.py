"""Who is decoded next: a pure policy that takes `now` and owns no clock, no thread and no session.

**Priority.** A request is interactive, or bulk if it is a document. Interactive requests are served in the
order in which they came, before bulk ones. How many rows each class may have while both compete is
`placement`'s to say.

**Fairness.** A bulk request is served at its virtual start time: `submitted_s + tokens already served /
granted tokens/s` (`FAIR_SHARE`); the earliest goes first. It moves back with every sentence that is served,
so that one that arrives later waits for a few sentences, not for all of them. And because new requests start
at the time of their arrival, the large one comes up again, however many others arrive: that is the ageing.

**Bounds.** The queue is bounded in sentences and in source tokens, and a request is taken whole or not at
all. A sentence for which no worker has room is not overtaken by others of its class.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from typing import Literal

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import Priority, Sequence
from server.errors import QueueFullError, TextTooLongError, TooManyTextsError

BULK_TOKENS = 256
"""Source tokens (times beam size) of a request beyond which it is bulk: some 10 sentences."""

Rivalry = Literal["none", "expected", "present"]
"""Whether requests of the other class compete for rows: none came for long, one may come, there are some."""

PRESENT_FOR_S, EXPECTED_FOR_S = 1.0, 60.0
"""How long after an interactive request another one is as good as there, and may come at any time."""

SHARE = 4
"""One row in so many is kept for interactive requests that may come, or left to bulk ones when they have."""

FAIR_SHARE = 0.25
"""Share of the source tokens per second that a bulk request is granted beside new ones. Larger favors bulk
requests, smaller favors others; it only orders the queue and throttles nothing."""

FAIR_TOKENS_PER_S = 200.0
"""Source tokens per second that it is granted at least; before it is known what the model can do, too."""

MIN_RETRY_S, MAX_RETRY_S = 1.0, 60.0
"""Bounds of the advice to a refused client."""

_CLASSES: tuple[Priority, ...] = ("interactive", "bulk")

Place = Callable[[Sequence, Rivalry], int | None]
"""Given a sentence and how requests of the other class compete, gives the worker that has room for it."""


@dataclass(slots=True)
class _Request:
    """The waiting sentences of one request, longest first, and its virtual start time."""

    priority: Priority
    start_s: float
    waiting: deque[Sequence] = field(default_factory=deque)


class WaitingQueue:
    """The one queue of an engine. Not thread-safe: the dispatcher calls it under its lock.

    Attributes:
        sentences: waiting.
        tokens: source tokens waiting.
    """

    def __init__(self, limits: EngineLimits) -> None:
        """Start with an empty queue."""
        self._limits = limits
        self._requests: dict[str, _Request] = {}
        self._order: dict[Priority, list[tuple[float, int, str]]] = {each: [] for each in _CLASSES}
        self._waiting: dict[Priority, int] = dict.fromkeys(_CLASSES, 0)
        self._pushes = 0
        self._rate = _ServiceRate()
        self._first_deadline_s = math.inf
        self._last_interactive_s = -math.inf
        self.sentences = 0
        self.tokens = 0

    def add(self, sequences: list[Sequence]) -> None:
        """Queue all sentences of a request, or none; they share request id, priority and time of submission.

        Raises:
            QueueFullError: the queue has no room for all of them now.
            TooManyTextsError: it never has room for so many sentences.
            TextTooLongError: it never has room for so many tokens.
        """
        limits, tokens = self._limits, sum(len(sequence.source) for sequence in sequences)
        if len(sequences) > limits.max_queue_sentences:
            raise TooManyTextsError(f"more than {limits.max_queue_sentences} sentences in one request")
        if tokens > limits.max_queue_tokens:
            raise TextTooLongError(f"more than {limits.max_queue_tokens} tokens in one request")
        self.check_room(len(sequences), tokens)
        first = sequences[0]
        request = self._requests.get(first.request_id)
        if request is None:
            request = self._requests[first.request_id] = _Request(first.priority, first.submitted_s)
            self._push(first.request_id, request)
        if request.priority == "interactive":
            self._last_interactive_s = first.submitted_s
        # Longest first: the sentences that take most steps start first, and neighbors in the encoder are
        # alike.
        request.waiting = deque(sorted([*request.waiting, *sequences], key=lambda s: -len(s.source)))
        for sequence in sequences:
            self._count(sequence, request.priority, 1)
            self._first_deadline_s = min(self._first_deadline_s, sequence.deadline_s)

    def check_room(self, sentences: int = 1, tokens: int = 1) -> None:
        """Check that a request of so many sentences and source tokens could be queued.

        Raises:
            QueueFullError: the queue has no room for it now.
        """
        excess = self.tokens + tokens - self._limits.max_queue_tokens
        if self.sentences + sentences > self._limits.max_queue_sentences or excess > 0:
            raise QueueFullError("too many sentences are waiting", self.retry_after_s(max(excess, tokens)))

    def take(self, now_s: float, place: Place) -> list[tuple[Sequence, int]]:
        """Take sentences out of the queue for as long as a worker has room for the next one.

        Args:
            now_s: monotonic time.
            place: chooses the worker and counts the sentence there.

        Returns:
            Sentences to decode and their workers, none of them aborted; `expire` drops the overdue ones.
        """
        granted_tokens_per_s = max(FAIR_TOKENS_PER_S, FAIR_SHARE * self._rate.tokens_per_s)
        taken: list[tuple[Sequence, int]] = []
        for priority in _CLASSES:
            while (request := self._next_request(priority)) is not None:
                sequence = request.waiting[0]
                worker = place(sequence, self._rivalry(priority, now_s))
                if worker is None:
                    break
                taken.append((sequence, worker))
                request.waiting.popleft()
                self._count(sequence, priority, -1)
                if priority == "bulk":
                    request.start_s += len(sequence.source) / granted_tokens_per_s
                    heapq.heappop(self._order[priority])
                    self._push(sequence.request_id, request)
        self._rate.note(now_s, sum(len(each.source) for each, _ in taken), idle=self.sentences == 0)
        return taken

    def expire(self, now_s: float) -> list[Sequence]:
        """Take sentences out of the queue whose deadline has passed; nothing is computed for them."""
        if now_s < self._first_deadline_s:
            return []
        removed = self._remove(sequence for sequence in self._all() if sequence.overdue(now_s))
        self._first_deadline_s = min((sequence.deadline_s for sequence in self._all()), default=math.inf)
        return removed

    def abort(self, request_id: str) -> list[Sequence]:
        """Take what is left of a request out of the queue."""
        request = self._requests.get(request_id)
        return self._remove(request.waiting) if request else []

    def remove(self, sequences: Iterable[Sequence]) -> None:
        """Take sentences out of the queue; those that are not in it are ignored."""
        for sequence in sequences:
            request = self._requests.get(sequence.request_id)
            if request is not None and sequence in request.waiting:
                self._remove([sequence])

    def waiting(self, request_id: str) -> int:
        """Count the sentences of a request that are still in the queue."""
        request = self._requests.get(request_id)
        return len(request.waiting) if request else 0

    def drain(self) -> list[Sequence]:
        """Take everything out of the queue."""
        return self._remove(self._all())

    def oldest_s(self) -> float | None:
        """Time of submission of the sentence that has waited longest, or None."""
        return min((sequence.submitted_s for sequence in self._all()), default=None)

    def retry_after_s(self, tokens: int) -> float:
        """Estimate how long the queue takes to shrink by `tokens`, between one second and a minute."""
        rate = self._rate.tokens_per_s
        return min(max(tokens / rate, MIN_RETRY_S), MAX_RETRY_S) if rate else MIN_RETRY_S

    def _rivalry(self, priority: Priority, now_s: float) -> Rivalry:
        """Say how requests of the other class compete with those of this one."""
        if priority == "interactive":
            return "present" if self._waiting["bulk"] else "none"
        idle_s = now_s - self._last_interactive_s
        if self._waiting["interactive"] or idle_s < PRESENT_FOR_S:
            return "present"
        return "expected" if idle_s < EXPECTED_FOR_S else "none"

    def _next_request(self, priority: Priority) -> _Request | None:
        """Give the first request of a class that has sentences; those without are forgotten."""
        order = self._order[priority]
        while order:
            key = order[0][2]
            request = self._requests.get(key)
            if request is not None and request.waiting:
                return request
            heapq.heappop(order)
            if request is not None:
                del self._requests[key]
        return None

    def _all(self) -> Iterable[Sequence]:
        """All sentences in the queue, in no particular order."""
        return (sequence for request in self._requests.values() for sequence in request.waiting)

    def _push(self, key: str, request: _Request) -> None:
        """Enter a request into the order of its class; earlier pushes win between equal times."""
        self._pushes += 1
        heapq.heappush(self._order[request.priority], (request.start_s, self._pushes, key))

    def _remove(self, sequences: Iterable[Sequence]) -> list[Sequence]:
        """Take these out, wherever they stand; emptied requests are dropped when they come up."""
        removed = list(sequences)
        gone = set(removed)
        for key in {sequence.request_id for sequence in removed}:
            request = self._requests[key]
            request.waiting = deque(sequence for sequence in request.waiting if sequence not in gone)
        for sequence in removed:
            self._count(sequence, self._requests[sequence.request_id].priority, -1)
        return removed

    def _count(self, sequence: Sequence, priority: Priority, sign: int) -> None:
        """Keep the sums over the queue."""
        self.sentences += sign
        self.tokens += sign * len(sequence.source)
        self._waiting[priority] += sign


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


def priority_of(
    sources: SequenceOf[SequenceOf[int | bytes]], options: SequenceOf[DecodingOptions]
) -> Priority:
    """Classify a request by its sources and their options."""
    tokens = sum(len(source) * one.beam_size for source, one in zip(sources, options, strict=True))
    return "bulk" if tokens > BULK_TOKENS else "interactive"
