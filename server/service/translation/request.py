"""What a translation request asks and what it gets: plain values between the API and the service."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from server.engine.options import OPTIONS
from server.engine.sequence import SequenceResult
from server.service.text.codec import TextTranslation
from server.service.text.explanation.explained import through as explained_through
from server.service.text.glossary.entries import Glossary
from server.service.text.languages import Detection
from server.service.text.options import TextOptions

_DEFAULTS = {one.name: one.default for one in OPTIONS if one.has_field and not one.is_text}
_FOR_PIVOT = frozenset(one.name for one in OPTIONS if one.for_pivot)


class RequestedOptions:
    """Decoding options as a client states them; what it leaves out is the server's to choose. Immutable.

    Attributes:
        stated: value of each option of `DecodingOptions` that the client chose.
        target_prefixes: beginnings of the translations, one for each text; none if empty.
    """

    __slots__ = ("_key", "stated", "target_prefixes")

    def __init__(self, *, target_prefixes: tuple[str, ...] = (), **stated: Any) -> None:
        """Keep what is stated, by name; None leaves an option out.

        Raises:
            TypeError: there is no such option.
        """
        if unknown := stated.keys() - _DEFAULTS.keys():
            raise TypeError(f"no decoding options: {', '.join(sorted(unknown))}")
        self.stated = {name: value for name, value in stated.items() if value is not None}
        self.target_prefixes = target_prefixes
        # With the type, for 1 == True.
        self._key = (
            frozenset((name, type(value), value) for name, value in self.stated.items()),
            target_prefixes,
        )

    def __eq__(self, other: object) -> bool:
        """Compare what is stated."""
        return isinstance(other, RequestedOptions) and self._key == other._key

    def __hash__(self) -> int:
        """Fit `__eq__`."""
        return hash(self._key)

    def __repr__(self) -> str:
        """Show the options, and of the prefixes, which are the client's text, only how many there are."""
        return f"RequestedOptions({self.stated}, {len(self.target_prefixes)} prefixes)"

    def get(self, name: str) -> Any:
        """Give what the client chose; None if it did not."""
        return self.stated.get(name)

    @property
    def num_hypotheses(self) -> int:
        """Translations wanted for each text."""
        wanted: int = self.stated.get("num_hypotheses", _DEFAULTS["num_hypotheses"])
        return wanted

    @property
    def samples(self) -> bool:
        """Whether tokens are to be drawn at random."""
        return self.stated.get("sampling_topk", 1) != 1 and self.stated.get("sampling_temperature") != 0

    @property
    def is_repeatable(self) -> bool:
        """Whether the same sentence would be translated to the same again."""
        return "seed" in self.stated or not self.samples

    def for_texts(self, places: Sequence[int]) -> Self:
        """What holds for the texts at some places, from 0."""
        if not self.target_prefixes:
            return self
        return type(self)(target_prefixes=tuple(self.target_prefixes[i] for i in places), **self.stated)

    def for_pivot(self) -> Self:
        """What holds for the text between two models: its best translation, searched as the client says."""
        return type(self)(**{name: value for name, value in self.stated.items() if name in _FOR_PIVOT})


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """One request, with languages and texts as the client wrote them.

    Attributes:
        request_id: unique among the requests in flight.
        texts: what to translate, each on its own.
        source: language code, or `auto`.
        target: language code.
        options: decoding options.
        is_html: whether the texts are HTML.
        markup_language: language that a `lang` in the markup calls the texts' own, if it is another than
            `source`: they went through a pivot; "" if it is none.
        text_options: how the texts are treated.
        deadline_s: monotonic time after which the client does not wait any more.
        glossary: the name of one that the server has, or the request's own; None for none.
        are_features: whether the texts are feature vectors in base64, see `model.features.encoded`.
        split: whether a line may hold several sentences.
        every_hypothesis: whether each text gets all translations that are asked for, also such as are alike.
    """

    request_id: str
    texts: tuple[str, ...]
    source: str
    target: str
    deadline_s: float
    options: RequestedOptions = field(default_factory=RequestedOptions)
    is_html: bool = False
    markup_language: str = ""
    text_options: TextOptions = field(default_factory=TextOptions)
    glossary: str | Glossary | None = None
    are_features: bool = False
    split: bool = True
    every_hypothesis: bool = False

    def part(self, places: Sequence[int], number: int | None = None) -> Self:
        """The same request with the texts at some places, from 0.

        `number` tells it from the other parts; None if there is no other.
        """
        if number is None and len(places) == len(self.texts):
            return self
        return replace(
            self,
            request_id=self.request_id if number is None else f"{self.request_id}/{number}",
            texts=tuple(self.texts[i] for i in places),
            options=self.options.for_texts(places),
        )


STAGES = ("tokenize", "queue", "encode", "decode", "detokenize")


@dataclass(slots=True)
class Work:
    """What a translation has cost, on its way from the decoder to the log and the metrics.

    Attributes:
        sentences: sequences that went through an engine.
        source_tokens: tokens read, specials included.
        target_tokens: tokens of the best hypotheses.
        cached: sentences that were in the cache; None if it was not asked.
        finish_reasons: how many sentences ended for which reason.
        guards: how often a check fired, by reason and outcome.
        stages_s: seconds in each of `STAGES`; of sentences side by side the longest.
    """

    sentences: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    cached: int | None = None
    finish_reasons: Counter[str] = field(default_factory=Counter)
    guards: Counter[tuple[str, str]] = field(default_factory=Counter)
    stages_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    def add(self, results: Sequence[SequenceResult], cached: int | None) -> None:
        """Count a round of decoding."""
        self.sentences += len(results)
        self.source_tokens += sum(result.source_tokens for result in results)
        self.target_tokens += sum(result.target_tokens for result in results)
        self.finish_reasons.update(result.finish_reason for result in results)
        self.stages_s["queue"] += max(result.queue_s for result in results)
        self.stages_s["encode"] += max(result.encode_s for result in results)
        self.stages_s["decode"] += max(result.decode_s for result in results)
        if cached is not None:
            self.cached = (self.cached or 0) + cached

    @classmethod
    def joined(cls, parts: Sequence[Self], of_times: Callable[[list[float]], float]) -> Self:
        """Sum up parts; `of_times` says what becomes of their times: `sum` in a row, `max` side by side."""
        counts = [part.cached for part in parts if part.cached is not None]
        return cls(
            sum(part.sentences for part in parts),
            sum(part.source_tokens for part in parts),
            sum(part.target_tokens for part in parts),
            sum(counts) if counts else None,
            sum((part.finish_reasons for part in parts), Counter()),
            sum((part.guards for part in parts), Counter()),
            {stage: of_times([0.0, *(part.stages_s[stage] for part in parts)]) for stage in STAGES},
        )


@dataclass(frozen=True, slots=True)
class Translation:
    """The answer to a request.

    Attributes:
        texts: in the order of the request's texts.
        source: language of the texts; of texts in several languages, that of most characters.
        target: language of the translations.
        work: what it has cost.
        detected: for each text the guess that `auto` was replaced by; empty if the source was stated.
        pivot: language between source and target, if two models translated.
    """

    texts: tuple[TextTranslation, ...]
    source: str
    target: str
    work: Work
    detected: tuple[Detection, ...] = ()
    pivot: str | None = None


def through(middle: Translation, final: Translation) -> Translation:
    """Join the work of two models, into the language between and out of it: the second's texts, both sums."""
    texts = tuple(
        replace(
            text,
            finish_reason=text.finish_reason if before.finish_reason == "eos" else before.finish_reason,
            warnings=tuple(dict.fromkeys((*before.warnings, *text.warnings))),
            explanation=explained_through(before.explanation, text.explanation),
        )
        for before, text in zip(middle.texts, final.texts, strict=True)
    )
    return Translation(
        texts=texts,
        source=middle.source,
        target=final.target,
        work=Work.joined((middle.work, final.work), sum),
        pivot=middle.target,
    )


def gathered(
    texts: Sequence[str], parts: Iterable[tuple[Sequence[int], Translation]], source: str, target: str
) -> Translation:
    """Join translations of parts of a request; the texts that are in none of them come back unchanged.

    Args:
        texts: of the request.
        parts: places of texts, and their translation.
        source: language of the answer if nothing was translated.
        target: language of the answer.

    Returns:
        Sums of all parts, and the longest of the times of those, which ran side by side. Its source and
        pivot are those of the part with most characters.
    """
    found = [TextTranslation((text,), (0.0,), "eos") for text in texts]
    largest, most = None, -1
    parts = list(parts)
    for places, part in parts:
        for place, text in zip(places, part.texts, strict=True):
            found[place] = text
        if (size := sum(len(texts[place]) for place in places)) > most:
            largest, most = part, size
    return Translation(
        texts=tuple(found),
        source=source if largest is None else largest.source,
        target=target,
        work=Work.joined([part.work for _, part in parts], max),
        pivot=None if largest is None else largest.pivot,
    )
