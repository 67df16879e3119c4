"""What tells a Transformer where a token stands: vectors added to embeddings, or biases of attention."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from model.config import Positions, TransformerConfig


def sinusoidal_table(length: int, dim: int, layout: Positions) -> Tensor:
    """Compute the fixed position table of Vaswani et al. (2017), section 3.5.

    ``angle(p, i) = p / 10000 ** (2 i / dim)``. The paper interleaves sine and cosine
    (columns 2 i and 2 i + 1); transformers' MarianMT puts all sines in the first half. So does
    tensor2tensor, the paper's own program, which divides by ``dim / 2 - 1`` instead of ``dim / 2`` and so
    reaches 10000; fairseq (M2M100, NLLB), OpenNMT-tf and Marian itself do as it does.

    Args:
        length: number of positions P.
        dim: width E, even.
        layout: one of the ``sinusoidal_`` ones.

    Returns:
        float32 [P, E].
    """
    half, steps, dtype = dim // 2, dim // 2, torch.float64
    if layout == "sinusoidal_t2t":
        # In float32, as the programs that train with it do: far angles differ from exact ones.
        steps, dtype = max(half - 1, 1), torch.float32
    frequencies = torch.exp(torch.arange(half, dtype=dtype) * (-math.log(10000.0) / steps))
    angles = torch.arange(length, dtype=dtype)[:, None] * frequencies[None, :]
    if layout == "sinusoidal_interleaved":
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
            table = sinusoidal_table(length, config.d_model, config.positions)
            self.register_buffer("table", table, persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Map int64 positions of any shape [...] to vectors [..., E]."""
        return nn.functional.embedding(positions + self.offset, self.table)


class RelativeBias(nn.Module):
    """What self-attention adds to a score for the distance between query and key (Raffel et al., 2020).

    T5 learns a number for each of a few buckets of distances. Here every distance has its own, which T5's
    buckets are expanded to, so that looking it up takes no logarithm.

    Args:
        heads: H.
        distances: D, the farthest distance that has a number of its own.
        both_ways: whether keys come after queries, too; without, only before.
    """

    def __init__(self, heads: int, distances: int, *, both_ways: bool) -> None:
        super().__init__()
        self.nearest, self.farthest = -distances, distances if both_ways else 0
        self.table = nn.Parameter(torch.zeros(self.farthest - self.nearest + 1, heads))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Map int64 positions of queries [..., Q] and keys [K] to biases [..., H, Q, K]."""
        distances = keys - queries[..., None]
        rows = distances.clamp(self.nearest, self.farthest) - self.nearest
        return nn.functional.embedding(rows, self.table).movedim(-1, -3)


def relative_biases(config: TransformerConfig, *, encoder: bool) -> nn.ModuleList:
    """Make the biases of one side: none, one for all layers, or one for each."""
    heads = config.encoder_heads if encoder else config.decoder_heads
    layers = config.encoder_layers if encoder else config.decoder_layers
    count = 0 if not config.relative_distances else layers if config.relative_every_layer else 1
    return nn.ModuleList(
        RelativeBias(heads, config.relative_distances, both_ways=encoder) for _ in range(count)
    )


def bias_of_layers(
    biases: Iterable[nn.Module], layers: int, queries: Tensor, keys: Tensor
) -> list[Tensor | None]:
    """Compute what each of a side's layers adds to its scores, [..., H, Q, K]; None for nothing.

    Args:
        biases: from ``relative_biases``.
        layers: of this side.
        queries: int64 [..., Q], positions.
        keys: int64 [K], positions.
    """
    found: list[Tensor | None] = [bias(queries, keys) for bias in biases]
    return found if len(found) == layers else (found or [None]) * layers
