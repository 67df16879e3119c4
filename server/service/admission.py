"""What a request may ask for: texts, tokens and options against the limits of server and model."""

import functools
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from export.bundle import Generation, Manifest
from server.engine.sequence import DecodingOptions
from server.errors import InvalidOptionError, InvalidRequestError, TextTooLongError, TooManyTextsError
from server.service.request import DecodingWishes
from server.settings import Settings

# Without `max_decoding_length`, a sentence may become three times as long as its source and 32 tokens more:
# far beyond any real translation (German needs 1.1 tokens an English one), but a model that runs in circles
# ends early.
_DEFAULT_LENGTH_RATIO = 3
_DEFAULT_LENGTH_EXTRA = 32
_LENGTH_STEP = 8
_REMEMBERED = 1024
T = TypeVar("T")

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

    @property
    def usable_widths(self) -> tuple[int, ...]:
        """Beam widths that requests may choose, ascending."""
        return tuple(width for width in self.beam_widths if width <= self.max_beam_size)


def request_limits(settings: Settings, manifest: Manifest) -> RequestLimits:
    """Combine what the operator allows with what the model can.

    Args:
        settings: of the server.
        manifest: of the bundle.

    Returns:
        Limits of one request.
    """
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
    )


def check_texts(texts: Sequence[str], limits: RequestLimits) -> None:
    """Check number and length of the texts, before any work is done on them.

    Raises:
        InvalidRequestError: there is none.
        TooManyTextsError: there are too many.
        TextTooLongError: one has too many characters.
    """
    if not texts:
        raise InvalidRequestError("q is an empty array; it needs at least one text")
    if len(texts) > limits.max_texts:
        raise TooManyTextsError(f"{len(texts)} texts in one request; at most {limits.max_texts} are accepted")
    for number, text in enumerate(texts, start=1):
        if len(text) > limits.max_text_chars:
            raise TextTooLongError(
                f"text {number} has {len(text)} characters; at most {limits.max_text_chars} are accepted"
            )


def check_tokens(lengths: Sequence[int], limits: RequestLimits) -> None:
    """Check source lengths after tokenisation, which may expand characters.

    Args:
        lengths: tokens of each sentence, specials included.
        limits: the limits to keep.

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


def check_options(wishes: DecodingWishes, limits: RequestLimits) -> None:
    """Check decoding options against each other and the limits, before any work is done.

    Raises:
        InvalidOptionError: an option is out of range; the message names it.
    """
    choose_options(wishes, limits, longest_source=limits.max_source_tokens)


def choose_each(
    wishes: DecodingWishes, limits: RequestLimits, lengths: Sequence[int], prefixes: Sequence[tuple[int, ...]]
) -> DecodingOptions | list[DecodingOptions]:
    """Turn wishes into the options of every sentence, or into those that all of them share.

    Args:
        wishes: what the client stated.
        limits: what is allowed.
        lengths: source tokens of each sentence. They count as the next multiple of 8, so that sentences about
            as long share their options, whatever else is in their requests.
        prefixes: target ids that each sentence's translation begins with.

    Returns:
        Options that the engine accepts.

    Raises:
        InvalidOptionError: an option is out of range; the message names it.
    """
    sizes = [
        (-(-length // _LENGTH_STEP) * _LENGTH_STEP, len(prefix))
        for length, prefix in zip(lengths, prefixes, strict=True)
    ]
    chosen = {size: choose_options(wishes, limits, *size) for size in set(sizes)}
    if not any(prefixes):
        return next(iter(chosen.values())) if len(chosen) == 1 else [chosen[size] for size in sizes]
    # What stands before a prompt belongs to it.
    return [
        replace(chosen[size], target_prefix=(*chosen[size].target_prefix, *prefix), model_prefix_tokens=0)
        if prefix
        else chosen[size]
        for size, prefix in zip(sizes, prefixes, strict=True)
    ]


def is_repeatable(wishes: DecodingWishes) -> bool:
    """Tell whether the same sentence would be translated to the same again."""
    return wishes.seed is not None or not _samples(wishes)


def choose_options(
    wishes: DecodingWishes, limits: RequestLimits, longest_source: int, prefix_tokens: int = 0
) -> DecodingOptions:
    """Turn wishes into the options of the engine.

    What was chosen is remembered, since most clients state the same: choosing takes a tenth of a short
    request's time on the event loop. Wishes that hold text or want another draw every time are not.

    Args:
        wishes: what the client stated.
        limits: what is allowed.
        longest_source: tokens of the sentence, or of the longest of several.
        prefix_tokens: tokens of what its translation begins with.

    Returns:
        Options that the engine accepts.

    Raises:
        InvalidOptionError: an option is out of range; the message names it.
    """
    if wishes.target_prefixes or _samples(wishes):
        return _choose(wishes, limits, longest_source, prefix_tokens)
    return _remembered(wishes, limits, longest_source, prefix_tokens)


def _choose(
    wishes: DecodingWishes, limits: RequestLimits, longest_source: int, prefix_tokens: int
) -> DecodingOptions:
    maximum = wishes.max_decoding_length
    minimum = wishes.min_decoding_length or 0
    if minimum > limits.max_target_tokens:
        raise InvalidOptionError(f"min_decoding_length may be at most {limits.max_target_tokens}")
    forced = prefix_tokens + len(limits.target_prefix)
    if forced > (maximum or limits.max_target_tokens):
        raise InvalidOptionError(
            f"target_prefix has {prefix_tokens} tokens: more than a translation may have"
        )
    if maximum is None:
        usual = _DEFAULT_LENGTH_RATIO * longest_source + _DEFAULT_LENGTH_EXTRA + forced
        meant = limits.generation.max_decoding_length or usual
        maximum = max(minimum, min(limits.max_target_tokens, usual, meant))
    elif maximum > limits.max_target_tokens:
        raise InvalidOptionError(f"max_decoding_length may be at most {limits.max_target_tokens}")
    options = DecodingOptions(
        beam_size=_choose_beam_size(wishes, limits),
        length_penalty=_or(wishes.length_penalty, _or(limits.generation.length_penalty, 1.0)),
        num_hypotheses=wishes.num_hypotheses,
        max_decoding_length=maximum,
        min_decoding_length=minimum,
        return_scores=wishes.return_scores,
        patience=_or(wishes.patience, 1.0),
        early_stopping=_or(wishes.early_stopping, limits.generation.early_stopping),
        repetition_penalty=_or(wishes.repetition_penalty, 1.0),
        no_repeat_ngram_size=_or(wishes.no_repeat_ngram_size, 0),
        target_prefix=limits.target_prefix,
        model_prefix_tokens=len(limits.target_prefix),
        sampling_topk=_or(wishes.sampling_topk, 1),
        sampling_topp=_or(wishes.sampling_topp, 1.0),
        sampling_temperature=_or(wishes.sampling_temperature, 1.0),
        seed=_seed(wishes),
    )
    if options.sampling_topk == 1 and (options.sampling_topp, options.sampling_temperature) != (1, 1):
        raise InvalidOptionError(
            "sampling_topp and sampling_temperature do nothing without a sampling_topk other than 1 (0: all)"
        )
    options.validate()
    return options


_remembered = functools.lru_cache(_REMEMBERED)(_choose)


def _or(choice: T | None, default: T) -> T:
    return default if choice is None else choice


def _samples(wishes: DecodingWishes) -> bool:
    return wishes.sampling_topk not in (None, 1) and wishes.sampling_temperature != 0


def _seed(wishes: DecodingWishes) -> int:
    if wishes.seed is None:
        return secrets.randbits(32) if _samples(wishes) else 0
    return wishes.seed


def _choose_beam_size(wishes: DecodingWishes, limits: RequestLimits) -> int:
    widths, samples = limits.usable_widths, _samples(wishes)
    if samples and wishes.beam_size not in (None, 1):
        raise InvalidOptionError("beam_size must be 1 with a sampling_topk other than 1: beams do not draw")
    if wishes.beam_size is not None and not samples:
        if wishes.beam_size not in widths:
            raise InvalidOptionError(f"beam_size must be one of {', '.join(map(str, widths))}")
        return wishes.beam_size
    wanted = wishes.num_hypotheses if samples else max(limits.default_beam_size, wishes.num_hypotheses)
    for width in widths:
        if width >= wanted:
            return width
    if wishes.num_hypotheses > widths[-1]:
        raise InvalidOptionError(
            f"{wishes.num_hypotheses} hypotheses (alternatives + 1) wanted; at most {widths[-1]} are possible"
        )
    return widths[-1]
