"""Encoder and decoder layers, with the norm before or after each sub-layer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from model.attention import Attend, CrossAttention, SelfAttention, Ssru, all_cells
from model.config import Activation, TransformerConfig

_ACTIVATIONS: dict[Activation, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "silu": nn.SiLU,
}


def make_norm(config: TransformerConfig) -> nn.Module:
    """Make the norm that the configuration asks for."""
    kind = nn.LayerNorm if config.norm_kind == "layer" else nn.RMSNorm
    return kind(config.d_model, eps=config.layer_norm_eps)


class FeedForward(nn.Module):
    """Two products with a non-linearity between them: E -> F -> E.

    A gated one computes twice F at first: the activation of one half multiplies the other.
    """

    def __init__(self, config: TransformerConfig, ffn_dim: int) -> None:
        super().__init__()
        self.gated = config.gated_ffn
        self.expand = nn.Linear(config.d_model, ffn_dim * (1 + self.gated), bias=config.biases)
        self.activation = _ACTIVATIONS[config.activation]()
        self.dropout = Dropout(config.activation_dropout)
        self.contract = nn.Linear(ffn_dim, config.d_model, bias=config.biases)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, T, E] to [N, T, E]."""
        x = self.expand(x)
        if self.gated:
            gate, x = x.chunk(2, dim=-1)
            return self.contract(self.dropout(self.activation(gate) * x))
        return self.contract(self.dropout(self.activation(x)))


class Residual(nn.Module):
    """Norm, dropout and residual around a sub-layer, in the order that the configuration asks for."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = make_norm(config)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def before(self, x: Tensor) -> Tensor:
        """Return what the sub-layer reads: norm(x) in pre-norm, x itself in post-norm."""
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """Join x with the sub-layer's result y, both [N, T, E]."""
        joined = x + self.dropout(y)
        return joined if self.pre else self.norm(joined)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config, config.encoder_heads, config.encoder_head_dim)
        self.feed_forward = FeedForward(config, config.encoder_ffn_dim)
        self.self_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """Map x [N, S, E] to [N, S, E]; ``attend`` is the self-attention over the source."""
        r = self.self_residual
        x = r.after(x, self.self_attention(r.before(x), attend))
        r = self.feed_forward_residual
        return r.after(x, self.feed_forward(r.before(x)))


class DecoderLayer(nn.Module):
    """Self-attention or a recurrence, attention to the source, feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.decoder_mixer == "ssru":
            self.recurrence = Ssru(config)
        else:
            self.self_attention = SelfAttention(config, config.decoder_heads, config.decoder_head_dim)
        self.cross_attention = CrossAttention(config, config.decoder_heads, config.decoder_head_dim)
        self.feed_forward = FeedForward(config, config.decoder_ffn_dim)
        self.self_residual = Residual(config)
        self.cross_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, x: Tensor, attend_self: Attend, attend_cross: Attend) -> Tensor:
        """Map x [N, T, E] to [N, T, E]; the callables say where keys and values, or cells, come from."""
        r = self.self_residual
        mixer = self.recurrence if self.is_recurrent else self.self_attention
        x = r.after(x, mixer(r.before(x), attend_self))
        r = self.cross_residual
        x = r.after(x, self.cross_attention(r.before(x), attend_cross))
        r = self.feed_forward_residual
        return r.after(x, self.feed_forward(r.before(x)))

    @property
    def is_recurrent(self) -> bool:
        """Whether it has a recurrence instead of self-attention."""
        return hasattr(self, "recurrence")

    def over_targets(self, bias: Tensor | None = None) -> Attend:
        """Give what joins the positions of whole targets; ``bias`` [..., H, T, T] is of attention."""
        return all_cells if self.is_recurrent else self.self_attention.over_sequence(causal=True, bias=bias)


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
