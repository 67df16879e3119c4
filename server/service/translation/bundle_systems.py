"""The systems that a bundle is: with the text layer, in the model's own words, and the model alone."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from export.bundle import load_manifest
from model.tokenizer import Tokenizer
from server.engine.observer import NullObserver
from server.service.models.loading import load_model, read_measured
from server.service.request_limits import request_limits
from server.service.text.jobs import ModelInput
from server.service.text.protection.alignment import WordAligner
from server.service.translation.decoding_options import choose_each
from server.service.translation.file_translation import named_direction, translate_lines
from server.service.translation.request import RequestedOptions
from server.settings import Settings

_SENTENCES_AT_A_TIME = 256
_Translate = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True, slots=True)
class BundleSystems:
    """What translates lines with a bundle. Each loads it anew. Used from one thread.

    Attributes:
        own_words: the text layer with its guard off.
        served: as the server answers.
        alone: the model without the text layer.
        pair: source and target language.
        links: its word alignment: from words of a sentence and of a translation to pairs of indices.
    """

    own_words: _Translate
    served: _Translate
    alone: _Translate
    pair: tuple[str, str]
    links: Callable[[Sequence[str], Sequence[str]], list[tuple[int, int]]]


def bundle_systems(
    bundle: Path, beam_size: int, length_penalty: float, direction: str | None
) -> BundleSystems:
    """Prepare the systems of a bundle; options and errors are those of `translate_lines`."""
    manifest = load_manifest(bundle)
    tokenizer = Tokenizer.load(*manifest.tokenizer.paths(bundle))
    aligner = WordAligner(read_measured(bundle, manifest, tokenizer).lexicon, tokenizer)
    how: dict[str, Any] = {
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "direction": direction,
    }
    lines = functools.partial(translate_lines, bundle, split=False, **how)
    return BundleSystems(
        lines,
        functools.partial(lines, guard="mend"),
        functools.partial(translate_alone, bundle, **how),
        named_direction(manifest, direction),
        aligner.links,
    )


def translate_alone(
    bundle: Path,
    sentences: Sequence[str],
    *,
    beam_size: int = 1,
    length_penalty: float = 1.0,
    direction: str | None = None,
) -> list[str]:
    """Translate sentences as they are, one input of the model each, with a bundle loaded for them alone.

    What is longer than the model reads is cut. Options and errors are those of `translate_lines`.
    """
    settings = Settings(bundle=(bundle,))
    model = load_model(settings, NullObserver())
    try:
        limits = request_limits(settings, model.manifest)
        requested = RequestedOptions(beam_size=beam_size, length_penalty=length_penalty)
        source, target = named_direction(model.manifest, direction)
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
