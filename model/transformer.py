"""The encoder-decoder Transformer (Vaswani et al., 2017): one definition for training, decoding and export.

Shapes: N sentences, R rows, S source length, T target length, P cache capacity, H heads, D head size,
E width, V target vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from model.attention import (
    Attend,
    CrossAttention,
    SelfAttention,
    Ssru,
    merge_heads,
    next_cells,
    padding_mask,
    with_bias,
)
from model.config import TransformerConfig
from model.encoder_decoder import EncoderDecoder
from model.layers import DecoderLayer, Dropout, EncoderLayer, make_norm
from model.positions import PositionEmbedding, RelativeBias, bias_of_layers, relative_biases


@dataclass
class DecoderCache:
    """What a batch that is decoded step by step keeps; owned by the caller, who runs the steps.

    Attributes:
        self_key: one tensor a layer, [R, H, P, D]; positions written so far are valid. None with an SSRU.
        self_value: the same for values.
        cells: one tensor a layer, [R, 1, E], of an SSRU; none with attention.
        cross_key: one tensor a layer, [R, H, S, D], computed once from the encoder's output.
        cross_value: the same for values.
        source_mask: bool [R, 1, 1, S], true on real source tokens.
    """

    self_key: list[Tensor]
    self_value: list[Tensor]
    cells: list[Tensor]
    cross_key: list[Tensor]
    cross_value: list[Tensor]
    source_mask: Tensor


class Embedding(nn.Module):
    """Token vectors plus position vectors, optionally scaled and normalised.

    Args:
        config: of the model.
        tokens: gives a vector for each id; or, of sources that are feature vectors, for each of these. Such a
            projection learns its own scale.
    """

    def __init__(self, config: TransformerConfig, tokens: nn.Embedding | nn.Linear) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = None if config.positions == "none" else PositionEmbedding(config)
        scales = config.scale_embeddings and isinstance(tokens, nn.Embedding)
        self.scale = math.sqrt(config.d_model) if scales else 1.0
        self.norm = make_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Map ids or float features [N, T, F], and positions, to vectors [N, T, E].

        Ids and positions are int64 [N, T]; positions may broadcast.
        """
        x = self.tokens(ids.to(self.tokens.weight.dtype) if ids.is_floating_point() else ids)
        if self.scale != 1:
            x = x * self.scale
        if self.positions is not None:
            x = x + self.positions(positions)
        return self.dropout(self.norm(x))


class Transformer(EncoderDecoder):
    """Encoder-decoder Transformer."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        target_tokens = nn.Embedding(config.target_vocab_size, config.d_model)
        self.source_embedding = Embedding(config, _source_tokens(config, target_tokens))
        self.target_embedding = Embedding(config, target_tokens)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.encoder_biases = relative_biases(config, encoder=True)
        self.decoder_biases = relative_biases(config, encoder=False)
        self.encoder_norm = self._final_norm()
        self.decoder_norm = self._final_norm()
        self.projection = nn.Linear(config.d_model, config.target_vocab_size, bias=config.output_bias)
        self._initialise()
        if config.tie_output:
            self.projection.weight = target_tokens.weight

    @property
    def encoder_layers(self) -> list[EncoderLayer]:
        """Encoder layers, first to last."""
        return cast(list[EncoderLayer], list(self.encoder))

    @property
    def decoder_layers(self) -> list[DecoderLayer]:
        """Decoder layers, first to last."""
        return cast(list[DecoderLayer], list(self.decoder))

    def _final_norm(self) -> nn.Module:
        return make_norm(self.config) if self.config.final_norm else nn.Identity()

    def _initialise(self) -> None:
        # Glorot for products; embeddings with std 1/sqrt(E), so that scaled by sqrt(E) they are as large as
        # position vectors, and logits of the tied projection start near unit variance.
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)
            elif isinstance(module, RelativeBias):
                nn.init.normal_(module.table, std=self.config.d_model**-0.5)
        for module in self.modules():
            if isinstance(module, SelfAttention):
                self._initialise_projections(module.qkv.weight, 3)
            elif isinstance(module, CrossAttention):
                self._initialise_projections(module.query.weight, 1)
                self._initialise_projections(module.key_value.weight, 2)
            elif isinstance(module, Ssru):
                self._initialise_projections(module.gates.weight, 2)

    @staticmethod
    def _initialise_projections(weight: Tensor, parts: int) -> None:
        # Packed projections are several square products, and Glorot must see each one's own fan-out. Of that,
        # queries, keys and values get 1/sqrt(2), as in fairseq and torch.nn.MultiheadAttention: with all of
        # it a post-norm toy model had 33 to 54 BLEU after 150 updates instead of 45 to 57
        # (four seeds), and a pre-norm one lost nothing by it in the end.
        for part in weight.detach().chunk(parts):
            nn.init.xavier_uniform_(part, gain=2**-0.5)

    def encode(self, source_ids: Tensor, source_lengths: Tensor) -> Tensor:
        """Encode padded sources.

        Args:
            source_ids: int64 [N, S], right-padded; or features, float [N, S, F].
            source_lengths: int64 [N], at least 1 each.

        Returns:
            [N, S, E]; rows beyond a sentence's length are arbitrary and never attended to.
        """
        length = source_ids.shape[1]
        mask = padding_mask(source_lengths, length)
        positions = torch.arange(length, device=source_ids.device)[None, :]
        biases = bias_of_layers(self.encoder_biases, len(self.encoder), positions, positions[0])
        x = self.source_embedding(source_ids, positions)
        for layer, bias in zip(self.encoder_layers, biases, strict=True):
            x = layer(x, layer.self_attention.over_sequence(mask, bias=bias))
        return self.encoder_norm(x)

    def decode_hidden(self, target_ids: Tensor, memory: Tensor, source_lengths: Tensor) -> Tensor:
        """Run the decoder over whole targets; returns states [N, T, E] before the output projection."""
        mask = padding_mask(source_lengths, memory.shape[1])
        positions = torch.arange(target_ids.shape[1], device=target_ids.device)[None, :]
        biases = bias_of_layers(self.decoder_biases, len(self.decoder), positions, positions[0])
        x = self.target_embedding(target_ids, positions)
        for layer, bias in zip(self.decoder_layers, biases, strict=True):
            key, value = layer.cross_attention.project_memory(memory)
            x = layer(x, layer.over_targets(bias), layer.cross_attention.over_memory(key, value, mask))
        return self.decoder_norm(x)

    def start_cache(self, memory: Tensor, source_lengths: Tensor, capacity: int) -> DecoderCache:
        """Prepare step-by-step decoding: project the memory [R, S, E] once, reserve P positions."""
        config = self.config
        rows = memory.shape[0]
        shape = (rows, config.decoder_heads, capacity, config.decoder_head_dim)
        cross = [layer.cross_attention.project_memory(memory) for layer in self.decoder_layers]
        recurrences = [layer for layer in self.decoder_layers if layer.is_recurrent]
        attentions = [layer for layer in self.decoder_layers if not layer.is_recurrent]
        return DecoderCache(
            self_key=[memory.new_zeros(shape) for layer in attentions],
            self_value=[memory.new_zeros(shape) for layer in attentions],
            cells=[memory.new_zeros(rows, 1, config.d_model) for layer in recurrences],
            cross_key=[key for key, _ in cross],
            cross_value=[value for _, value in cross],
            source_mask=padding_mask(source_lengths, memory.shape[1]),
        )

    def decode_step(self, input_ids: Tensor, positions: Tensor, cache: DecoderCache) -> Tensor:
        """Run the decoder for one target position of every row; rows may be of different age.

        Args:
            input_ids: int64 [R, 1], last token of each row.
            positions: int64 [R, 1], its 0-based position; keys and values are written there.
            cache: written in place.

        Returns:
            float [R, V], unnormalised scores of the next token.
        """
        capacity = cache.self_key[0].shape[2] if cache.self_key else 0
        kept = torch.arange(capacity, device=positions.device)
        biases = bias_of_layers(self.decoder_biases, len(self.decoder), positions, kept)
        x = self.target_embedding(input_ids, positions)
        for i, layer in enumerate(self.decoder_layers):
            if layer.is_recurrent:
                attend_self = _over_cells(cache.cells[i], positions)
            else:
                attend_self = _over_cache(
                    layer.self_attention, cache.self_key[i], cache.self_value[i], positions, biases[i]
                )
            attend_cross = _over_source(layer.cross_attention, cache, i)
            x = layer(x, attend_self, attend_cross)
        return self.projection(self.decoder_norm(x))[:, 0]


def _source_tokens(config: TransformerConfig, target_tokens: nn.Embedding) -> nn.Embedding | nn.Linear:
    """Make what reads the source: the target's embedding, one of its own, or a projection of features."""
    if config.source_features:
        return nn.Linear(config.source_features, config.d_model)
    if config.share_source_target_embeddings:
        return target_tokens
    return nn.Embedding(config.source_vocab_size, config.d_model)


def _over_cache(
    attention: SelfAttention, keys: Tensor, values: Tensor, positions: Tensor, bias: Tensor | None
) -> Attend:
    """Attend to the cache [R, H, P, D] after writing this step's key and value at ``positions`` [R, 1]."""

    def attend(packed: Tensor) -> Tensor:
        query, key, value = attention.split(packed)
        rows = torch.arange(keys.shape[0], device=keys.device)
        keys[rows, :, positions[:, 0]] = key[:, :, 0].to(keys.dtype)
        values[rows, :, positions[:, 0]] = value[:, :, 0].to(values.dtype)
        mask = with_bias(padding_mask(positions[:, 0] + 1, keys.shape[2]), bias)
        return merge_heads(nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask))

    return attend


def _over_cells(cells: Tensor, positions: Tensor) -> Attend:
    """Compute the next cells of an SSRU from those before, [R, 1, E], which they replace."""

    def recur(packed: Tensor) -> Tensor:
        before = cells.masked_fill(positions[:, :, None] == 0, 0)
        return cells.copy_(next_cells(packed, before)).clone()

    return recur


def _over_source(attention: CrossAttention, cache: DecoderCache, layer: int) -> Attend:
    return attention.over_memory(cache.cross_key[layer], cache.cross_value[layer], cache.source_mask)
