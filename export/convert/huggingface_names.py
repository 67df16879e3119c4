"""Where each weight of our Transformer lives in the Hugging Face classes of the BART family.

One table serves both directions. Our packed projections (queries, keys and values in one matrix) are several
tensors there, stacked along the first axis.
"""

from __future__ import annotations

from collections.abc import Iterator

from model.config import Activation, TransformerConfig

ACTIVATIONS: dict[Activation, str] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "silu": "swish",
}
"""Our names to theirs."""

SHARED_EMBEDDING = "model.shared.weight"
OUTPUT_WEIGHT = "lm_head.weight"
OUTPUT_BIAS = "final_logits_bias"
"""float32 [1, V] there, [V] here."""


def tensor_names(config: TransformerConfig) -> dict[str, tuple[str, ...]]:
    """Map every weight of ``model.checkpoint.model_tensors`` to the tensors that make it up, in order.

    Args:
        config: of our model; tied weights appear once, under the name that is kept.
    """
    names = dict(_layers(config))
    if config.share_source_target_embeddings:
        names["source_embedding.tokens.weight"] = (SHARED_EMBEDDING,)
    else:
        names["source_embedding.tokens.weight"] = ("model.encoder.embed_tokens.weight",)
        names["target_embedding.tokens.weight"] = ("model.decoder.embed_tokens.weight",)
    if not config.tie_output:
        names["projection.weight"] = (OUTPUT_WEIGHT,)
    for ours, theirs in (("source", "encoder"), ("target", "decoder")):
        if config.positions == "learned":
            names[f"{ours}_embedding.positions.table"] = (f"model.{theirs}.embed_positions.weight",)
        if config.embedding_norm:
            names |= _both(f"{ours}_embedding.norm", f"model.{theirs}.layernorm_embedding")
    if config.output_bias:
        names["projection.bias"] = (OUTPUT_BIAS,)
    if config.final_norm:
        for side in ("encoder", "decoder"):
            names |= _both(f"{side}_norm", f"model.{side}.layer_norm")
    return names


def model_axis(name: str) -> int | None:
    """Tell which axis of our weight ``name`` runs over the d_model features; None if none does."""
    parent, kind = name.split(".")[-2:]
    if parent in ("output", "contract"):
        return 0
    if parent in ("norm", "encoder_norm", "decoder_norm"):
        return 0
    return 1 if kind == "weight" else None


def _layers(config: TransformerConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    for i in range(config.encoder_layers):
        yield from _layer(f"encoder.{i}", f"model.encoder.layers.{i}", cross=False)
    for i in range(config.decoder_layers):
        yield from _layer(f"decoder.{i}", f"model.decoder.layers.{i}", cross=True)


def _layer(ours: str, theirs: str, *, cross: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    pairs = {
        f"{ours}.self_attention.qkv": [f"{theirs}.self_attn.{part}_proj" for part in "qkv"],
        f"{ours}.self_attention.output": [f"{theirs}.self_attn.out_proj"],
        f"{ours}.self_residual.norm": [f"{theirs}.self_attn_layer_norm"],
        f"{ours}.feed_forward.expand": [f"{theirs}.fc1"],
        f"{ours}.feed_forward.contract": [f"{theirs}.fc2"],
        f"{ours}.feed_forward_residual.norm": [f"{theirs}.final_layer_norm"],
    }
    if cross:
        pairs |= {
            f"{ours}.cross_attention.query": [f"{theirs}.encoder_attn.q_proj"],
            f"{ours}.cross_attention.key_value": [f"{theirs}.encoder_attn.{part}_proj" for part in "kv"],
            f"{ours}.cross_attention.output": [f"{theirs}.encoder_attn.out_proj"],
            f"{ours}.cross_residual.norm": [f"{theirs}.encoder_attn_layer_norm"],
        }
    for name, parts in pairs.items():
        yield from _both(name, *parts).items()


def _both(ours: str, *theirs: str) -> dict[str, tuple[str, ...]]:
    return {f"{ours}.{kind}": tuple(f"{part}.{kind}" for part in theirs) for kind in ("weight", "bias")}
