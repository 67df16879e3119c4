"""A request's sentences on their way through the engine and back, each computed once."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.errors import DeadlineExceededError, DragomanError
from server.service.models.served_model import ServedModel
from server.service.translation.completions import Arrivals
from server.service.translation.sentence_cache import Flight, Key, SentenceCache

Phase = Literal["queued", "running"]

# The engine itself ends a sentence whose deadline has passed, between two steps. This much later we stop
# waiting for it, in case a single run takes longer.
_DEADLINE_GRACE_S = 0.25
# Once for another request's sentence that ended with that request's deadline in the moment we joined it, or
# with an engine that was replaced; more would be a fault.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a request's sentences.

    Attributes:
        results: in order.
        cached: how many of them were in the cache; None if it was not asked.
    """

    results: Sequence[SequenceResult]
    cached: int | None


class Runs:
    """Sends sentences to one model's engine and waits for them. Used from one event loop."""

    def __init__(
        self,
        model: ServedModel,
        cache: SentenceCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wait for nothing yet.

        Args:
            model: with the engine.
            cache: of all models; None computes everything.
            clock: monotonic seconds.
        """
        self._model = model
        self._cache = cache
        self._clock = clock
        self._arrivals = Arrivals()
        self._futures: dict[str, Sequence[Future[SequenceResult]]] = {}
        self._joined: dict[str, Sequence[Flight]] = {}

    async def run(
        self,
        request_id: str,
        sequences: Sequence[tuple[int, ...]],
        options: DecodingOptions | Sequence[DecodingOptions],
        deadline_s: float,
        *,
        repeatable: bool = True,
    ) -> Run:
        """Decode sentences.

        Cancelling this coroutine ends those that no other request waits for.

        Args:
            request_id: of the request.
            sequences: token ids of each sentence.
            options: how to decode them, all alike or each its own way.
            deadline_s: monotonic time after which nobody waits.
            repeatable: whether they would be decoded to the same again.

        Returns:
            The results.

        Raises:
            DragomanError: as the engine's `submit` and its futures.
        """
        if not sequences:
            return Run((), None)
        if self._clock() >= deadline_s:
            raise DeadlineExceededError("the deadline passed before the text was read")
        if self._cache is None or not repeatable:
            return Run(await self._compute(request_id, sequences, options, deadline_s), None)
        cache, sha256 = self._cache, self._model.sha256
        if isinstance(options, DecodingOptions):
            number, each = cache.number_of(options), [options] * len(sequences)
            keys: list[Key] = [(sha256, number, sequence) for sequence in sequences]
        else:
            each = list(options)
            keys = [
                (sha256, cache.number_of(one), sequence)
                for one, sequence in zip(each, sequences, strict=True)
            ]
        results = [cache.find(key) for key in keys]
        cached = len(results) - results.count(None)
        if cached == len(keys):
            return Run([result for result in results if result is not None], cached)
        # By key, for texts that differ may be the same to the tokenizer.
        wanted = {key: one for key, one, result in zip(keys, each, results, strict=True) if result is None}
        computed = await self._share(cache, request_id, wanted, deadline_s)
        return Run(
            [computed[key] if result is None else result for key, result in zip(keys, results, strict=True)],
            cached,
        )

    def phase(self, request_id: str) -> Phase:
        """Say how far a request has come whose `run` has not ended.

        Args:
            request_id: of the request.

        Returns:
            `running` once a sentence of it has left the queue.
        """
        engine = self._model.engine
        runs = {(flight.engine, flight.request_id) for flight in self._joined.get(request_id, ())}
        started = (
            any(future.done() for future in self._futures.get(request_id, ()))
            or engine.decoding(request_id)
            or any(other.decoding(name) for other, name in runs)
        )
        return "running" if started else "queued"

    async def _share(
        self,
        cache: SentenceCache,
        request_id: str,
        wanted: Mapping[Key, DecodingOptions],
        deadline_s: float,
    ) -> dict[Key, SequenceResult]:
        """Compute what nobody computes, and wait for that and for the rest."""
        engine, missing = self._model.engine, list(wanted)
        found: dict[Key, SequenceResult] = {}
        for attempt in range(1, _ATTEMPTS + 1):
            flights = cache.join(missing, deadline_s)
            try:
                joined = {flight.key for flight in flights}
                own = [key for key in missing if key not in joined] if joined else missing
                if own:
                    futures = engine.submit(
                        request_id, [key[2] for key in own], [wanted[key] for key in own], deadline_s
                    )
                    flights += cache.begin(own, engine, request_id, futures, deadline_s)
                self._joined[request_id] = flights
                results = await self._wait(request_id, [flight.future for flight in flights], deadline_s)
                cache.finish(flights, results)
                found.update(zip((flight.key for flight in flights), results, strict=True))
                return found
            except BaseException as error:
                cache.leave(flights, request_id)
                lost = any(flight.lost for flight in flights if flight.request_id != request_id)
                if not isinstance(error, DragomanError) or not lost:
                    raise
                if attempt == _ATTEMPTS or self._clock() >= deadline_s:
                    raise
                for flight in flights:
                    if flight.future.done() and not flight.lost:
                        found[flight.key] = flight.future.result()
            finally:
                self._joined.pop(request_id, None)
            missing = [key for key in missing if key not in found]
        raise AssertionError("the last attempt ends above")

    async def _compute(
        self,
        request_id: str,
        sequences: Sequence[tuple[int, ...]],
        options: DecodingOptions | Sequence[DecodingOptions],
        deadline_s: float,
    ) -> list[SequenceResult]:
        engine = self._model.engine
        futures = engine.submit(request_id, sequences, options, deadline_s)
        try:
            return await self._wait(request_id, futures, deadline_s)
        except BaseException:
            engine.abort(request_id)
            raise

    async def _wait(
        self, request_id: str, futures: Sequence[Future[SequenceResult]], deadline_s: float
    ) -> list[SequenceResult]:
        self._futures[request_id] = futures
        try:
            timeout_s = max(0.0, deadline_s - self._clock()) + _DEADLINE_GRACE_S
            return await self._arrivals.wait(futures, timeout_s)
        finally:
            self._futures.pop(request_id, None)
