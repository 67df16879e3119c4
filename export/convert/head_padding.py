"""Heads that ONNX Runtime does not decode with, made wider by zeros: the model computes what it did."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from model.config import TransformerConfig

_MULTIPLE = 8


def pad_heads(
    config: TransformerConfig, tensors: Mapping[str, Tensor]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Give every head a size that is a multiple of 8.

    Scores are divided by the square root of the head size, so queries are multiplied by what that has grown.

    Args:
        config: any.
        tensors: its weights.

    Returns:
        Both unchanged if the heads will do; else what computes the same but for rounding.
    """
    if not config.unservable:
        return config, dict(tensors)
    size = -(-max(config.encoder_head_dim, config.decoder_head_dim) // _MULTIPLE) * _MULTIPLE
    padded = dict(tensors)
    for name, tensor in tensors.items():
        side, module, kind = name.partition(".")[0], *name.split(".")[-2:]
        heads, old = (
            (config.encoder_heads, config.encoder_head_dim)
            if side == "encoder"
            else (config.decoder_heads, config.decoder_head_dim)
        )
        parts = {"qkv": 3, "query": 1, "key_value": 2}.get(module)
        if parts is not None:
            rest = tensor.shape[1:]
            wide = tensor.new_zeros(parts, heads, size, *rest)
            wide[:, :, :old] = tensor.view(parts, heads, old, *rest)
            if module != "key_value":
                wide[0] *= (size / old) ** 0.5
            padded[name] = wide.reshape(parts * heads * size, *rest)
        elif module == "output" and kind == "weight":
            wide = tensor.new_zeros(tensor.shape[0], heads, size)
            wide[:, :, :old] = tensor.view(-1, heads, old)
            padded[name] = wide.reshape(-1, heads * size)
    return config.model_copy(update={"head_dim": size}), {k: torch.clone(v) for k, v in padded.items()}
