"""Sentences through a model without the text layer, to measure what that is worth."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from server.engine.observer import NullObserver
from server.service.models.loading import load_model
from server.service.request_limits import request_limits
from server.service.text.jobs import ModelInput
from server.service.translation.decoding_options import choose_each
from server.service.translation.file_translation import choose_direction, named_direction
from server.service.translation.request import RequestedOptions
from server.settings import Settings

_SENTENCES_AT_A_TIME = 256


def translate_alone(
    bundle: Path,
    sentences: Sequence[str],
    *,
    beam_size: int = 1,
    length_penalty: float = 1.0,
    direction: str | None = None,
) -> list[str]:
    """Translate sentences as they are with a bundle that is loaded for them alone.

    Args:
        bundle: directory of the bundle.
        sentences: each one input of the model; what is longer than it reads is cut.
        beam_size: hypotheses kept at each step.
        length_penalty: exponent of the length in a score.
        direction: ``en-fr``, of a bundle that has several; its first unless given.

    Returns:
        One translation for each sentence.

    Raises:
        BundleError: the bundle is refused.
        UnsupportedLanguageError: the bundle has no such direction.
    """
    settings = Settings(bundle=(bundle,))
    model = load_model(settings, NullObserver())
    try:
        limits = request_limits(settings, model.manifest)
        requested = RequestedOptions(beam_size=beam_size, length_penalty=length_penalty)
        source, target = choose_direction(model.manifest, *named_direction(model.manifest, direction))
        framing = model.manifest.framing(source, target)
        longest = limits.max_source_tokens - len(framing.source_prefix) - len(framing.source_suffix)
        inputs = [
            ModelInput((*framing.source_prefix, *ids[:longest], *framing.source_suffix))
            for ids in model.tokenizer.encode_batch(list(sentences))
        ]
        limits = replace(limits, target_prefix=framing.target_prefix)
        found: list[str] = []
        for start in range(0, len(inputs), _SENTENCES_AT_A_TIME):
            part = inputs[start : start + _SENTENCES_AT_A_TIME]
            options = choose_each(requested, limits, part)
            futures = model.engine.submit(f"alone-{start}", [one.ids for one in part], options)
            found += [model.tokenizer.decode(future.result().hypotheses[0].tokens) for future in futures]
        return found
    finally:
        model.engine.close(0.0)
