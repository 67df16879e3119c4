"""Keeps parts of a model as they are while the rest is trained."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn


def freeze(model: nn.Module, parts: Sequence[str]) -> None:
    """Exclude parts of a model from training; a weight that two parts share is excluded in both.

    Args:
        model: its parameters get no gradient any more where they belong to one of ``parts``.
        parts: names of modules, ``encoder`` or ``decoder.0.self_attention`` for instance.

    Raises:
        ValueError: there is no such part, or nothing is left to train.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for part in parts:
        own = [value for name, value in parameters.items() if f"{name}.".startswith(f"{part}.")]
        if not own:
            known = dict.fromkeys(name.split(".")[0] for name in parameters)
            raise ValueError(
                f"the model has no part {part}; its parts are {', '.join(known)}, and what is in them"
            )
        for parameter in own:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in parameters.values()):
        raise ValueError("nothing is left to train")
