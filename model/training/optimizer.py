"""Optimisers by name, their state as named tensors, and which weights they leave as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from model.recipe import Training


def build_optimizer(model: nn.Module, training: Training) -> torch.optim.Optimizer:
    """Create the optimiser of a recipe; biases and norms are not decayed."""
    decayed = [p for p in model.parameters() if p.requires_grad and p.dim() >= 2]
    plain = [p for p in model.parameters() if p.requires_grad and p.dim() < 2]
    groups = [
        {"params": decayed, "weight_decay": training.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    rate = training.learning_rate
    if training.optimizer == "adam":
        return torch.optim.Adam(groups, lr=rate, betas=training.betas, eps=training.eps, fused=True)
    if training.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=rate, betas=training.betas, eps=training.eps, fused=True)
    if training.optimizer == "adagrad":
        return torch.optim.Adagrad(groups, lr=rate)
    return torch.optim.SGD(groups, lr=rate, momentum=training.momentum)


def _ordered(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's state as ``<parameter number>.<name>`` tensors."""
    tensors = {}
    for number, parameter in enumerate(_ordered(optimizer)):
        for name, value in optimizer.state.get(parameter, {}).items():
            if value is not None:
                tensors[f"{number}.{name}"] = torch.as_tensor(value)
    return tensors


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what ``optimizer_tensors`` returned."""
    parameters = _ordered(optimizer)
    for key, value in tensors.items():
        number, name = key.split(".", 1)
        parameter = parameters[int(number)]
        # Step counters stay on the CPU unless the optimiser is fused, which keeps them beside the parameter.
        fused = bool(optimizer.defaults.get("fused"))
        device = parameter.device if name != "step" or fused else torch.device("cpu")
        optimizer.state[parameter][name] = value.to(device)


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
