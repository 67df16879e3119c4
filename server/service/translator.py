"""A translation request from text to text: split, tokenise, submit, await, detokenise, join."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal, Self, TypeVar

from server.engine.sequence import DecodingOptions, SequenceResult
from server.errors import DeadlineExceededError
from server.service.admission import RequestLimits, check_options, choose_each
from server.service.arrivals import Arrivals
from server.service.document import Document, TextCodec
from server.service.model import ServedModel
from server.service.request import DecodingWishes, Translation, TranslationRequest

T = TypeVar("T")
Phase = Literal["queued", "running"]

# A short sentence is split and tokenised in 0.05 ms, less than handing it to a thread and back costs.
_INLINE_CHARS = 400
# The engine itself ends a sentence whose deadline has passed, between two steps. This much later we stop
# waiting for it, in case a single run takes longer.
_DEADLINE_GRACE_S = 0.25


class Translator:
    """Translates requests with one model. Used from one event loop.

    Who uses it within `with` can be sure that its model is not let go meanwhile.
    """

    def __init__(
        self,
        model: ServedModel,
        limits: RequestLimits,
        text_threads: int = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wire the parts; starts the threads for text.

        Args:
            model: a loaded model.
            limits: of one request.
            text_threads: threads for long texts.
            clock: monotonic seconds.
        """
        self.model = model
        self.limits = limits
        self._codec = TextCodec(model.tokenizer, model.manifest.special_tokens, limits)
        self._threads = ThreadPoolExecutor(text_threads, thread_name_prefix="dragoman-text")
        self._clock = clock
        self._arrivals = Arrivals()
        self._futures: dict[str, Sequence[Future[SequenceResult]]] = {}
        self._users = 0
        self._unused: asyncio.Event | None = None

    def __enter__(self) -> Self:
        """Count a user."""
        self._users += 1
        return self

    def __exit__(self, *_error: object) -> None:
        """Count a user no more."""
        self._users -= 1
        if not self._users and self._unused is not None:
            self._unused.set()

    async def wait_unused(self, timeout_s: float) -> bool:
        """Wait until nobody uses it; nobody may begin to.

        Args:
            timeout_s: how long at most.

        Returns:
            Whether that came to pass.
        """
        if self._users:
            self._unused = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._unused.wait(), timeout_s)
        return not self._users

    def check(self, wishes: DecodingWishes) -> None:
        """Check decoding options before any work is done.

        Raises:
            InvalidOptionError: an option is out of range for this model; the message names it.
        """
        check_options(wishes, self.limits)

    async def translate(self, request: TranslationRequest, source: str, target: str) -> Translation:
        """Translate every text of a request.

        Cancelling this coroutine aborts the request: its rows are free before the next step.

        Args:
            request: what to translate; number and length of its texts are known to be right.
            source: language of the texts, as the model calls it.
            target: language to translate to, likewise; the model has this direction.

        Returns:
            The translations in the order of the texts.

        Raises:
            InvalidRequestError: texts or options that cannot be served.
            QueueFullError: no room for all sentences.
            DeadlineExceededError: the deadline passed.
            InferenceError: the engine failed on a sentence.
            UnavailableError: the engine is dead or draining.
        """
        started_s = self._clock()
        self.check(request.wishes)
        size = sum(map(len, request.texts))
        prefix = self.model.manifest.source_prefix(source, target)
        document = await self._offload(
            size,
            lambda: self._codec.encode(
                request.texts,
                source,
                is_html=request.is_html,
                prefix=prefix,
                target_prefixes=request.wishes.target_prefixes,
            ),
        )
        tokenized_s = self._clock()
        longest = max(map(len, document.sequences), default=0)
        options = choose_each(request.wishes, self.limits, longest, document.target_prefixes)
        results = await self._run(request, document, options)
        decoded_s = self._clock()
        texts = await self._offload(
            size, lambda: self._codec.decode(document, results, request.wishes.num_hypotheses)
        )
        return Translation(
            texts=tuple(texts),
            source=source,
            target=target,
            sentences=len(results),
            source_tokens=sum(result.source_tokens for result in results),
            target_tokens=sum(result.target_tokens for result in results),
            finish_reasons=Counter(result.finish_reason for result in results),
            stages_s={
                "tokenize": tokenized_s - started_s,
                "queue": max((result.queue_s for result in results), default=0.0),
                "encode": max((result.encode_s for result in results), default=0.0),
                "decode": max((result.decode_s for result in results), default=0.0),
                "detokenize": self._clock() - decoded_s,
            },
        )

    async def warm_up(self) -> None:
        """Split and tokenise once, off the event loop: the splitter loads its rules at the first sentence."""
        for source in dict.fromkeys(pair.source for pair in self.model.manifest.directions):
            await asyncio.to_thread(self._codec.encode, ["Warm up. Twice."], source, is_html=False)

    def phase(self, request_id: str) -> Phase:
        """Say how far a request has come that `translate` is working on.

        Args:
            request_id: of the request.

        Returns:
            `running` once a sentence of it has left the queue.
        """
        futures = self._futures.get(request_id, ())
        started = any(future.done() for future in futures) or self.model.engine.decoding(request_id)
        return "running" if started else "queued"

    def close(self) -> None:
        """Stop the threads for text; the engine is not touched."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _offload(self, size: int, work: Callable[[], T]) -> T:
        if size <= _INLINE_CHARS:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _run(
        self,
        request: TranslationRequest,
        document: Document,
        options: DecodingOptions | list[DecodingOptions],
    ) -> list[SequenceResult]:
        if not document.sequences:
            return []
        if self._clock() >= request.deadline_s:
            raise DeadlineExceededError("the deadline passed before the text was read")
        futures = self.model.engine.submit(
            request.request_id, document.sequences, options, request.deadline_s
        )
        self._futures[request.request_id] = futures
        try:
            timeout_s = max(0.0, request.deadline_s - self._clock()) + _DEADLINE_GRACE_S
            return await self._arrivals.wait(futures, timeout_s)
        except BaseException:
            self.model.engine.abort(request.request_id)
            raise
        finally:
            self._futures.pop(request.request_id, None)
