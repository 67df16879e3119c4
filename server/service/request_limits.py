"""What a request may ask for, by the settings and the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from export.bundle import Generation, Manifest
from server.errors import InvalidRequestError, TextTooLongError, TooManyTextsError
from server.settings import Settings

_MODEL_CHOOSES_NOTHING = Generation()


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of one request.

    Attributes:
        max_texts: texts in it.
        max_text_chars: characters of one text.
        max_request_tokens: source tokens of all its sentences.
        max_source_tokens: tokens of one sentence that the model reads, specials included.
        max_target_tokens: tokens of one sentence that the model writes.
        default_beam_size: used when the request does not choose.
        max_beam_size: largest allowed.
        beam_widths: widths that the bundle has a graph for, ascending.
        generation: how the model's makers meant it to be decoded, where the request does not choose.
        target_prefix: tokens that every target of this model begins with.
        length_by_source: whether a target that is much longer than its source is a fault, as a translation.
    """

    max_texts: int
    max_text_chars: int
    max_request_tokens: int
    max_source_tokens: int
    max_target_tokens: int
    default_beam_size: int
    max_beam_size: int
    beam_widths: tuple[int, ...]
    generation: Generation = _MODEL_CHOOSES_NOTHING
    target_prefix: tuple[int, ...] = ()
    length_by_source: bool = True

    @property
    def usable_widths(self) -> tuple[int, ...]:
        """Beam widths that requests may choose, ascending."""
        return tuple(width for width in self.beam_widths if width <= self.max_beam_size)


def request_limits(settings: Settings, manifest: Manifest) -> RequestLimits:
    """Combine what the operator allows with what the model can."""
    return RequestLimits(
        max_texts=settings.max_texts,
        max_text_chars=settings.max_text_chars,
        max_request_tokens=settings.max_request_tokens,
        max_source_tokens=manifest.limits.max_source_tokens,
        max_target_tokens=manifest.limits.max_target_tokens,
        default_beam_size=settings.default_beam_size or manifest.generation.beam_size or 1,
        max_beam_size=settings.max_beam_size,
        beam_widths=manifest.graphs.beam_widths,
        generation=manifest.generation,
        target_prefix=manifest.special_tokens.target_prefix_ids,
        length_by_source=manifest.translates,
    )


def check_texts(
    texts: Sequence[str], limits: RequestLimits, field: str = "q", *, are_features: bool = False
) -> None:
    """Check number and length of the texts of a request, before any work is done on them.

    Args:
        texts: of one request.
        limits: the limits to keep.
        field: the texts came in, for messages.
        are_features: in base64, whose length the model bounds.

    Raises:
        InvalidRequestError: there is none.
        TooManyTextsError: there are too many.
        TextTooLongError: one has too many characters.
    """
    if not texts:
        raise InvalidRequestError(f"{field} is an empty array; it needs at least one text")
    if len(texts) > limits.max_texts:
        raise TooManyTextsError(f"{len(texts)} texts in one request; at most {limits.max_texts} are accepted")
    for number, text in enumerate(() if are_features else texts, start=1):
        if len(text) > limits.max_text_chars:
            raise TextTooLongError(
                f"text {number} has {len(text)} characters; at most {limits.max_text_chars} are accepted"
            )


def check_tokens(lengths: Sequence[int], limits: RequestLimits) -> None:
    """Check the tokens of each sentence, specials included: tokenization may expand characters.

    Raises:
        TextTooLongError: one sentence, or all together, have too many tokens.
    """
    longest = max(lengths, default=0)
    if longest > limits.max_source_tokens:
        raise TextTooLongError(
            f"a sentence has {longest} tokens; the model reads at most {limits.max_source_tokens} a sentence"
        )
    if sum(lengths) > limits.max_request_tokens:
        raise TextTooLongError(
            f"the request has {sum(lengths)} tokens; at most {limits.max_request_tokens} are accepted"
        )
