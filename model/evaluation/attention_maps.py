"""Where the decoder looks in the source, for people to see."""

from __future__ import annotations

import torch
from torch import Tensor

from model.attention import Attend, merge_heads, split_heads
from model.encoder_decoder import EncoderDecoder
from model.positions import bias_of_layers
from model.recurrent.rnn import Rnn
from model.transformer import Transformer


@torch.no_grad()
def cross_attention(model: EncoderDecoder, source_ids: Tensor, target_ids: Tensor) -> Tensor:
    """Compute the weights of attention from a known target to its source.

    Args:
        model: in eval mode.
        source_ids: int64 [1, S]; or features, float32 [1, S, F].
        target_ids: int64 [1, T], starting with the decoder's start token.

    Returns:
        float [L, H, T, S] of all layers and heads; every row sums to 1. Row t is what was looked at when the
        token after ``target_ids[t]`` was predicted. An RNN has one layer of one head.
    """
    lengths = torch.tensor([source_ids.shape[1]], device=source_ids.device)
    if isinstance(model, Rnn):
        return model.attention_weights(source_ids, lengths, target_ids)[:, None]
    assert isinstance(model, Transformer)
    memory = model.encode(source_ids, lengths)
    positions = torch.arange(target_ids.shape[1], device=target_ids.device)[None, :]
    x = model.target_embedding(target_ids, positions)
    found: list[Tensor] = []
    biases = bias_of_layers(model.decoder_biases, len(model.decoder), positions, positions[0])
    for layer, bias in zip(model.decoder_layers, biases, strict=True):
        key, value = layer.cross_attention.project_memory(memory)
        attend_cross = _watched(layer.cross_attention.heads, key, value, found)
        x = layer(x, layer.over_targets(bias), attend_cross)
    return torch.cat(found)


def _watched(heads: int, key: Tensor, value: Tensor, found: list[Tensor]) -> Attend:
    def attend(projected: Tensor) -> Tensor:
        query = split_heads(projected, heads)
        weights = torch.softmax(query @ key.transpose(-1, -2) * key.shape[-1] ** -0.5, dim=-1)
        found.append(weights)
        return merge_heads(weights @ value)

    return attend
