"""From a request's languages to the models that translate them: one, or two with a language between."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from server.engine.limits import EngineStats
from server.errors import (
    InvalidOptionError,
    InvalidRequestError,
    QueueFullError,
    TextTooLongError,
    UnsupportedLanguageError,
)
from server.service.request_limits import check_texts
from server.service.text.detection import triage
from server.service.text.detection.detector import rank
from server.service.text.detection.triage import Finding, is_of_none
from server.service.text.glossary.entries import Glossary
from server.service.text.glossary.store import GlossaryStore
from server.service.text.languages import AUTO, UNDETERMINED, Detection, Directions
from server.service.text.output.shape import on_the_way
from server.service.translation.model_slot import ModelSlot, merge_stats
from server.service.translation.request import Translation, TranslationRequest, gathered, through
from server.service.translation.translator import Translator

T = TypeVar("T")

# Looking at so many characters takes less than 1 ms; more is done on a thread.
_INLINE_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Leg:
    """A direction, as two language codes, and the slot of the model that translates it now."""

    slot: ModelSlot
    source: str
    target: str


class Router:
    """Translates requests with all models that are served. Used from one event loop.

    Attributes:
        slots: one for each model, in the operator's order.
        directions: every pair that can be asked for.
        glossaries: that requests may name.
    """

    def __init__(
        self,
        slots: Sequence[ModelSlot],
        pivots: Collection[str] = (),
        glossaries: GlossaryStore | None = None,
    ) -> None:
        """Find the routes.

        Args:
            slots: one for each model; from here on they are closed by this object.
            pivots: what models call the language through which pairs without a model go; none refuses them.
            glossaries: that requests may name; None starts without any.
        """
        self.slots = tuple(slots)
        self._pivots = pivots
        self.glossaries = glossaries or GlossaryStore()
        self._routes: dict[tuple[str, str], tuple[Leg, ...]] = {}
        self.find_routes()

    def find_routes(self) -> None:
        """Look again at what the models translate, after one was exchanged."""
        direct: dict[tuple[str, str], Leg] = {}
        for slot in self.slots:
            for pair in slot.model.manifest.pairs if slot.model.manifest.translates else ():
                direct.setdefault(pair, Leg(slot, *pair))
        self._routes = {pair: (leg,) for pair, leg in direct.items()}
        into = [leg for leg in direct.values() if leg.target in self._pivots]
        out_of = [leg for leg in direct.values() if leg.source in self._pivots]
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
        """Check that some model would take a request now, whichever it is for, so that it is worth reading.

        Args:
            active: requests that were taken on before it and have not ended. Those that are still being
                tokenised need room, too.

        Raises:
            QueueFullError: all lines are full.
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

        Raises:
            InvalidRequestError: languages, texts or options that cannot be served.
            QueueFullError: no room for all sentences.
            DeadlineExceededError: the deadline passed.
            InferenceError: an engine failed on a sentence.
            UnavailableError: an engine is dead or draining.
        """
        if not self._routes:
            raise UnsupportedLanguageError("no model here translates; see GET /models and POST /generate")
        # What a request may hold is the same for all models.
        check_texts(request.texts, self.slots[0].translator.limits)
        target = self.directions.find(request.target, "target")
        stated = None if _is_auto(request.source) else self.directions.find(request.source, "source")
        findings = await self._examine(request, stated, target)
        groups: dict[str, list[int]] = {}
        for place, finding in enumerate(findings):
            if finding.source is not None:
                groups.setdefault(finding.source, []).append(place)
        parts = await self._translate_groups(request, groups, target)
        if stated is None:
            detected = tuple(finding.detected for finding in findings if finding.detected is not None)
            return replace(gathered(request.texts, parts, target, target), detected=detected)
        if len(parts) == 1 and len(groups[stated]) == len(request.texts):
            return parts[0][1]
        return gathered(request.texts, parts, stated, target)

    async def generate(self, request: TranslationRequest, slot: ModelSlot) -> Translation:
        """Give every text of a request to the model that `find_generator` gave; its languages say nothing.

        Cancelling this coroutine aborts the request. Raises as `translate`.
        """
        reads_features = bool(slot.model.manifest.architecture.source_features)
        field = "features" if reads_features else "inputs"
        if request.are_features != reads_features:
            raise InvalidRequestError(f"{slot.model.manifest.name} reads {field}; send that field instead")
        check_texts(request.texts, slot.translator.limits, field, are_features=reads_features)
        ((source, target),) = slot.model.manifest.pairs
        with slot.translator as translator:
            return await translator.translate(request, source, target)

    def find_generator(self, name: str | None) -> ModelSlot:
        """Find the model of `POST /generate` by its name; None if there is only one.

        Raises:
            InvalidRequestError: there is no such model, or it translates; the message says which there are.
        """
        able = {slot.model.manifest.name: slot for slot in self.slots if not slot.model.manifest.translates}
        if name in able:
            return able[name]
        if name is None and len(able) == 1:
            return next(iter(able.values()))
        if any(slot.model.manifest.name == name for slot in self.slots):
            raise InvalidRequestError("model: this one translates; ask POST /translate")
        if not able:
            raise InvalidRequestError("every model here translates; ask POST /translate")
        asked = "is missing" if name is None else "is not served"
        raise InvalidRequestError(f"model {asked}; there are {', '.join(sorted(able))}")

    async def detect(self, text: str) -> list[Detection]:
        """Rank the served languages by how likely a text is written in them.

        Returns:
            Every served language once, likeliest first; before them `UNDETERMINED` if it is in none.

        Raises:
            TextTooLongError: the text has too many characters.
        """
        check_texts([text], self.slots[0].translator.limits)
        if await self._offload(len(text), lambda: is_of_none(text, self.directions.codes)):
            return [Detection(code, 0) for code in (UNDETERMINED, *self.directions.codes)]
        return await self._offload(len(text), lambda: rank(text, self.directions.codes))

    def phase(self, request_id: str) -> Literal["queued", "running"]:
        """Say how far a request has come: `running` while a sentence of it is out of the queue."""
        parts = [request_id, *(f"{request_id}/{number}" for number in range(len(self.directions.sources)))]
        engines = [slot.model.engine for slot in self.slots]
        return "running" if any(engine.decoding(part) for engine in engines for part in parts) else "queued"

    async def close(self, timeout_s: float) -> None:
        """Close every engine there is, after `timeout_s` whatever they do; for the end of the server."""
        await asyncio.gather(*(slot.close(timeout_s) for slot in self.slots))

    async def _examine(
        self, request: TranslationRequest, stated: str | None, target: str
    ) -> Sequence[Finding]:
        """Decide for each text whether and from which language it is translated; checks the direction."""
        if stated is not None:
            self.directions.check(stated, target)
            if stated == target:
                return [Finding(None)] * len(request.texts)
            if request.text_options.guard == "off":
                return [Finding(stated)] * len(request.texts)
            source = stated

            def look(text: str) -> Finding:
                return triage.check(text, source, target, is_html=request.is_html)

        else:
            candidates = [code for code in self.directions.sources if target in self.directions.targets(code)]
            if not candidates:
                self.directions.check(AUTO, target)

            def look(text: str) -> Finding:
                return triage.detect(text, candidates, target, is_html=request.is_html)

        return await self._offload(sum(map(len, request.texts)), lambda: list(map(look, request.texts)))

    async def _translate_groups(
        self, request: TranslationRequest, groups: Mapping[str, Sequence[int]], target: str
    ) -> list[tuple[Sequence[int], Translation]]:
        """Translate each language's texts at the same time; if one group fails, so does the request."""
        if len(groups) == 1:
            ((source, places),) = groups.items()
            return [(places, await self._translate_group(request.part(places), source, target, request))]
        tasks = [
            asyncio.ensure_future(
                self._translate_group(request.part(places, number), source, target, request)
            )
            for number, (source, places) in enumerate(groups.items())
        ]
        try:
            done = await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return list(zip(groups.values(), done, strict=True))

    async def _translate_group(
        self, part: TranslationRequest, source: str, target: str, whole: TranslationRequest
    ) -> Translation:
        """Translate texts of one language with the model, or the two, of its direction."""
        self.directions.check(source, target)  # again: a reload may have taken it away meanwhile
        first, *rest = self._routes[source, target]
        glossary = self._glossary(whole, source, target)
        with first.slot.translator as translator:
            # From here on a reload changes nothing for this request.
            if rest:
                with rest[0].slot.translator as second:
                    return await self._pivoted(part, translator, first, second, rest[0])
            return await translator.translate(part, source, target, glossary)

    def _glossary(self, request: TranslationRequest, source: str, target: str) -> Glossary | None:
        """Find the glossary that a request wants for texts of one language."""
        if request.glossary is None:
            return None
        if len(legs := self._routes[source, target]) > 1:
            raise InvalidOptionError(
                f"glossary: {source} to {target} is translated through {legs[0].target}; a glossary needs a "
                "model of the pair itself"
            )
        if isinstance(request.glossary, Glossary):
            return request.glossary
        return self.glossaries.find(request.glossary, source, target, stated=not _is_auto(request.source))

    async def _pivoted(
        self,
        request: TranslationRequest,
        opening: Translator,
        first: Leg,
        closing: Translator,
        second: Leg,
    ) -> Translation:
        """Translate with two models; what the client chose of decoding holds for the second."""
        closing.check(request.options)  # before any work is done
        if request.text_options.confidence:
            raise InvalidOptionError(
                f"confidence: {first.source} to {second.target} goes through {second.source}; nothing is "
                "known of how sure two models are together"
            )
        if request.text_options.attention:
            raise InvalidOptionError(
                f"attention: {first.source} to {second.target} goes through {second.source}; no model looks "
                "from one to the other"
            )
        middle = await opening.translate(
            replace(request, options=request.options.for_pivot()), first.source, first.target
        )
        best = tuple(
            on_the_way(source, text.hypotheses[0])
            for source, text in zip(request.texts, middle.texts, strict=True)
        )
        try:
            last = replace(request, texts=best, markup_language=first.source)
            final = await closing.translate(last, second.source, second.target)
        except TextTooLongError as error:
            raise TextTooLongError(f"translated to {second.source} on the way, {error}") from error
        return through(middle, final)

    async def _offload(self, size: int, work: Callable[[], T]) -> T:
        if size <= _INLINE_CHARS:
            return work()
        return await asyncio.to_thread(work)


def _is_auto(source: str) -> bool:
    return source.strip().lower() == AUTO
