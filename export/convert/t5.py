"""T5 and its kin (v1.1, Flan, mT5, umT5, MADLAD, ByT5) in our words.

Three of T5's habits are part of weights here: its attention divides scores by nothing, so queries are
multiplied by the square root of the head size; its tied output is scaled by 1/sqrt(d_model), which goes into
the last norm; and its buckets of distances (Raffel et al., 2020, section 2.1) are expanded to one bias for
every distance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from export.convert.huggingface_files import HuggingFaceError
from model.config import Activation, TransformerConfig

T5_TYPES = ("t5", "mt5", "umt5")
_SHARED, _HEAD = "shared.weight", "lm_head.weight"
_EMBEDDINGS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
_BIAS = "layer.0.SelfAttention.relative_attention_bias.weight"
_MAX_POSITIONS = 1024
"""T5 has no limit; this is what its makers fine-tuned it with, twice over."""
_ACTIVATIONS: dict[str, tuple[Activation, bool]] = {
    "relu": ("relu", False),
    "gelu": ("gelu", False),
    "gated-gelu": ("gelu_tanh", True),
    "gated-relu": ("relu", True),
    "gated-silu": ("silu", True),
}


class T5File(BaseModel):
    """The fields of ``config.json`` that the computation depends on."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model_type: Literal["t5", "mt5", "umt5"]
    vocab_size: Annotated[int, Field(ge=4, le=2_000_000)]
    d_model: Annotated[int, Field(ge=2, le=16384)]
    d_kv: Annotated[int, Field(ge=1, le=4096)]
    d_ff: Annotated[int, Field(ge=1, le=131072)]
    num_layers: Annotated[int, Field(ge=1, le=64)]
    num_decoder_layers: Annotated[int, Field(ge=1, le=64)] | None = None
    num_heads: Annotated[int, Field(ge=1, le=256)]
    relative_attention_num_buckets: Annotated[int, Field(ge=4, le=4096)] = 32
    relative_attention_max_distance: Annotated[int, Field(ge=4, le=16384)] = 128
    feed_forward_proj: str = "relu"
    layer_norm_epsilon: Annotated[float, Field(gt=0)] = 1e-6
    dropout_rate: Annotated[float, Field(ge=0, lt=1)] = 0.1
    pad_token_id: Annotated[int, Field(ge=0)] = 0
    tie_word_embeddings: bool | None = None
    scale_decoder_outputs: bool | None = None

    @property
    def scales_output(self) -> bool:
        """Whether what goes to the output is multiplied by 1/sqrt(d_model), as transformers decides it."""
        if self.model_type == "mt5":
            return False
        if self.scale_decoder_outputs is not None:
            return self.scale_decoder_outputs
        return self.tie_word_embeddings is not False


def t5_architecture(model: T5File, path: Path) -> TransformerConfig:
    """Describe the model, its output tied until its weights say otherwise.

    Raises:
        HuggingFaceError: it is of another kind.
    """
    if model.feed_forward_proj not in _ACTIVATIONS:
        raise HuggingFaceError(
            f"{path}: feed_forward_proj {ascii(model.feed_forward_proj)[:60]} is not one of "
            f"{', '.join(_ACTIVATIONS)}"
        )
    activation, gated = _ACTIVATIONS[model.feed_forward_proj]
    try:
        return TransformerConfig(
            source_vocab_size=model.vocab_size,
            target_vocab_size=model.vocab_size,
            d_model=model.d_model,
            encoder_layers=model.num_layers,
            decoder_layers=model.num_decoder_layers or model.num_layers,
            encoder_heads=model.num_heads,
            decoder_heads=model.num_heads,
            encoder_ffn_dim=model.d_ff,
            decoder_ffn_dim=model.d_ff,
            norm_kind="rms",
            biases=False,
            activation=activation,
            gated_ffn=gated,
            head_dim=model.d_kv,
            positions="none",
            relative_distances=model.relative_attention_max_distance,
            relative_every_layer=model.model_type == "umt5",
            max_positions=_MAX_POSITIONS,
            scale_embeddings=False,
            layer_norm_eps=model.layer_norm_epsilon,
            dropout=model.dropout_rate,
            pad_id=model.pad_token_id,
        )
    except ValidationError as error:
        raise HuggingFaceError(f"{path}: {error.errors()[0]['msg']}") from None


def t5_weights(
    file: Path, model: T5File, config: TransformerConfig, tensors: Mapping[str, Tensor]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Rename and rescale the weights; the output is tied unless it has weights of its own.

    Args:
        file: named in errors.
        model: of config.json.
        config: from ``t5_architecture``.
        tensors: float32, by T5's names.

    Raises:
        HuggingFaceError: a tensor is missing, unknown, or of an unexpected shape.
    """
    left = dict(tensors)
    shared = left.pop(_SHARED, None)
    for name in _EMBEDDINGS:
        copy = left.pop(name, None)
        shared = copy if shared is None else shared
    if shared is None:
        raise HuggingFaceError(f"{file}: {_SHARED} is missing")
    weights = {"source_embedding.tokens.weight": shared}
    head = left.pop(_HEAD, shared)
    if head.shape != shared.shape or not torch.equal(head, shared):
        config = config.model_copy(update={"tie_output": False})
        weights["projection.weight"] = head
    # Left over of all versions of transformers: the decoder does not know distances to the source.
    left.pop("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", None)
    for ours, parts in _names(config):
        missing = next((part for part in parts if part not in left), None)
        if missing is not None:
            raise HuggingFaceError(f"{file}: {missing} is missing")
        weights[ours] = torch.cat([left.pop(part) for part in parts])
    if left:
        raise HuggingFaceError(f"{file}: {sorted(left)[0]} is not of this architecture")
    width, grown = config.encoder_heads * config.encoder_head_dim, math.sqrt(config.encoder_head_dim)
    for name, tensor in weights.items():
        if name.endswith("qkv.weight"):
            weights[name] = torch.cat([tensor[:width] * grown, tensor[width:]])
        elif name.endswith("query.weight"):
            weights[name] = tensor * grown
        elif name.endswith("table"):
            weights[name] = _expanded(file, tensor, model, both_ways=name.startswith("encoder"))
    if model.scales_output:
        weights["decoder_norm.weight"] = weights["decoder_norm.weight"] * config.d_model**-0.5
    return config, weights


def _names(config: TransformerConfig) -> Iterator[tuple[str, list[str]]]:
    """Map our weights to T5's that make them up, in order."""
    expand = ["wi_0", "wi_1"] if config.gated_ffn else ["wi"]
    for side in ("encoder", "decoder"):
        layers = config.encoder_layers if side == "encoder" else config.decoder_layers
        last = 1 if side == "encoder" else 2
        for i in range(layers):
            ours, theirs = f"{side}.{i}", f"{side}.block.{i}.layer"
            own, cross, dense = f"{theirs}.0", f"{theirs}.1", f"{theirs}.{last}"
            yield (
                f"{ours}.self_attention.qkv.weight",
                [f"{own}.SelfAttention.{part}.weight" for part in "qkv"],
            )
            yield f"{ours}.self_attention.output.weight", [f"{own}.SelfAttention.o.weight"]
            yield f"{ours}.self_residual.norm.weight", [f"{own}.layer_norm.weight"]
            if side == "decoder":
                attention = f"{cross}.EncDecAttention"
                yield f"{ours}.cross_attention.query.weight", [f"{attention}.q.weight"]
                yield (
                    f"{ours}.cross_attention.key_value.weight",
                    [f"{attention}.{part}.weight" for part in "kv"],
                )
                yield f"{ours}.cross_attention.output.weight", [f"{attention}.o.weight"]
                yield f"{ours}.cross_residual.norm.weight", [f"{cross}.layer_norm.weight"]
            products = f"{dense}.DenseReluDense"
            yield f"{ours}.feed_forward.expand.weight", [f"{products}.{part}.weight" for part in expand]
            yield f"{ours}.feed_forward.contract.weight", [f"{products}.wo.weight"]
            yield f"{ours}.feed_forward_residual.norm.weight", [f"{dense}.layer_norm.weight"]
            if i == 0 or config.relative_every_layer:
                yield f"{side}_biases.{i}.table", [f"{side}.block.{i}.{_BIAS}"]
        yield f"{side}_norm.weight", [f"{side}.final_layer_norm.weight"]


def _expanded(file: Path, table: Tensor, model: Any, *, both_ways: bool) -> Tensor:
    """Give every distance, key minus query, the bias of its bucket."""
    buckets, farthest = model.relative_attention_num_buckets, model.relative_attention_max_distance
    if table.shape != (buckets, model.num_heads):
        raise HuggingFaceError(f"{file}: a table of distances has shape {list(table.shape)}")
    distances = torch.arange(-farthest, (farthest if both_ways else 0) + 1)
    first = torch.zeros_like(distances)
    if both_ways:
        buckets //= 2
        first = (distances > 0) * buckets
        apart = distances.abs()
    else:
        apart = -distances
    exact = buckets // 2
    # In float32, in the order in which transformers computes it: it decides at the edges of buckets.
    far = torch.log(apart.float() / exact) / math.log(farthest / exact) * (buckets - exact)
    far = (exact + far.clamp(min=0).to(torch.int64)).clamp(max=buckets - 1)
    return table[first + torch.where(apart < exact, apart, far)]
