"""How much the loss would change without a head or a column.

The first-order estimate of Michel et al. (2019, "Are Sixteen Heads Really Better than One?", equation 2): a
gate on every head's output has the importance |dL/d(gate)|, which is |output . dL/d(output)|, as a mean over
sentences. A column of the feed-forward layer, the hidden unit between its two products, gets the same gate,
so that heads and columns are measured in one unit: nats a sentence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from model.data.batching import Batch
from model.transformer import Transformer

Side = Literal["encoder", "decoder"]
SIDES: tuple[Side, Side] = ("encoder", "decoder")


@dataclass(frozen=True)
class Gated:
    """A product whose input is cut into units, each of which a gate could close.

    Attributes:
        product: its input is [N, T, units * width].
        units: heads of an attention, or columns of a feed-forward layer.
    """

    product: nn.Linear
    units: int


@dataclass(frozen=True)
class Importance:
    """Importance of every unit of a model, in nats a sentence.

    Attributes:
        heads: by side, float64 [layers, H]; a decoder's head is that of both its attentions, which are pruned
            to as many heads each.
        cross_heads: of the decoder's attention to the source, float64 [layers, H]; ``heads`` has the other.
        columns: by side, float64 [layers, F].
    """

    heads: dict[Side, Tensor]
    cross_heads: Tensor
    columns: dict[Side, Tensor]


def gated_attention(model: Transformer, side: Side) -> list[Gated]:
    """Give the output product of each self-attention of a side."""
    layers = model.encoder_layers if side == "encoder" else model.decoder_layers
    return [Gated(layer.self_attention.output, layer.self_attention.heads) for layer in layers]


def gated_cross_attention(model: Transformer) -> list[Gated]:
    """Give the output product of each attention to the source."""
    return [
        Gated(layer.cross_attention.output, layer.cross_attention.heads) for layer in model.decoder_layers
    ]


def gated_feed_forward(model: Transformer, side: Side) -> list[Gated]:
    """Give the second product of each feed-forward layer of a side."""
    layers = model.encoder_layers if side == "encoder" else model.decoder_layers
    products = [layer.feed_forward.contract for layer in layers]
    return [Gated(product, product.in_features) for product in products]


def measure_importance(model: Transformer, batches: Iterable[Batch], pad_id: int) -> Importance:
    """Measure every head and column.

    Args:
        model: in eval mode; its weights get no gradient.
        batches: of text like what the model is for; a few hundred sentences rank units well.
        pad_id: padding of the targets.

    Raises:
        ValueError: there is no sentence.
    """
    parts = {
        **{f"{side} heads": gated_attention(model, side) for side in SIDES},
        **{f"{side} columns": gated_feed_forward(model, side) for side in SIDES},
        "cross heads": gated_cross_attention(model),
    }
    sums = {name: torch.zeros(len(part), part[0].units, dtype=torch.float64) for name, part in parts.items()}
    sentences = 0
    everything = [(name, row, gated) for name, part in parts.items() for row, gated in enumerate(part)]
    for batch in batches:
        with _watched([gated.product for _, _, gated in everything]) as inputs, torch.enable_grad():
            logits = model(batch.source_ids, batch.source_lengths, batch.target_in)
            loss = cross_entropy(
                logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=pad_id, reduction="sum"
            )
            read = [inputs[gated.product] for _, _, gated in everything]
            gradients = torch.autograd.grad(loss, read)
        for (name, row, gated), x, gradient in zip(everything, read, gradients, strict=True):
            by_unit = (x.detach() * gradient).unflatten(-1, (gated.units, -1)).sum(dim=(1, 3))
            sums[name][row] += by_unit.abs().sum(dim=0).double()
        sentences += batch.source_ids.shape[0]
    if not sentences:
        raise ValueError("importance is measured on text: there is none")
    means = {name: total / sentences for name, total in sums.items()}
    return Importance(
        heads={side: means[f"{side} heads"] for side in SIDES},
        cross_heads=means["cross heads"],
        columns={side: means[f"{side} columns"] for side in SIDES},
    )


@contextlib.contextmanager
def _watched(products: Iterable[nn.Linear]) -> Iterator[dict[nn.Module, Tensor]]:
    """Keep the inputs of some products in a form that has a gradient, while the context is open."""
    inputs: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, given: tuple[Tensor]) -> tuple[Tensor]:
        (x,) = given
        if not x.requires_grad:
            x = x.detach().requires_grad_()
        inputs[module] = x
        return (x,)

    hooks = [product.register_forward_pre_hook(keep) for product in products]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()
