"""The modules that become ONNX graphs: the Transformer's own layers with attention as ONNX Runtime operators.

Shapes: N sentences, T tokens in them, K beams, R = N*K rows (row n*K + k is beam k of sentence n), S source
capacity, P cache capacity, H heads, D head size, E width, V target vocabulary. Only attention differs from
training: the layers take it as a callable, so one definition of the weights serves both.

The operators cannot run in PyTorch; these modules are for ``torch.onnx.export`` alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from model.attention import Attend, next_cells
from model.layers import DecoderLayer
from model.positions import bias_of_layers
from model.transformer import Transformer

_DOMAIN = "com.microsoft"

RMS_NORM = "SimplifiedLayerNormalization"
"""Operator of ONNX Runtime, in ONNX's own domain; ONNX's RMSNormalization needs opset 23."""


class EncoderGraph(nn.Module):
    """Source ids, or features, to the keys and values that every decoder layer will look at.

    Sentences of different lengths are computed without their padding, one after another as [T, E]; only
    attention sees them side by side. In fp16, which is for CUDA, they stay padded: taking padding out makes
    the device tell the host how many tokens there are.
    """

    def __init__(self, model: Transformer, *, unpads: bool) -> None:
        super().__init__()
        self.model = model
        self.unpads = unpads

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """Encode and project once a sentence.

        Args:
            source: ids, int64 [N, S], right-padded; or features, float32 [N, S, F].
            lengths: int32 [N], at least 1 each.

        Returns:
            Key and value of each decoder layer in turn, [N, H, S, D].
        """
        model = self.model
        positions = torch.arange(source.shape[1], device=source.device)[None, :]
        x = model.source_embedding(source, positions)
        biases = bias_of_layers(model.encoder_biases, len(model.encoder), positions, positions[0])
        layout = _Unpadding(positions < lengths[:, None]) if self.unpads else None
        x = x if layout is None else layout.unpad(x)
        for layer, bias in zip(model.encoder, biases, strict=True):
            attend = _attend_to_source(lengths, model.config.encoder_heads, bias)
            x = layer(x, attend if layout is None else layout.around(attend))
        memory = model.encoder_norm(x)
        projected: list[Tensor] = []
        for layer in model.decoder:
            assert isinstance(layer, DecoderLayer)
            pad = None if layout is None else layout.pad
            projected.extend(layer.cross_attention.project_memory(memory, pad))
        return tuple(projected)


class _Unpadding:
    """Where the real tokens of a padded batch stand, to take its padding out and to put it back.

    Each way is one node, which counts: the 120 of an encoder with 6 layers of 256 take 0.5 ms for one short
    sentence.

    Args:
        real: bool [N, S], true for tokens, false for padding; the first of every row is true.
    """

    def __init__(self, real: Tensor) -> None:
        self.places = real.nonzero()
        # Padding repeats the token before it: never looked at, but a number as any other.
        self.tokens = (real.flatten().to(torch.int64).cumsum(0) - 1).view(real.shape)

    def unpad(self, x: Tensor) -> Tensor:
        """Turn padded [N, S, E] into real tokens alone, [T, E]."""
        shape = (self.places.shape[0], x.shape[2])
        return torch.onnx.ops.symbolic("GatherND", [x, self.places], dtype=x.dtype, shape=shape)

    def pad(self, x: Tensor) -> Tensor:
        """Turn [T, E] into padded [N, S, E]."""
        shape = (*self.tokens.shape, x.shape[1])
        return torch.onnx.ops.symbolic("Gather", [x, self.tokens], {"axis": 0}, dtype=x.dtype, shape=shape)

    def around(self, attend: Attend) -> Attend:
        """Let attention over padded sentences be asked for unpadded ones."""
        return lambda x: self.unpad(attend(self.pad(x)))


class DecoderGraph(nn.Module):
    """One target position of every row, caches updated in place."""

    def __init__(self, model: Transformer, beam_width: int) -> None:
        super().__init__()
        self.model = model
        self.beam_width = beam_width

    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        self_lengths: Tensor,
        self_total: Tensor,
        cross_lengths: Tensor,
        cross_total: Tensor,
        caches: Sequence[tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """Run the decoder for one position.

        Args:
            input_ids: int64 [R, 1], last token of each row.
            positions: int64 [R, 1], its 0-based position.
            self_lengths: int32 [R], tokens already in each row's cache.
            self_total: int32 [], the longest of them plus 1.
            cross_lengths: int32 [N], source length minus 1.
            cross_total: int32 [], longest source length.
            caches: for each layer self key and value [R, H, P, D], or an SSRU's state [R, 1, 1, E] in their
                place; cross key and value [N, H, S, D], and in fp16 key and value of the last source token
                [N, 1, H*D].

        Returns:
            Logits float32 [R, V], then for each layer self key and value or state, cross key and value, as
            updated.
        """
        model = self.model
        x = model.target_embedding(input_ids, positions)
        updated: list[Tensor] = []
        heads = model.config.decoder_heads
        own = 1 if model.config.decoder_mixer == "ssru" else 2
        nothing = caches[0][own].new_zeros(cross_lengths.shape[0], 0, heads * model.config.decoder_head_dim)
        kept = _counted_to(self_total, caches[0][0].shape[2]) if len(model.decoder_biases) else positions
        biases = bias_of_layers(model.decoder_biases, len(model.decoder), positions, kept)
        for layer, cache, bias in zip(model.decoder, caches, biases, strict=True):
            if own == 1:
                attend_self = _recur_from(cache[0], self_lengths, updated)
            else:
                attend_self = _attend_to_past(cache[:2], self_lengths, self_total, heads, bias, updated)
            last = cache[own + 2 :] or (nothing, nothing)
            attend_cross = self._attend_to_memory(
                (*cache[own : own + 2], *last), cross_lengths, cross_total, updated
            )
            x = layer(x, attend_self, attend_cross)
        return (self._score(model.decoder_norm(x)).float(), *updated)

    def _score(self, x: Tensor) -> Tensor:
        """Turn [R, 1, E] into scores, [R, V].

        Of a product of two axes and its bias ONNX Runtime makes one node, as int8 has it. On CUDA that writes
        the bias into all rows first: 34 us for 256 rows of 32,000 (H200). Adding it afterwards takes 10.
        """
        projection = self.model.projection
        if x.dtype != torch.float16:
            return projection(x[:, 0])
        scores = torch.onnx.ops.symbolic(
            f"{_DOMAIN}::FusedMatMul",
            [x, projection.weight],
            {"transB": 1},
            dtype=x.dtype,
            shape=(x.shape[0], 1, projection.out_features),
            version=1,
        )
        if projection.bias is not None:
            scores = scores + projection.bias
        return scores.squeeze(1)

    def _attend_to_memory(
        self, cache: tuple[Tensor, ...], lengths: Tensor, total: Tensor, updated: list[Tensor]
    ) -> Attend:
        """Attend to the source, all beams of a sentence as query heads of the same key and value head.

        GroupQueryAttention appends the positions it is given, and its cost follows each sentence's length and
        not the capacity S. On the CPU it may be given none, [N, 0, H*D]. In fp16, which is for CUDA, it gets
        the last source token again, which rewrites what is already there.
        """
        key, value, new_key, new_value = cache
        heads, beams = self.model.config.decoder_heads, self.beam_width
        head_dim = self.model.config.decoder_head_dim

        def attend(query: Tensor) -> Tensor:
            width = query.shape[2]
            if beams > 1:
                query = query.view(-1, beams, heads, head_dim).transpose(1, 2).reshape(-1, 1, beams * width)
            context, *present = torch.onnx.ops.symbolic_multi_out(
                f"{_DOMAIN}::GroupQueryAttention",
                [query, new_key, new_value, key, value, lengths, total],
                {"num_heads": heads * beams, "kv_num_heads": heads},
                dtypes=[query.dtype] * 3,
                shapes=[query.shape, key.shape, value.shape],
                version=1,
            )
            updated.extend(present)
            if beams > 1:
                context = context.view(-1, heads, beams, head_dim).transpose(1, 2).reshape(-1, 1, width)
            return context

        return attend


def _counted_to(total: Tensor, capacity: int | torch.SymInt) -> Tensor:
    """Return the positions 0 to ``total`` (int32 []) exclusively, int64; the exporter sees P."""
    ends = [torch.tensor(0), total.to(torch.int64), torch.tensor(1)]
    return torch.onnx.ops.symbolic("Range", ends, dtype=torch.int64, shape=(capacity,))


def _attend_to_source(lengths: Tensor, heads: int, bias: Tensor | None) -> Attend:
    """Self-attention over a padded source; padding is masked by the lengths, int32 [N].

    ``bias`` [1, H, S, S] is added to the scores.
    """

    def attend(packed: Tensor) -> Tensor:
        query, key, value = packed.chunk(3, dim=-1)
        return torch.onnx.ops.symbolic(
            f"{_DOMAIN}::MultiHeadAttention",
            [query, key, value, None, lengths, *(() if bias is None else (bias,))],
            {"num_heads": heads},
            dtype=query.dtype,
            shape=query.shape,
            version=1,
        )

    return attend


def _attend_to_past(
    cache: tuple[Tensor, ...],
    lengths: Tensor,
    total: Tensor,
    heads: int,
    bias: Tensor | None,
    updated: list[Tensor],
) -> Attend:
    """Causal self-attention of one new position, appended to the cache at each row's own length.

    ``bias`` [R, H, 1, total] is added to the scores.
    """
    key, value = cache
    # The inputs between are of rotary positions.
    added = () if bias is None else (None, None, None, bias)

    def attend(packed: Tensor) -> Tensor:
        rows, _, width = packed.shape
        context, new_key, new_value = torch.onnx.ops.symbolic_multi_out(
            f"{_DOMAIN}::GroupQueryAttention",
            [packed, None, None, key, value, lengths, total, *added],
            {"num_heads": heads, "kv_num_heads": heads},
            dtypes=[packed.dtype] * 3,
            shapes=[(rows, 1, width // 3), key.shape, value.shape],
            version=1,
        )
        updated.extend((new_key, new_value))
        return context

    return attend


def _recur_from(state: Tensor, lengths: Tensor, updated: list[Tensor]) -> Attend:
    """Compute the next cells of an SSRU from the state [R, 1, 1, E], which they replace.

    Rows that begin, whose length (int32 [R]) is 0, find there what another sentence has left, if anything.
    The state has two axes more than it needs, so that it is a cache of one position to what keeps it.
    """

    def recur(packed: Tensor) -> Tensor:
        begins = (lengths == 0).view(-1, 1, 1, 1)
        before = torch.where(begins, torch.zeros((), dtype=state.dtype), state)
        cells = next_cells(packed.unsqueeze(1), before)
        updated.append(cells)
        return cells.squeeze(1)

    return recur


class RmsNormOperator(nn.Module):
    """RMSNorm (Zhang and Sennrich, 2019) as one node, where the exporter would make seven of it."""

    def __init__(self, norm: nn.RMSNorm) -> None:
        super().__init__()
        assert norm.eps is not None
        self.weight, self.eps = norm.weight, norm.eps

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., E] to [..., E]."""
        return torch.onnx.ops.symbolic(
            RMS_NORM,
            [x, self.weight],
            {"axis": -1, "epsilon": self.eps, "stash_type": 1},
            dtype=x.dtype,
            shape=x.shape,
        )
