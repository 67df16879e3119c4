"""Sentences that were translated, and those that are being: each is computed once.

What a model makes of a sentence depends on its token ids and on the options of decoding, so these and the
bundle's hash are the key: texts that the tokenizer does not tell apart share an entry, and a reload leaves no
entry that is wrong. What is drawn at random without a seed is looked up nowhere.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from server.engine.options import DecodingOptions
from server.engine.sequence import FinishReason, Hypothesis, SequenceResult
from server.errors import AbortedError, DeadlineExceededError, DrainingError
from server.service.models.served_model import TranslationEngine

Key = tuple[str, int | DecodingOptions, tuple[int, ...]]
"""SHA-256 of the bundle's manifest, how to decode, and the token ids with the model's specials."""

_Entry = tuple[tuple[tuple[tuple[int, ...], float], ...], FinishReason, int, int]
"""A result as tuples of numbers, which the garbage collector looks at once and never again: tokens and score
of each hypothesis, why the best one ended, source and target tokens."""

_MAX_NUMBERED = 1024

# CPython 3.11, 64 bits; a test compares with what the allocator says.
_ENTRY_BYTES = 500
_HYPOTHESIS_BYTES = 160
_TOKEN_BYTES = 40


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What the cache has done and holds.

    Attributes:
        hits: sentences that were there.
        shared: sentences that another request was waiting for already.
        misses: sentences that had to be computed.
        evictions: entries that made room for others.
        entries: sentences that are there now.
        entry_bytes: memory that they take.
    """

    hits: int = 0
    shared: int = 0
    misses: int = 0
    evictions: int = 0
    entries: int = 0
    entry_bytes: int = 0


@dataclass(eq=False, slots=True)
class Flight:
    """A sentence that an engine has taken on.

    Attributes:
        key: of the sentence.
        engine: that has it.
        request_id: under which the engine knows it.
        future: where its one outcome comes.
        deadline_s: monotonic time until which the engine tries.
        waiters: requests that wait for it.
    """

    key: Key
    engine: TranslationEngine
    request_id: str
    future: Future[SequenceResult]
    deadline_s: float
    waiters: int = 1

    @property
    def lost(self) -> bool:
        """Whether it ended for a reason of the request that began it, or of an engine that was replaced."""
        future = self.future
        if not future.done():
            return False
        lost = (DeadlineExceededError, AbortedError, DrainingError)
        return future.cancelled() or isinstance(future.exception(), lost)


class SentenceCache:
    """Least recently used sentences of all models, bounded in bytes. Used from one event loop."""

    def __init__(self, max_bytes: int) -> None:
        """Start empty.

        Args:
            max_bytes: what entries may take.
        """
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._flights: dict[Key, Flight] = {}
        self._numbers: dict[DecodingOptions, int] = {}
        self._next_number = 0
        self._hits = self._shared = self._misses = self._evictions = 0

    def stats(self) -> CacheStats:
        """Say what it has done and holds."""
        return CacheStats(
            self._hits, self._shared, self._misses, self._evictions, len(self._entries), self._bytes
        )

    def number_of(self, options: DecodingOptions) -> int | DecodingOptions:
        """Give what stands for options in a key: mostly a number, whose hash costs a twentieth of theirs.

        Those with tokens of a client stand for themselves: numbers are remembered, and memory is bounded.
        """
        if options.target_prefix:
            return options
        number = self._numbers.get(options)
        if number is None:
            if len(self._numbers) == _MAX_NUMBERED:
                self._numbers.clear()  # the entries under old numbers are never found again, and go with time
            number = self._numbers[options] = self._next_number
            self._next_number += 1
        return number

    def find(self, key: Key) -> SequenceResult | None:
        """Look a finished sentence up, and count it if it is there."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        self._hits += 1
        hypotheses = tuple([Hypothesis(tokens, score) for tokens, score in entry[0]])
        # Whoever finds it has waited for nothing.
        return SequenceResult(hypotheses, *entry[1:], 0.0, 0.0, 0.0)

    def join(self, keys: Iterable[Key], deadline_s: float) -> list[Flight]:
        """Wait, too, for those sentences that are under way; `finish` or `leave` has to follow.

        Args:
            keys: of sentences that were not found.
            deadline_s: time until which the engine is to try them for this request.

        Returns:
            Those that are under way.
        """
        if not self._flights:
            return []
        joined = [
            flight for key in keys if (flight := self._flights.get(key)) is not None and not flight.lost
        ]
        for flight in joined:
            flight.waiters += 1
        self._shared += len(joined)
        _extend([flight for flight in joined if flight.deadline_s < deadline_s], deadline_s)
        return joined

    def begin(
        self,
        keys: Sequence[Key],
        engine: TranslationEngine,
        request_id: str,
        futures: Sequence[Future[SequenceResult]],
        deadline_s: float,
    ) -> list[Flight]:
        """Note sentences that a request has submitted; `finish` or `leave` has to follow.

        Args:
            keys: of the sentences.
            engine: that has them.
            request_id: under which it knows them.
            futures: as the engine gave them.
            deadline_s: as the engine was told.

        Returns:
            The same as flights.
        """
        begun = [
            Flight(key, engine, request_id, future, deadline_s)
            for key, future in zip(keys, futures, strict=True)
        ]
        for flight in begun:
            self._flights[flight.key] = flight
        self._misses += len(begun)
        return begun

    def finish(self, flights: Sequence[Flight], results: Sequence[SequenceResult]) -> None:
        """Keep what has ended well.

        Args:
            flights: that a request has joined or begun, all of them.
            results: of them.
        """
        for flight, result in zip(flights, results, strict=True):
            self._land(flight, result)

    def leave(self, flights: Collection[Flight], request_id: str) -> None:
        """Give up: what has ended well is kept, and what nobody waits for is dropped by its engine.

        Args:
            flights: that the request has joined or begun, all of them.
            request_id: of the request.
        """
        unwanted, still_wanted = [], False
        for flight in flights:
            flight.waiters -= 1
            future = flight.future
            if future.done():
                failed = future.cancelled() or future.exception() is not None
                self._land(flight, None if failed else future.result())
            elif not flight.waiters:
                self._land(flight, None)
                unwanted.append(flight)
            else:
                still_wanted = still_wanted or flight.request_id == request_id
        own = [flight for flight in unwanted if flight.request_id == request_id]
        if own and not still_wanted:
            own[0].engine.abort(request_id)  # all that the request has begun, at once
        else:
            # Rows are freed before the next step, places in the line when it is their turn.
            for flight in own:
                flight.future.cancel()
        for flight in unwanted:
            if flight.request_id != request_id:
                flight.future.cancel()

    def _land(self, flight: Flight, result: SequenceResult | None) -> None:
        """End a flight, if nobody has yet, and keep its result if there is one."""
        if self._flights.get(flight.key) is not flight:
            return
        del self._flights[flight.key]
        if result is None:
            return
        hypotheses = tuple([(hypothesis.tokens, hypothesis.score) for hypothesis in result.hypotheses])
        entry = (hypotheses, result.finish_reason, result.source_tokens, result.target_tokens)
        size = _bytes_of(flight.key, entry)
        if size > self._max_bytes:
            return
        self._entries[flight.key] = entry
        self._bytes += size
        while self._bytes > self._max_bytes:
            old_key, old = self._entries.popitem(last=False)
            self._bytes -= _bytes_of(old_key, old)
            self._evictions += 1


def _extend(flights: Collection[Flight], deadline_s: float) -> None:
    """Let engines try longer: those who join came later, and their deadline is later, too."""
    by_request: dict[tuple[TranslationEngine, str], set[Future[SequenceResult]]] = {}
    for flight in flights:
        flight.deadline_s = deadline_s
        by_request.setdefault((flight.engine, flight.request_id), set()).add(flight.future)
    for (engine, request_id), futures in by_request.items():
        engine.extend(request_id, futures, deadline_s)


def _bytes_of(key: Key, entry: _Entry) -> int:
    """Estimate what an entry takes, key and bookkeeping included."""
    hypotheses = entry[0]
    tokens = len(key[2])
    if not isinstance(key[1], int):
        tokens += len(key[1].target_prefix)
    for written, _ in hypotheses:
        tokens += len(written)
    return _ENTRY_BYTES + _HYPOTHESIS_BYTES * len(hypotheses) + _TOKEN_BYTES * tokens
