"""What a request may ask for: texts, tokens and options against the limits of server and model."""

import functools
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from server.engine.options import DecodingOptions, fit_together
from server.errors import InvalidOptionError
from server.service.request_limits import RequestLimits
from server.service.text.jobs import ModelInput
from server.service.translation.request import RequestedOptions

# Without `max_decoding_length`, a sentence may become three times as long as its source and 32 tokens more:
# far beyond any real translation (German needs 1.1 tokens an English one), but a model that runs in circles
# ends early.
_DEFAULT_LENGTH_RATIO = 3
_DEFAULT_LENGTH_EXTRA = 32
_LENGTH_STEP = 8
_REMEMBERED = 1024


def choose_each(
    requested: RequestedOptions, limits: RequestLimits, inputs: Sequence[ModelInput]
) -> DecodingOptions | list[DecodingOptions]:
    """Turn what a client states into the options of every sentence, or into those that all of them share.

    The lengths of the sentences count as the next multiple of 8, so that those about as long share their
    options, whatever else is in their requests.

    Raises:
        InvalidOptionError: an option is out of range; the message names it.
    """
    sizes = [(-(-len(one.ids) // _LENGTH_STEP) * _LENGTH_STEP, len(one.begin)) for one in inputs]
    chosen = {size: choose_options(requested, limits, *size) for size in set(sizes)}
    if not any(one.begin or one.required or one.no_repeat_ngram_size for one in inputs):
        return next(iter(chosen.values())) if len(chosen) == 1 else [chosen[size] for size in sizes]
    return [_adapted(chosen[size], one) for size, one in zip(sizes, inputs, strict=True)]


def with_token_scores(
    options: DecodingOptions | list[DecodingOptions],
) -> DecodingOptions | list[DecodingOptions]:
    """Ask for the log-probability of every token, too."""
    if isinstance(options, list):
        return [replace(one, return_token_scores=True) for one in options]
    return replace(options, return_token_scores=True)


def _adapted(options: DecodingOptions, one: ModelInput) -> DecodingOptions:
    changes: dict[str, Any] = {}
    if one.begin:  # what stands before a prompt belongs to it
        changes = {"target_prefix": (*options.target_prefix, *one.begin), "model_prefix_tokens": 0}
    if one.required and fit_together(one.required):  # others are left to the check of what comes out
        changes["required"] = one.required
    if one.no_repeat_ngram_size and not options.no_repeat_ngram_size:
        changes["no_repeat_ngram_size"] = one.no_repeat_ngram_size
    return replace(options, **changes) if changes else options


def choose_options(
    requested: RequestedOptions, limits: RequestLimits, longest_source: int, prefix_tokens: int = 0
) -> DecodingOptions:
    """Turn what a client states into options that the engine accepts.

    What was chosen is remembered, since most clients state the same: choosing takes a tenth of a short
    request's time on the event loop. What holds text or wants another draw every time is not.

    Args:
        requested: what the client stated.
        limits: what is allowed.
        longest_source: tokens of the sentence, or of the longest of several.
        prefix_tokens: tokens of what its translation begins with.

    Raises:
        InvalidOptionError: an option is out of range; the message names it.
    """
    if requested.target_prefixes or requested.samples:
        return _choose(requested, limits, longest_source, prefix_tokens)
    return _remembered(requested, limits, longest_source, prefix_tokens)


def _choose(
    requested: RequestedOptions, limits: RequestLimits, longest_source: int, prefix_tokens: int
) -> DecodingOptions:
    maximum = requested.get("max_decoding_length")
    minimum = requested.get("min_decoding_length") or 0
    if minimum > limits.max_target_tokens:
        raise InvalidOptionError(f"min_decoding_length may be at most {limits.max_target_tokens}")
    forced = prefix_tokens + len(limits.target_prefix)
    if forced > (maximum or limits.max_target_tokens):
        raise InvalidOptionError(
            f"target_prefix has {prefix_tokens} tokens: more than a translation may have"
        )
    if maximum is None:
        usual = limits.max_target_tokens
        if limits.length_by_source:
            usual = _DEFAULT_LENGTH_RATIO * longest_source + _DEFAULT_LENGTH_EXTRA + forced
        meant = limits.generation.max_decoding_length or usual
        maximum = max(minimum, min(limits.max_target_tokens, usual, meant))
    elif maximum > limits.max_target_tokens:
        raise InvalidOptionError(f"max_decoding_length may be at most {limits.max_target_tokens}")
    fewest = limits.generation.min_decoding_length
    of_the_model = {
        "min_decoding_length": None if fewest is None else min(fewest, maximum),
        "no_repeat_ngram_size": limits.generation.no_repeat_ngram_size,
        "length_penalty": limits.generation.length_penalty,
        "early_stopping": limits.generation.early_stopping,
    }
    chosen_here = {
        "beam_size": _choose_beam_size(requested, limits),
        "max_decoding_length": maximum,
        "target_prefix": limits.target_prefix,
        "model_prefix_tokens": len(limits.target_prefix),
    }
    if requested.samples and "seed" not in requested.stated:
        chosen_here["seed"] = secrets.randbits(32)
    of_the_model = {name: value for name, value in of_the_model.items() if value is not None}
    options = DecodingOptions(**{**of_the_model, **requested.stated, **chosen_here})
    if options.sampling_topk == 1 and (options.sampling_topp, options.sampling_temperature) != (1, 1):
        raise InvalidOptionError(
            "sampling_topp and sampling_temperature do nothing without a sampling_topk other than 1 (0: all)"
        )
    options.validate()
    return options


_remembered = functools.lru_cache(_REMEMBERED)(_choose)


def _choose_beam_size(requested: RequestedOptions, limits: RequestLimits) -> int:
    widths, samples, asked = limits.usable_widths, requested.samples, requested.get("beam_size")
    if samples and asked not in (None, 1):
        raise InvalidOptionError("beam_size must be 1 with a sampling_topk other than 1: beams do not draw")
    if asked is not None and not samples:
        if asked not in widths:
            raise InvalidOptionError(f"beam_size must be one of {', '.join(map(str, widths))}")
        return int(asked)
    wanted = requested.num_hypotheses if samples else max(limits.default_beam_size, requested.num_hypotheses)
    for width in widths:
        if width >= wanted:
            return width
    if requested.num_hypotheses > widths[-1]:
        raise InvalidOptionError(
            f"{requested.num_hypotheses} hypotheses (alternatives + 1) wanted; at most {widths[-1]} are "
            "possible"
        )
    return widths[-1]
