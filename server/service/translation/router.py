"""From a request's languages to the models that translate them: one, or two with a language between."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from server.engine.limits import EngineStats
from server.errors import QueueFullError, TextTooLongError
from server.service.request_limits import check_texts
from server.service.text.languages import AUTO, Detection, Detector, Directions
from server.service.translation.cached_decoding import Phase
from server.service.translation.model_slot import ModelSlot, merge_stats
from server.service.translation.request import Translation, TranslationRequest, through
from server.service.translation.translator import Translator

_DETECTION_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Leg:
    """A direction and who translates it.

    Attributes:
        slot: knows the model that serves now.
        source: language code.
        target: language code.
    """

    slot: ModelSlot
    source: str
    target: str


class Router:
    """Translates requests with all models that are served. Used from one event loop.

    Attributes:
        slots: one for each model, in the operator's order.
        directions: every pair that can be asked for.
    """

    def __init__(self, slots: Sequence[ModelSlot], detector: Detector, pivot: str | None = None) -> None:
        """Find the routes.

        Args:
            slots: one for each model; from here on they are closed by this object.
            detector: resolves the source language `auto`.
            pivot: language through which pairs without a model go; None refuses them.
        """
        self.slots = tuple(slots)
        self._detector = detector
        self._pivot = pivot
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="dragoman-detect")
        self._under_way: dict[str, Translator] = {}
        self._routes: dict[tuple[str, str], tuple[Leg, ...]] = {}
        self.find_routes()

    def find_routes(self) -> None:
        """Look again at what the models translate, after one was exchanged."""
        direct = {
            (source, target): Leg(slot, source, target)
            for slot in self.slots
            for source, target in slot.model.manifest.pairs
        }
        self._routes = {pair: (leg,) for pair, leg in direct.items()}
        into = [leg for leg in direct.values() if leg.target == self._pivot]
        out_of = [leg for leg in direct.values() if leg.source == self._pivot]
        for first in into:
            for second in out_of:
                if first.source != second.target:
                    self._routes.setdefault((first.source, second.target), (first, second))
        self.directions = Directions(self._routes)

    @property
    def pairs(self) -> list[tuple[str, str, str]]:
        """Source, target and the language between them, empty for a model of its own, of every route."""
        return [
            (source, target, "" if len(legs) == 1 else legs[0].target)
            for (source, target), legs in self._routes.items()
        ]

    def stats(self) -> EngineStats:
        """Say what all engines are doing now."""
        return merge_stats([slot.stats() for slot in self.slots])

    def stats_by_model(self) -> Mapping[str, EngineStats]:
        """Say it of each model, by its name."""
        return {slot.model.manifest.name: slot.stats() for slot in self.slots}

    def check_room(self, active: int) -> None:
        """Check that some model would take a request now, whichever it is for.

        Args:
            active: requests that were taken on before it and have not ended. Those that are still being
                tokenised need room, too.

        Raises:
            QueueFullError: all lines are full; no request needs to be read to know that it is refused.
        """
        refusals = []
        for slot in self.slots:
            try:
                slot.model.engine.check_room(active)
            except QueueFullError as error:
                refusals.append(error)
            else:
                return
        raise min(refusals, key=lambda error: error.retry_after_s)

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
            InferenceError: an engine failed on a sentence.
            UnavailableError: an engine is dead or draining.
        """
        # What a request may hold is the same for all models.
        check_texts(request.texts, self.slots[0].translator.limits)
        target = self.directions.find(request.target, "target")
        detected = None
        if request.source.strip().lower() == AUTO:
            detected = await self._detect_source(request, target)
            source = detected.language
        else:
            source = self.directions.find(request.source, "source")
        self.directions.check(source, target)
        first, *rest = self._routes[source, target]
        try:
            with first.slot.translator as translator:
                # From here on a reload changes nothing for this request.
                if rest:
                    with rest[0].slot.translator as second:
                        translation = await self._pivoted(request, translator, first, second, rest[0])
                else:
                    self._under_way[request.request_id] = translator
                    translation = await translator.translate(request, source, target)
        finally:
            self._under_way.pop(request.request_id, None)
        return translation if detected is None else replace(translation, detected=detected)

    async def detect(self, text: str) -> list[Detection]:
        """Rank the served languages by how likely a text is written in them.

        Args:
            text: any text.

        Returns:
            Every served language once, likeliest first.

        Raises:
            TextTooLongError: the text has too many characters.
        """
        check_texts([text], self.slots[0].translator.limits)
        return await self._rank(text, self.directions.codes)

    def phase(self, request_id: str) -> Phase:
        """Say how far a request has come that `translate` is working on.

        Args:
            request_id: of the request.

        Returns:
            `running` once a sentence of it has left the queue.
        """
        translator = self._under_way.get(request_id)
        return "queued" if translator is None else translator.phase(request_id)

    async def close(self, timeout_s: float) -> None:
        """Close every engine there is; for the end of the server.

        Args:
            timeout_s: for what they are still doing.
        """
        await asyncio.gather(*(slot.close(timeout_s) for slot in self.slots))
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _pivoted(
        self, request: TranslationRequest, opening: Translator, first: Leg, closing: Translator, second: Leg
    ) -> Translation:
        """Translate with two models; what the client chose of decoding holds for the second."""
        closing.check(request.options)  # before any work is done
        self._under_way[request.request_id] = opening
        middle = await opening.translate(
            replace(request, options=request.options.for_pivot()), first.source, first.target
        )
        self._under_way[request.request_id] = closing
        best = tuple(text.hypotheses[0] for text in middle.texts)
        try:
            final = await closing.translate(replace(request, texts=best), second.source, second.target)
        except TextTooLongError as error:
            raise TextTooLongError(f"translated to {second.source} on the way, {error}") from error
        return through(middle, final)

    async def _detect_source(self, request: TranslationRequest, target: str) -> Detection:
        candidates = [code for code in self.directions.sources if target in self.directions.targets(code)]
        if not candidates:
            self.directions.check(AUTO, target)
        return (await self._rank("\n".join(request.texts), candidates))[0]

    async def _rank(self, text: str, candidates: Sequence[str]) -> list[Detection]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, self._detector.rank, text[:_DETECTION_CHARS], tuple(candidates)
        )
