"""A translation request from text to text: read, submit, await, go on with the results, until all is said."""

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Self, TypeVar

from server.service.models.served_model import ServedModel, text_side
from server.service.request_limits import RequestLimits
from server.service.text.codec import Document, Reading, TextCodec
from server.service.text.explanation.requirements import check_explanations
from server.service.text.glossary.entries import Glossary
from server.service.text.options import Way
from server.service.translation.cached_decoding import CachedDecoder
from server.service.translation.decoding_options import choose_each, choose_options, with_token_scores
from server.service.translation.request import RequestedOptions, Translation, TranslationRequest, Work
from server.service.translation.sentence_cache import SentenceCache

T = TypeVar("T")

# A short sentence is split and tokenised in 0.05 ms, less than handing it to a thread and back costs.
_INLINE_CHARS = 400


class Translator:
    """Translates requests with one model. Used from one event loop.

    Who uses it within `with` can be sure that its model is not let go meanwhile.
    """

    def __init__(
        self,
        model: ServedModel,
        limits: RequestLimits,
        text_threads: int = 2,
        cache: SentenceCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wire the parts; starts the threads for text.

        Args:
            model: a loaded model.
            limits: of one request.
            text_threads: threads for long texts.
            cache: of all models; None computes everything.
            clock: monotonic seconds.
        """
        self.model = model
        self.limits = limits
        self._codec = TextCodec(text_side(model, limits), limits)
        self._threads = ThreadPoolExecutor(text_threads, thread_name_prefix="dragoman-text")
        self._clock = clock
        self._decoder = CachedDecoder(model, cache, clock)
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
        """Wait until nobody uses it, which nobody may begin to; False if that takes longer."""
        if self._users:
            self._unused = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._unused.wait(), timeout_s)
        return not self._users

    def check(self, requested: RequestedOptions) -> None:
        """Check decoding options before any work is done.

        Raises:
            InvalidOptionError: an option is out of range for this model; the message names it.
        """
        choose_options(requested, self.limits, self.limits.max_source_tokens)

    async def translate(
        self, request: TranslationRequest, source: str, target: str, glossary: Glossary | None = None
    ) -> Translation:
        """Translate every text of a request.

        Cancelling this coroutine aborts the request: its rows are free before the next step.

        Args:
            request: what to translate; number and length of its texts are known to be right.
            source: language of the texts, as the model calls it.
            target: language to translate to, likewise; the model has this direction.
            glossary: terms of this direction that the request wants.

        Raises:
            InvalidRequestError: texts or options that cannot be served.
            QueueFullError: no room for all sentences.
            DeadlineExceededError: the deadline passed.
            InferenceError: the engine failed on a sentence.
            UnavailableError: the engine is dead or draining.
        """
        started_s = self._clock()
        self.check(request.options)
        check_explanations(request.text_options, self.model.measured, samples=request.options.samples)
        size = sum(map(len, request.texts))
        way, reading = self._plan(request, source, target, glossary)
        document = await self._offload(
            size,
            lambda: self._codec.read(request.texts, way, reading, request.options.target_prefixes),
        )
        work = Work()
        work.stages_s["tokenize"] = self._clock() - started_s
        await self._decode(request, way, document, work, size)
        texts = document.translations(request.options.num_hypotheses, fill=request.every_hypothesis)
        if way.keep:
            written_s = self._clock()
            texts = await self._offload(
                _INLINE_CHARS + 1 if self._codec.looks_for(request.text_options) else size,
                lambda: self._codec.explained(request.texts, document, texts, reading),
            )
            work.stages_s["detokenize"] += self._clock() - written_s
        work.guards = document.guards
        return Translation(tuple(texts), source, target, work)

    def _plan(
        self, request: TranslationRequest, source: str, target: str, glossary: Glossary | None
    ) -> tuple[Way, Reading]:
        """Say how the texts of a request are read, and what becomes of their sentences."""
        way = Way(
            source,
            target,
            self.model.manifest.framing(source, target),
            request.options.num_hypotheses,
            request.text_options.guard,
            every_hypothesis=request.every_hypothesis,
            may_be_cut="max_decoding_length" in request.options.stated,
            glossary=glossary,
            keep=request.text_options.explains,
        )
        reading = Reading(
            request.text_options,
            is_html=request.is_html,
            markup_language=request.markup_language or source,
            split=request.split,
            whole=self.model.manifest.segmentation == "none",
        )
        return way, reading

    async def _decode(
        self, request: TranslationRequest, way: Way, document: Document, work: Work, size: int
    ) -> None:
        """Decode what the document asks for, until it asks for nothing more."""
        limits, prefix = self.limits, way.framing.target_prefix
        if prefix != limits.target_prefix:
            limits = replace(limits, target_prefix=prefix)
        while document.inputs:
            options = choose_each(request.options, limits, document.inputs)
            results, cached = await self._decoder.decode(
                request.request_id,
                [one.ids for one in document.inputs],
                with_token_scores(options) if request.text_options.confidence else options,
                request.deadline_s,
                repeatable=request.options.is_repeatable,
            )
            work.add(results, cached)
            decoded_s = self._clock()
            await self._offload(size, functools.partial(document.resume, results))
            work.stages_s["detokenize"] += self._clock() - decoded_s

    async def warm_up(self) -> None:
        """Get ready to translate from this event loop.

        Splits and tokenises once, off the loop: the splitter loads its rules at the first sentence.
        """
        self.model.engine.attach(asyncio.get_running_loop())
        for source in self.model.manifest.sources:
            await asyncio.to_thread(self._codec.read, ["Warm up. Twice."], Way(source, source), Reading())

    def close(self) -> None:
        """Stop the threads for text; the engine is not touched."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _offload(self, size: int, work: Callable[[], T]) -> T:
        if size <= _INLINE_CHARS:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
