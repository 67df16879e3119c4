"""Position embeddings: sinusoidal in the two layouts found in the field, or learned."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from model.config import TransformerConfig


def sinusoidal_table(length: int, dim: int, *, interleaved: bool) -> Tensor:
    """Compute the fixed position table of Vaswani et al. (2017), section 3.5.

    ``angle(p, i) = p / 10000 ** (2 i / dim)``. The paper interleaves sine and cosine
    (columns 2 i and 2 i + 1); Marian and M2M100 put all sines in the first half.

    Args:
        length: number of positions P.
        dim: width E, even.
        interleaved: the paper's layout if true, the halves layout otherwise.

    Returns:
        float32 [P, E].
    """
    frequencies = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * (-math.log(10000.0) / dim))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies[None, :]
    if interleaved:
        table = torch.stack((angles.sin(), angles.cos()), dim=-1).reshape(length, dim)
    else:
        table = torch.cat((angles.sin(), angles.cos()), dim=-1)
    return table.to(torch.float32)


class PositionEmbedding(nn.Module):
    """Looks up position vectors; the table is a buffer when fixed and a parameter when learned."""

    table: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.offset = config.position_offset
        length = config.max_positions + config.position_offset
        if config.positions == "learned":
            self.table = nn.Parameter(torch.empty(length, config.d_model))
            nn.init.normal_(self.table, std=config.d_model**-0.5)
        else:
            interleaved = config.positions == "sinusoidal_interleaved"
            table = sinusoidal_table(length, config.d_model, interleaved=interleaved)
            self.register_buffer("table", table, persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Map int64 positions of any shape [...] to vectors [..., E]."""
        return nn.functional.embedding(positions + self.offset, self.table)
