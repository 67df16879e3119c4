"""Dropout whose mask costs one random byte an element."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Dropout (Srivastava et al., 2014) with the probability rounded to 1/256.

    ``torch.nn.Dropout`` draws a Bernoulli variable an element; on a CPU that was 13 % of a training step
    (d 256, 4,096 tokens). Eight elements share one 64-bit draw here. On other devices torch's own is used.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self._threshold = round(probability * 256)

    def forward(self, x: Tensor) -> Tensor:
        """Zero a share of x and scale the rest, while training; x itself otherwise."""
        if not self.training or self._threshold == 0:
            return x
        if x.device.type != "cpu":
            return nn.functional.dropout(x, self.probability)
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        draws = words.view(torch.uint8)[: x.numel()].view(x.shape)
        kept = (draws >= self._threshold).to(x.dtype)
        return x * kept.mul_(256 / (256 - self._threshold))
