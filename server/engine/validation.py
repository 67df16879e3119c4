"""Refuses what the engine could never decode, before it waits."""

from collections.abc import Sequence as SequenceOf

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.errors import InvalidOptionError, InvalidRequestError, TextTooLongError
from server.runtime.model_spec import ModelSpec


def check(
    sources: SequenceOf[SequenceOf[int | bytes]],
    options: SequenceOf[DecodingOptions],
    spec: ModelSpec,
    limits: EngineLimits,
) -> None:
    """Compare the sentences of a request with what the model and its engine can do.

    Args:
        sources: token ids, or feature vectors, of every sentence.
        options: of every sentence.
        spec: sizes of the model.
        limits: what the engine takes on.

    Raises:
        InvalidOptionError: a beam width that there is no decoder for, an impossible prefix or required
            sequence, and what `DecodingOptions.validate` says.
        InvalidRequestError: a sentence without tokens.
        TextTooLongError: a sentence with too many.
    """
    widths = [width for width in spec.beam_widths if width <= limits.max_rows]
    for one in set(options):
        one.validate()
        if one.beam_size not in widths:
            raise InvalidOptionError(f"beam_size must be one of {', '.join(map(str, widths))}")
        for name, forced in (("target_prefix", (one.target_prefix,)), ("required", one.required)):
            words = (0 <= id < spec.vocabulary_size and id != spec.eos_id for ids in forced for id in ids)
            if not all(words):
                raise InvalidOptionError(f"{name} has a token that no target can have")
    for source in sources:
        if not source:
            raise InvalidRequestError("a sentence has no tokens")
        if len(source) > spec.max_source_tokens:
            raise TextTooLongError(
                f"a sentence has {len(source)} tokens; at most {spec.max_source_tokens} are accepted"
            )
