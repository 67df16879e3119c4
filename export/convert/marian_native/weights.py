"""Marian's weights under our names: matrices transposed, queries, keys and values packed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from export.convert.huggingface_files import HuggingFaceError
from export.convert.marian_native.settings import OPTIONS, tables
from model.config import TransformerConfig

_GATES = ("Wf", "W")
"""Of an SSRU: the forget gate has a bias, its input none."""
_OUTPUT = "decoder_ff_logit_out"
_NEVER = -1e9


def convert(
    arrays: Mapping[str, NDArray[Any]], config: TransformerConfig, path: Path
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Rename everything, and add a row of zeros to the target's table, which decoding starts with.

    Raises:
        HuggingFaceError: something is missing, unknown, of an odd shape or no number.
    """
    # Norms before a layer and of embeddings end in _pre, others do not; one layer has only one of them.
    left = {name.removesuffix("_pre"): array for name, array in arrays.items() if name != OPTIONS}
    for name, array in left.items():
        if array.dtype not in (np.float32, np.float16) or not bool(np.isfinite(array).all()):
            raise HuggingFaceError(f"{path}: {ascii(name)[:80]} holds something else than finite floats")
    weights: dict[str, Tensor] = {}
    source, target = tables(arrays, path)
    weights["source_embedding.tokens.weight"] = _tensor(source)
    if source is not target:
        weights["target_embedding.tokens.weight"] = _tensor(target)
    if f"{_OUTPUT}_W" in left:
        weights["projection.weight"] = _tensor(_matrix(left, f"{_OUTPUT}_W", path).T)
    elif f"{_OUTPUT}_Wt" in left:
        weights["projection.weight"] = _tensor(_matrix(left, f"{_OUTPUT}_Wt", path))
    if config.output_bias:
        weights["projection.bias"] = _tensor(left[f"{_OUTPUT}_b"].reshape(-1))
    for name in ("Wemb", "encoder_Wemb", "decoder_Wemb", *(f"{_OUTPUT}_{end}" for end in ("W", "Wt", "b"))):
        left.pop(name, None)
    for ours, parts, norm in _names(config):
        for kind, names in (
            ("weight", [f"{part}_ln_scale" if norm else part for part in parts]),
            ("bias", [f"{part}_ln_bias" if norm else _bias_of(part) for part in parts]),
        ):
            matrix = kind == "weight" and not norm
            if kind == "bias" and ours.endswith("recurrence.gates"):
                left.setdefault(names[1], np.zeros(config.d_model, np.float32))
            if missing := next((name for name in names if name not in left), None):
                raise HuggingFaceError(f"{path}: {missing} is missing")
            pieces = [
                _tensor(_matrix(left, name, path).T if matrix else left[name].reshape(-1)) for name in names
            ]
            for name in names:
                del left[name]
            if len({piece.shape[1:] for piece in pieces}) > 1:
                raise HuggingFaceError(f"{path}: {names[0]} and {names[-1]} do not fit together")
            weights[f"{ours}.{kind}"] = torch.cat(pieces)
    if left:
        raise HuggingFaceError(f"{path}: {ascii(sorted(left)[0])[:80]} is not part of a plain Transformer")
    return _with_start(config, weights)


def _with_start(
    config: TransformerConfig, weights: dict[str, Tensor]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    shared = config.share_source_target_embeddings
    grown = ["source_embedding.tokens.weight" if shared else "target_embedding.tokens.weight"]
    for name in (*grown, "projection.weight"):
        if name in weights:
            weights[name] = torch.cat([weights[name], weights[name].new_zeros(1, weights[name].shape[1])])
    # No token of the model: as good as minus infinity for a softmax in float32, and still a number.
    bias = weights.get("projection.bias", torch.zeros(config.target_vocab_size))
    weights["projection.bias"] = torch.cat([bias, bias.new_tensor([_NEVER])])
    changes = {"target_vocab_size": config.target_vocab_size + 1, "output_bias": True}
    if shared:
        changes["source_vocab_size"] = config.source_vocab_size + 1
    return config.model_copy(update=changes), weights


def _names(config: TransformerConfig) -> Iterator[tuple[str, list[str], bool]]:
    """Yield our names, Marian's that make them up, and whether it is a norm."""
    for side in ("encoder", "decoder"):
        layers = config.encoder_layers if side == "encoder" else config.decoder_layers
        for i in range(layers):
            ours, theirs = f"{side}.{i}", f"{side}_l{i + 1}"
            if side == "decoder" and config.decoder_mixer == "ssru":
                yield f"{ours}.recurrence.gates", [f"{theirs}_rnn_{part}" for part in _GATES], False
                yield f"{ours}.self_residual.norm", [f"{theirs}_rnn_ffn"], True
            else:
                yield f"{ours}.self_attention.qkv", [f"{theirs}_self_W{part}" for part in "qkv"], False
                yield f"{ours}.self_attention.output", [f"{theirs}_self_Wo"], False
                yield f"{ours}.self_residual.norm", [f"{theirs}_self_Wo"], True
            if side == "decoder":
                yield f"{ours}.cross_attention.query", [f"{theirs}_context_Wq"], False
                yield (
                    f"{ours}.cross_attention.key_value",
                    [f"{theirs}_context_W{part}" for part in "kv"],
                    False,
                )
                yield f"{ours}.cross_attention.output", [f"{theirs}_context_Wo"], False
                yield f"{ours}.cross_residual.norm", [f"{theirs}_context_Wo"], True
            yield f"{ours}.feed_forward.expand", [f"{theirs}_ffn_W1"], False
            yield f"{ours}.feed_forward.contract", [f"{theirs}_ffn_W2"], False
            yield f"{ours}.feed_forward_residual.norm", [f"{theirs}_ffn_ffn"], True
        if config.final_norm:
            yield f"{side}_norm", [f"{side}_top"], True
        if config.embedding_norm:
            ours = "source" if side == "encoder" else "target"
            yield f"{ours}_embedding.norm", [f"{side}_emb"], True


def _bias_of(matrix: str) -> str:
    """Name the bias that goes with a matrix: ``encoder_l1_self_bq`` with ``encoder_l1_self_Wq``."""
    scope, _, part = matrix.rpartition("_W")
    return f"{scope}_b{part}"


def _matrix(arrays: Mapping[str, NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
    if arrays[name].ndim != 2:
        raise HuggingFaceError(f"{path}: {name} is no matrix: {list(arrays[name].shape)[:8]}")
    return arrays[name]


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.array(array, np.float32, order="C"))
