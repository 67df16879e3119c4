"""Multi-head attention, and the recurrence that a decoder may have instead of self-attention.

The modules own the projections; *what* is attended to, or which cells came before, is a callable handed in by
the caller (teacher forcing, a cache, or an ONNX operator), who keeps it where it likes. So one definition
serves training, reference decoding and export.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from model.config import TransformerConfig

# cuDNN's attention makes a plan for every new shape, and every batch has one. On an H100 an update of a small
# model took 0.38 s with it; with the other kernels, six runs that shared the GPU took 0.08 s each.
torch.backends.cuda.enable_cudnn_sdp(False)

Attend = Callable[[Tensor], Tensor]
"""Maps projected queries (or packed queries, keys and values) [N, T, ...] to a context [N, T, H*D]."""


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape [N, T, H*D] to [N, H, T, D]."""
    n, length, width = x.shape
    return x.view(n, length, heads, width // heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """Reshape [N, H, T, D] to [N, T, H*D]."""
    n, heads, length, dim = x.shape
    return x.transpose(1, 2).reshape(n, length, heads * dim)


def padding_mask(lengths: Tensor, capacity: int) -> Tensor:
    """Build the mask of valid key positions.

    Args:
        lengths: int64 [N], valid positions of each row.
        capacity: S, positions of the padded tensor.

    Returns:
        bool [N, 1, 1, S], true where attention may look.
    """
    positions = torch.arange(capacity, device=lengths.device)
    return (positions[None, :] < lengths[:, None])[:, None, None, :]


def with_bias(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Join a bool mask with a bias, which is added to the scores, into what SDPA takes; both broadcast."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    return bias.masked_fill(~mask, -torch.inf)


class SelfAttention(nn.Module):
    """Projections of self-attention: one packed product for queries, keys and values."""

    def __init__(self, config: TransformerConfig, heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = config.attention_dropout
        width = heads * head_dim
        self.qkv = nn.Linear(config.d_model, 3 * width, bias=config.biases)
        self.output = nn.Linear(width, config.d_model, bias=config.biases)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """Project x [N, T, E], let ``attend`` turn packed [N, T, 3*H*D] into a context, project it back."""
        return self.output(attend(self.qkv(x)))

    def split(self, packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Unpack [N, T, 3*H*D] into queries, keys and values, each [N, H, T, D]."""
        query, key, value = packed.chunk(3, dim=-1)
        return split_heads(query, self.heads), split_heads(key, self.heads), split_heads(value, self.heads)

    def over_sequence(
        self, mask: Tensor | None = None, *, causal: bool = False, bias: Tensor | None = None
    ) -> Attend:
        """Attend over the sequence itself.

        Args:
            mask: bool, broadcast to [N, H, T, T], true where attention may look.
            causal: whether it may look at what came before only; goes without a mask.
            bias: added to the scores, [..., H, T, T].
        """
        if bias is not None:
            if causal:
                mask = torch.ones(bias.shape[-2:], dtype=torch.bool, device=bias.device).tril()
            mask, causal = with_bias(mask, bias), False

        def attend(packed: Tensor) -> Tensor:
            query, key, value = self.split(packed)
            dropout = self.dropout if self.training else 0.0
            return merge_heads(
                scaled_dot_product_attention(
                    query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal
                )
            )

        return attend


class CrossAttention(nn.Module):
    """Projections of attention from the decoder to the encoder's output."""

    def __init__(self, config: TransformerConfig, heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = config.attention_dropout
        width = heads * head_dim
        self.query = nn.Linear(config.d_model, width, bias=config.biases)
        self.key_value = nn.Linear(config.d_model, 2 * width, bias=config.biases)
        self.output = nn.Linear(width, config.d_model, bias=config.biases)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """Project x [N, T, E] to queries, let ``attend`` look at the source, project the context back."""
        return self.output(attend(self.query(x)))

    def project_memory(
        self, memory: Tensor, pad: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute keys and values [N, H, S, D] of the encoder output [N, S, E]; done once a sentence.

        Args:
            memory: the encoder output, or its real tokens alone, [T, E].
            pad: turns [T, E] into [N, S, E]; None if ``memory`` is padded.
        """
        key, value = self.key_value(memory).chunk(2, dim=-1)
        if pad is not None:
            key, value = pad(key), pad(value)
        return split_heads(key, self.heads), split_heads(value, self.heads)

    def over_memory(self, key: Tensor, value: Tensor, mask: Tensor) -> Attend:
        """Attend to keys and values [N, H, S, D] where mask (bool [N, 1, 1, S]) is true."""

        def attend(projected: Tensor) -> Tensor:
            query = split_heads(projected, self.heads)
            dropout = self.dropout if self.training else 0.0
            return merge_heads(
                scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
            )

        return attend


class Ssru(nn.Module):
    """The simpler simple recurrent unit (Kim et al., 2019: "From Research to Production and Back").

    With a forget gate ``f(t) = sigmoid(W_f x(t) + b_f)`` the cell is ``c(t) = f(t) c(t-1) + (1-f(t)) W x(t)``
    from ``c(-1) = 0``, and the output ``relu(c(t))``. A cell depends on the last one only by a multiplication
    and an addition, so those of a whole target are computed side by side; a step needs one cell of every row,
    however long the target is.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.gates = nn.Linear(config.d_model, 2 * config.d_model, bias=config.biases)

    def forward(self, x: Tensor, recur: Attend) -> Tensor:
        """Project x [N, T, E], let ``recur`` turn packed [N, T, 2*E] into cells [N, T, E], rectify them."""
        return torch.relu(recur(self.gates(x)))


def next_cells(packed: Tensor, before: Tensor) -> Tensor:
    """Compute cells [N, 1, E] from packed forget gates and inputs [N, 1, 2*E] and the cells before."""
    forget, x = packed.chunk(2, dim=-1)
    return x + torch.sigmoid(forget) * (before - x)


def all_cells(packed: Tensor, longest: int | None = None) -> Tensor:
    """Compute the cells of whole targets [N, T, E] from packed forget gates and inputs [N, T, 2*E].

    A cell is ``kept * c(t-n) + added``; two such stretches joined are one again, so that log2(T) rounds of
    doubling n reach the beginning (Hillis and Steele, 1986). An exported graph makes those of ``longest``.
    """
    forget, x = packed.chunk(2, dim=-1)
    kept = torch.sigmoid(forget)
    added = (1 - kept) * x
    stretch = 1
    while stretch < (packed.shape[1] if longest is None else longest):
        shift = (0, 0, stretch, 0)
        added = added + kept * pad(added, shift)[:, :-stretch]
        kept = kept * pad(kept, shift)[:, :-stretch]
        stretch *= 2
    return added
