"""Which heads and columns stay, for a model to have a given share of its parameters.

All layers of a stack stay equally wide, so that the pruned model is an ordinary one with fewer heads and
narrower feed-forward layers; which ones stay, each layer decides by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from model.config import TransformerConfig
from model.pruning.importance import SIDES, Importance, Side

COLUMNS = 16
"""Columns stay in multiples of so many: what vector units and int8 kernels take at once."""


@dataclass(frozen=True)
class Kept:
    """What stays of a model; indices ascend.

    Attributes:
        heads: by side, of each layer's self-attention.
        cross_heads: of each decoder layer's attention to the source.
        columns: by side, of each layer's feed-forward.
    """

    heads: dict[Side, list[list[int]]]
    cross_heads: list[list[int]]
    columns: dict[Side, list[list[int]]]


def choose(config: TransformerConfig, importance: Importance, parameters: int, keep: float) -> Kept:
    """Choose the shape that keeps most importance within a share of the parameters, and what fills it.

    Args:
        config: of the model.
        importance: of its heads and columns.
        parameters: that it has.
        keep: share of them that may stay, in (0, 1].

    Raises:
        ValueError: not even one head and the fewest columns are few enough; embeddings are not pruned.
    """
    allowed = keep * parameters
    attended = {
        "encoder": importance.heads["encoder"],
        "decoder": torch.cat([importance.heads["decoder"], importance.cross_heads]),
    }
    head_values = {side: _best_sums(attended[side]) for side in SIDES}
    column_values = {side: _best_sums(importance.columns[side]) for side in SIDES}
    head_cost = {side: attended[side].shape[0] * _head_parameters(config) for side in SIDES}
    column_cost = {side: importance.columns[side].shape[0] * _column_parameters(config) for side in SIDES}
    fixed = parameters - sum(
        head_cost[side] * attended[side].shape[1] + column_cost[side] * importance.columns[side].shape[1]
        for side in SIDES
    )
    best, smallest = (-1.0, 0, 0, 0, 0), float("inf")
    widest = importance.columns["decoder"].shape[1]
    for encoder_heads in _head_counts(config, "encoder"):
        for decoder_heads in _head_counts(config, "decoder"):
            with_heads = fixed + head_cost["encoder"] * encoder_heads + head_cost["decoder"] * decoder_heads
            value = head_values["encoder"][encoder_heads] + head_values["decoder"][decoder_heads]
            for encoder_columns in _widths(importance.columns["encoder"].shape[1]):
                left = allowed - with_heads - column_cost["encoder"] * encoder_columns
                fit = min(widest, int(left // column_cost["decoder"]))
                decoder_columns = widest if fit == widest else fit // COLUMNS * COLUMNS
                smallest = min(smallest, allowed - left + column_cost["decoder"] * min(COLUMNS, widest))
                if decoder_columns < min(COLUMNS, widest):
                    continue
                found = value + column_values["encoder"][encoder_columns]
                found += column_values["decoder"][decoder_columns]
                shape = (float(found), encoder_heads, decoder_heads, encoder_columns, decoder_columns)
                best = max(best, shape)
    if best[0] < 0:
        raise ValueError(
            f"--keep {keep}: embeddings are not pruned; of this model at least "
            f"{smallest / parameters:.2f} of all parameters stays"
        )
    heads, columns = {"encoder": best[1], "decoder": best[2]}, {"encoder": best[3], "decoder": best[4]}
    return Kept(
        heads={side: _most_important(importance.heads[side], heads[side]) for side in SIDES},
        cross_heads=_most_important(importance.cross_heads, heads["decoder"]),
        columns={side: _most_important(importance.columns[side], columns[side]) for side in SIDES},
    )


def pruned_config(config: TransformerConfig, kept: Kept) -> TransformerConfig:
    """Describe the model with what is kept."""
    update: dict[str, int] = {}
    for side in SIDES:
        update[f"{side}_heads"] = len(kept.heads[side][0])
        update[f"{side}_ffn_dim"] = len(kept.columns[side][0])
    if any(update[f"{side}_heads"] != getattr(config, f"{side}_heads") for side in SIDES):
        update["head_dim"] = config.encoder_head_dim
    return TransformerConfig.model_validate(config.model_dump() | update)


def _head_counts(config: TransformerConfig, side: Side) -> range:
    """Count the heads that may stay: all, where one size cannot say those of both sides."""
    heads = config.encoder_heads if side == "encoder" else config.decoder_heads
    return range(1 if config.encoder_head_dim == config.decoder_head_dim else heads, heads + 1)


def _widths(columns: int) -> list[int]:
    return [*range(COLUMNS, columns, COLUMNS), columns]


def _best_sums(importance: Tensor) -> list[float]:
    """Give for each number of units, from none, what the most important ones of all layers sum up to."""
    ordered = importance.sort(dim=1, descending=True).values.sum(dim=0).cumsum(dim=0)
    return [0.0, *ordered.tolist()]


def _most_important(importance: Tensor, count: int) -> list[list[int]]:
    return importance.topk(count, dim=1).indices.sort(dim=1).values.tolist()


def _head_parameters(config: TransformerConfig) -> int:
    """Count a head's parameters: columns of query, key, value, with biases, and rows of the output."""
    return config.encoder_head_dim * (4 * config.d_model + 3 * config.biases)


def _column_parameters(config: TransformerConfig) -> int:
    expanded = 1 + config.gated_ffn
    return expanded * (config.d_model + config.biases) + config.d_model
