"""The architecture that a recipe asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from model.config import AnyConfig, RnnConfig, TransformerConfig, architecture_of
from model.recipe import Recipe, RecipeError
from model.tokenizer import Tokenizer

_KINDS: dict[str, type[TransformerConfig | RnnConfig]] = {"transformer": TransformerConfig, "rnn": RnnConfig}


def build_config(
    recipe: Recipe,
    tokenizer: Tokenizer,
    origin: Path,
    *,
    joint: bool,
    inherited: Mapping[str, Any],
    features: int = 0,
) -> AnyConfig:
    """Complete the recipe's [model] section with what it inherits, with the vocabulary and size of features.

    Raises:
        RecipeError: a setting is unknown or out of range, or the model could not be served.
    """
    values: dict[str, Any] = {**inherited, **(recipe.model.model_extra or {})}
    values.setdefault("share_source_target_embeddings", joint and not features)
    values["source_vocab_size"] = tokenizer.source_vocab_size
    values["target_vocab_size"] = tokenizer.target_vocab_size
    if features:
        values["source_features"] = features
    kind = architecture_of(values)
    if kind not in _KINDS:
        raise RecipeError(f"{origin}: [model]: architecture {kind} is unknown; there are {', '.join(_KINDS)}")
    if kind == "transformer":
        values.pop("architecture", None)
    try:
        config = _KINDS[kind](**values)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f" {part}:" for part in first["loc"])
        raise RecipeError(f"{origin}: [model]:{where} {first['msg']}") from None
    if isinstance(config, TransformerConfig) and config.unservable:
        raise RecipeError(f"{origin}: [model]: {config.unservable}")
    return config
