"""The graph of `align.onnx`: a known translation through the decoder at once, for its attention alone.

Shapes: N sentences, S source length, T steps, H heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.export import Dim

from export.graph.onnx_export import encoder_output_names, export_graph, frozen
from model.attention import Attend, all_cells, padding_mask, split_heads
from model.positions import bias_of_layers
from model.transformer import Transformer

Scales = Sequence[NDArray[np.float32] | None]
"""Of each output of the encoder, [H*D]: what its int8 values are multiplied by; None if it is float."""


class AttentionGraph(nn.Module):
    """Teacher forcing up to the cross-attention of one layer; nothing behind it is computed."""

    def __init__(self, model: Transformer, layer: int, heads: Sequence[int], scales: Scales) -> None:
        super().__init__()
        self.model = model
        self.layer = layer
        self.heads = list(heads)
        self.scales = [None if scale is None else torch.from_numpy(np.array(scale)) for scale in scales]

    def forward(self, target_ids: Tensor, lengths: Tensor, memory: Sequence[Tensor]) -> Tensor:
        """Compute the attention of every step.

        Args:
            target_ids: int64 [N, T], the start token and those of the translation, right-padded.
            lengths: int32 [N], source tokens of each sentence.
            memory: outputs of the encoder up to the keys of the layer, [N, H, S, D] each.

        Returns:
            float [N, T, S], the mean of the heads; a row of real steps sums to 1.
        """
        model = self.model
        positions = torch.arange(target_ids.shape[1], device=target_ids.device)[None, :]
        biases = bias_of_layers(model.decoder_biases, len(model.decoder), positions, positions[0])
        mask = padding_mask(lengths, memory[0].shape[2])
        found: list[Tensor] = []
        x = model.target_embedding(target_ids, positions)
        for i, layer in enumerate(model.decoder_layers[: self.layer + 1]):
            attend_self = layer.over_targets(biases[i])
            if layer.is_recurrent:
                attend_self = partial(all_cells, longest=model.config.max_positions)
            if i == self.layer:
                layer(x, attend_self, self._watch(self._floats(memory, 2 * i), mask, found))
                break
            key, value = self._floats(memory, 2 * i), self._floats(memory, 2 * i + 1)
            x = layer(x, attend_self, layer.cross_attention.over_memory(key, value, mask))
        return found[0]

    def _floats(self, memory: Sequence[Tensor], place: int) -> Tensor:
        scale, values = self.scales[place], memory[place]
        if scale is None:
            return values
        heads = self.model.config.decoder_heads
        return values.float() * scale.view(1, heads, 1, -1)

    def _watch(self, key: Tensor, mask: Tensor, found: list[Tensor]) -> Attend:
        def attend(projected: Tensor) -> Tensor:
            query, looked_at = split_heads(projected, self.model.config.decoder_heads), key
            if len(self.heads) < query.shape[1]:
                query, looked_at = query[:, self.heads], key[:, self.heads]
            scores = (query @ looked_at.transpose(-1, -2) * key.shape[-1] ** -0.5).masked_fill(
                ~mask, -torch.inf
            )
            found.append(torch.softmax(scores, dim=-1).mean(dim=1))
            return torch.zeros_like(projected)  # nobody looks at what becomes of it

        return attend


def export_attention(model: Transformer, layer: int, heads: Sequence[int], scales: Scales) -> onnx.ModelProto:
    """Export the attention of one layer.

    Args:
        model: the trained model; it is not changed.
        layer: decoder layer.
        heads: of it; their weights are averaged.
        scales: of all outputs of the encoder.

    Returns:
        The graph, weights included, dynamic in N, T and S: inputs `target_ids`, `lengths`, and the outputs of
        the encoder that it needs by their names; output `attention`.
    """
    config = model.config
    count = 2 * layer + 1
    shape = (2, config.decoder_heads, 5, config.decoder_head_dim)
    memory = [
        torch.zeros(shape, dtype=torch.float32 if scale is None else torch.int8) for scale in scales[:count]
    ]
    example = (torch.ones(2, 4, dtype=torch.int64), torch.tensor([5, 3], dtype=torch.int32), memory)
    n, t, s = Dim("sentences"), Dim("steps"), Dim("source")
    dynamic = {"target_ids": {0: n, 1: t}, "lengths": {0: n}, "memory": [{0: n, 2: s}] * count}
    names = encoder_output_names(config.decoder_layers)[:count]
    graph = AttentionGraph(frozen(model, torch.float32), layer, heads, scales)
    return export_graph(graph, example, dynamic, ["target_ids", "lengths", *names], ["attention"])
