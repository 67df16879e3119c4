"""What a translation request asks and what it gets: plain values between the API and the service."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from server.engine.options import EarlyStopping
from server.service.text.codec import TextTranslation
from server.service.text.languages import Detection


@dataclass(frozen=True, slots=True)
class DecodingWishes:
    """Decoding options as a client states them; None leaves the choice to the server.

    Attributes:
        beam_size: hypotheses kept at each step.
        length_penalty: exponent of the length in a hypothesis' score.
        num_hypotheses: translations wanted for each text, at least 1.
        max_decoding_length: target tokens after which a sentence ends.
        min_decoding_length: target tokens before which a sentence does not end.
        return_scores: whether scores are wanted.
        patience: factor of the number of hypotheses after which CTranslate2's rule ends beam search.
        early_stopping: a value asks for transformers' rules of beam search.
        repetition_penalty: factor against tokens that were written before.
        no_repeat_ngram_size: length of token sequences that may occur only once.
        sampling_topk: tokens to draw from; 1 draws nothing, 0 draws from all.
        sampling_topp: probability that the tokens to draw from reach together.
        sampling_temperature: divisor of scores before drawing.
        seed: makes draws repeatable; None draws differently every time.
        target_prefixes: beginnings of the translations, one for each text; none if empty.
    """

    beam_size: int | None = None
    length_penalty: float | None = None
    num_hypotheses: int = 1
    max_decoding_length: int | None = None
    min_decoding_length: int | None = None
    return_scores: bool = False
    patience: float | None = None
    early_stopping: EarlyStopping | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    sampling_topk: int | None = None
    sampling_topp: float | None = None
    sampling_temperature: float | None = None
    seed: int | None = None
    target_prefixes: tuple[str, ...] = ()

    def for_pivot(self) -> Self:
        """Wishes for the text between two models: its best translation, searched as the client says."""
        return replace(
            self,
            num_hypotheses=1,
            max_decoding_length=None,
            min_decoding_length=None,
            return_scores=False,
            sampling_topk=None,
            sampling_topp=None,
            sampling_temperature=None,
            seed=None,
            target_prefixes=(),
        )


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """One request, with languages and texts as the client wrote them.

    Attributes:
        request_id: unique among the requests in flight.
        texts: what to translate, each on its own.
        source: language code, or `auto`.
        target: language code.
        wishes: decoding options.
        is_html: whether the texts are HTML.
        deadline_s: monotonic time after which the client does not wait any more.
    """

    request_id: str
    texts: tuple[str, ...]
    source: str
    target: str
    deadline_s: float
    wishes: DecodingWishes = field(default_factory=DecodingWishes)
    is_html: bool = False


@dataclass(frozen=True, slots=True)
class Translation:
    """The answer to a request.

    Attributes:
        texts: in the order of the request's texts.
        source: language of the texts.
        target: language of the translations.
        sentences: sequences that went through an engine.
        source_tokens: tokens read, specials included.
        target_tokens: tokens of the best hypotheses.
        finish_reasons: how many sentences ended for which reason.
        stages_s: seconds in `tokenize`, `queue`, `encode`, `decode` and `detokenize`; the longest of the
            sentences'.
        detected: the guess that `auto` was replaced by, or None.
        pivot: language between source and target, if two models translated.
        cached: sentences that were in the cache; None if it was not asked.
    """

    texts: tuple[TextTranslation, ...]
    source: str
    target: str
    sentences: int
    source_tokens: int
    target_tokens: int
    finish_reasons: Mapping[str, int]
    stages_s: Mapping[str, float]
    detected: Detection | None = None
    pivot: str | None = None
    cached: int | None = None


def through(middle: Translation, final: Translation) -> Translation:
    """Join the work of two models: the texts of the second, the sums of both.

    Args:
        middle: into the language between.
        final: out of it.

    Returns:
        A translation from the source of the first to the target of the second.
    """
    texts = tuple(
        text if before.finish_reason == "eos" else replace(text, finish_reason=before.finish_reason)
        for before, text in zip(middle.texts, final.texts, strict=True)
    )
    return Translation(
        texts=texts,
        source=middle.source,
        target=final.target,
        sentences=middle.sentences + final.sentences,
        source_tokens=middle.source_tokens + final.source_tokens,
        target_tokens=middle.target_tokens + final.target_tokens,
        finish_reasons=Counter(middle.finish_reasons) + Counter(final.finish_reasons),
        stages_s={stage: stage_s + final.stages_s[stage] for stage, stage_s in middle.stages_s.items()},
        pivot=middle.target,
        cached=None if middle.cached is final.cached is None else (middle.cached or 0) + (final.cached or 0),
    )
