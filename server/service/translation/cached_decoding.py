"""A request's sentences from token ids to results: from the sentence cache, or through the engine."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.engine.source import Source
from server.errors import AbortedError, DeadlineExceededError
from server.service.models.served_model import ServedModel
from server.service.translation.sentence_cache import Key, SentenceCache

# The engine itself ends a sentence whose deadline has passed, between two steps. This much later we stop
# waiting for it, in case a single run takes longer.
_DEADLINE_GRACE_S = 0.25


class CachedDecoder:
    """Decodes sentences with one model and a cache before its engine. Used from one event loop."""

    def __init__(
        self,
        model: ServedModel,
        cache: SentenceCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start idle; without a cache, which is that of all models, everything is computed."""
        self._model = model
        self._cache = cache
        self._clock = clock

    async def decode(
        self,
        request_id: str,
        sequences: Sequence[Source],
        options: DecodingOptions | Sequence[DecodingOptions],
        deadline_s: float,
        *,
        repeatable: bool = True,
    ) -> tuple[Sequence[SequenceResult], int | None]:
        """Decode sentences.

        Cancelling this coroutine aborts them.

        Args:
            request_id: of the request.
            sequences: what the encoder reads of each sentence.
            options: how to decode them, all alike or each its own way.
            deadline_s: monotonic time after which nobody waits.
            repeatable: whether they would be decoded to the same again.

        Returns:
            The results, and how many of them were in the cache; None if it was not asked.

        Raises:
            DragomanError: as the engine's `submit` and its futures.
        """
        if not sequences:
            return (), None
        if self._clock() >= deadline_s:
            raise DeadlineExceededError("the deadline passed before the text was read")
        if self._cache is None or not repeatable:
            return await self._compute(request_id, sequences, options, deadline_s), None
        cache = self._cache
        each = [options] * len(sequences) if isinstance(options, DecodingOptions) else options
        keys: list[Key] = [
            (self._model.sha256, one, sequence) for one, sequence in zip(each, sequences, strict=True)
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
        return (
            [result if result is not None else results[key] for key, result in zip(keys, found, strict=True)],
            len(found) - found.count(None),
        )

    async def _compute(
        self,
        request_id: str,
        sequences: Sequence[Source],
        options: DecodingOptions | Sequence[DecodingOptions],
        deadline_s: float,
    ) -> list[SequenceResult]:
        engine = self._model.engine
        futures = engine.submit(request_id, sequences, options, deadline_s)
        try:
            timeout_s = max(0.0, deadline_s - self._clock()) + _DEADLINE_GRACE_S
            return await wait_for_all(futures, timeout_s)
        except BaseException:
            engine.abort(request_id)
            raise


async def wait_for_all(futures: Sequence[Future[SequenceResult]], timeout_s: float) -> list[SequenceResult]:
    """Wait on the running event loop until every sentence of a request has ended well, or one has not.

    Futures that end on the loop's own thread, as those of worker processes do, need no wake-up.

    Args:
        futures: of the sentences, as `submit` gave them.
        timeout_s: how long at most.

    Returns:
        The results in order.

    Raises:
        DragomanError: as one of the futures.
        AbortedError: a future was cancelled.
        DeadlineExceededError: the time is up.
    """
    loop, thread, left = asyncio.get_running_loop(), threading.get_ident(), len(futures)
    # An error is its result: asyncio would report an exception that a cancelled caller never takes.
    over: asyncio.Future[BaseException | None] = loop.create_future()

    def end(error: BaseException | None) -> None:
        if not over.done():
            over.set_result(error)

    def record(future: Future[SequenceResult]) -> None:
        nonlocal left
        left -= 1
        if future.cancelled():
            end(AbortedError("the engine dropped the request"))
        elif (error := future.exception()) is not None or not left:
            end(error)

    def note_end(future: Future[SequenceResult]) -> None:
        if threading.get_ident() == thread:
            record(future)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(record, future)

    for future in futures:
        future.add_done_callback(note_end)
    late = DeadlineExceededError("the deadline passed before the translation was ready")
    timer = loop.call_later(timeout_s, end, late)
    try:
        error = await over
    finally:
        timer.cancel()
    if error is not None:
        raise error
    return [future.result() for future in futures]
