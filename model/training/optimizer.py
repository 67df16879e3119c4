"""Optimisers by name, and their state as named tensors."""

from __future__ import annotations

from collections.abc import Mapping

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
