"""A request's sentences from token ids to results: from the sentence cache, or through the engine."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.errors import DeadlineExceededError
from server.service.models.served_model import ServedModel
from server.service.translation.completions import Arrivals
from server.service.translation.sentence_cache import Key, SentenceCache

Phase = Literal["queued", "running"]

# The engine itself ends a sentence whose deadline has passed, between two steps. This much later we stop
# waiting for it, in case a single run takes longer.
_DEADLINE_GRACE_S = 0.25


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of a request's sentences.

    Attributes:
        results: in order.
        cached: how many of them were in the cache; None if it was not asked.
    """

    results: Sequence[SequenceResult]
    cached: int | None


class CachedDecoder:
    """Decodes sentences with one model and a cache before its engine. Used from one event loop."""

    def __init__(
        self,
        model: ServedModel,
        cache: SentenceCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start idle.

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

    async def decode(
        self,
        request_id: str,
        sequences: Sequence[tuple[int, ...]],
        options: DecodingOptions | Sequence[DecodingOptions],
        deadline_s: float,
        *,
        repeatable: bool = True,
    ) -> Decoded:
        """Decode sentences.

        Cancelling this coroutine aborts them.

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
            return Decoded((), None)
        if self._clock() >= deadline_s:
            raise DeadlineExceededError("the deadline passed before the text was read")
        if self._cache is None or not repeatable:
            return Decoded(await self._compute(request_id, sequences, options, deadline_s), None)
        cache = self._cache
        each = [options] * len(sequences) if isinstance(options, DecodingOptions) else options
        keys: list[Key] = [
            (self._model.sha256, cache.number_of(one), sequence)
            for one, sequence in zip(each, sequences, strict=True)
        ]
        found = [cache.find(key) for key in keys]
        # By key, for texts that differ may be the same to the tokenizer.
        missing = {key: one for key, one, result in zip(keys, each, found, strict=True) if result is None}
        if missing:
            computed = await self._compute(
                request_id, [key[2] for key in missing], list(missing.values()), deadline_s
            )
            results = dict(zip(missing, computed, strict=True))
            for key, result in results.items():
                cache.put(key, result)
        return Decoded(
            [result if result is not None else results[key] for key, result in zip(keys, found, strict=True)],
            len(found) - found.count(None),
        )

    def phase(self, request_id: str) -> Phase:
        """Say how far a request has come whose `decode` has not ended.

        Args:
            request_id: of the request.

        Returns:
            `running` once a sentence of it has left the queue.
        """
        started = any(
            future.done() for future in self._futures.get(request_id, ())
        ) or self._model.engine.decoding(request_id)
        return "running" if started else "queued"

    async def _compute(
        self,
        request_id: str,
        sequences: Sequence[tuple[int, ...]],
        options: DecodingOptions | Sequence[DecodingOptions],
        deadline_s: float,
    ) -> list[SequenceResult]:
        engine = self._model.engine
        futures = self._futures[request_id] = engine.submit(request_id, sequences, options, deadline_s)
        try:
            timeout_s = max(0.0, deadline_s - self._clock()) + _DEADLINE_GRACE_S
            return await self._arrivals.wait(futures, timeout_s)
        except BaseException:
            engine.abort(request_id)
            raise
        finally:
            del self._futures[request_id]
