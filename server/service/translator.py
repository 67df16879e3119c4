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
from server.service.admission import RequestLimits, check_options, check_texts, choose_each
from server.service.arrivals import Arrivals
from server.service.document import Document, TextCodec
from server.service.languages import AUTO, Detection, Detector, Directions
from server.service.model import ServedModel
from server.service.request import Translation, TranslationRequest

T = TypeVar("T")
Phase = Literal["queued", "running"]

# A short sentence is split and tokenised in 0.05 ms, less than handing it to a thread and back costs.
_INLINE_CHARS = 400
# The engine itself ends a sentence whose deadline has passed, between two steps. This much later we stop
# waiting for it, in case a single run takes longer.
_DEADLINE_GRACE_S = 0.25
_DETECTION_CHARS = 2000


class Translator:
    """Translates requests with one model. Used from one event loop.

    Who uses it within `with` can be sure that its model is not let go meanwhile.
    """

    def __init__(
        self,
        model: ServedModel,
        limits: RequestLimits,
        detector: Detector,
        text_threads: int = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wire the parts; starts the threads for text.

        Args:
            model: a loaded model.
            limits: of one request.
            detector: resolves the source language `auto`.
            text_threads: threads for long texts.
            clock: monotonic seconds.
        """
        self.model = model
        self.limits = limits
        self.directions = Directions((d.source, d.target) for d in model.manifest.directions)
        self._detector = detector
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

    async def translate(self, request: TranslationRequest) -> Translation:
        """Translate every text of a request.

        Cancelling this coroutine aborts the request: its rows are free before the next step.

        Args:
            request: what to translate.

        Returns:
            The translations in the order of the texts.

        Raises:
            InvalidRequestError: languages, texts or options that cannot be served.
            QueueFullError: no room for all sentences.
            DeadlineExceededError: the deadline passed.
            InferenceError: the engine failed on a sentence.
            UnavailableError: the engine is dead or draining.
        """
        started_s = self._clock()
        check_texts(request.texts, self.limits)
        check_options(request.wishes, self.limits)
        size = sum(map(len, request.texts))
        target = self.directions.find(request.target, "target")
        source, detected = await self._find_source(request, target, size)
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
            detected=detected,
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

    async def detect(self, text: str) -> list[Detection]:
        """Rank the served languages by how likely a text is written in them.

        Args:
            text: any text.

        Returns:
            Every served language once, likeliest first.

        Raises:
            TextTooLongError: the text has too many characters.
        """
        check_texts([text], self.limits)
        return await self._rank(text, self.directions.codes)

    async def warm_up(self) -> None:
        """Split and tokenise once, off the event loop: the splitter loads its rules at the first sentence."""
        for source in self.directions.sources:
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

    async def _find_source(
        self, request: TranslationRequest, target: str, size: int
    ) -> tuple[str, Detection | None]:
        if request.source.strip().lower() != AUTO:
            source = self.directions.find(request.source, "source")
            self.directions.check(source, target)
            return source, None
        candidates = [code for code in self.directions.sources if target in self.directions.targets(code)]
        if not candidates:
            self.directions.check(AUTO, target)
        sample = "\n".join(request.texts)[:_DETECTION_CHARS] if size else ""
        detected = (await self._rank(sample, candidates))[0]
        return detected.language, detected

    async def _rank(self, text: str, candidates: Sequence[str]) -> list[Detection]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, self._detector.rank, text[:_DETECTION_CHARS], tuple(candidates)
        )

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
