"""Trained modules to fp32 or fp16 ONNX graphs, one encoder and one decoder per beam width."""

from __future__ import annotations

import copy
import logging
import warnings
from pathlib import Path
from typing import Any

import onnx
import torch
from torch.export import Dim

from export.graph.graphs import DecoderGraph, EncoderGraph, RmsNormOperator
from export.graph.large_weights import to_proto
from model.config import Mixer
from model.transformer import Transformer

OPSET = 20


def encoder_input_names(features: int) -> list[str]:
    """Names of the encoder's inputs, for sources of ids or of feature vectors of this size."""
    return ["features" if features else "input_ids", "lengths"]


def encoder_output_names(layers: int) -> list[str]:
    """Names of the encoder's outputs for ``layers`` decoder layers."""
    return [f"cross_{kind}_{i}" for i in range(layers) for kind in ("key", "value")]


def self_cache_kinds(mixer: Mixer) -> tuple[str, ...]:
    """Names of what a layer keeps of the target, without its number."""
    return ("self_state",) if mixer == "ssru" else ("self_key", "self_value")


def decoder_input_names(layers: int, *, appends: bool = False, mixer: Mixer = "attention") -> list[str]:
    """Names of the decoder's inputs, in order.

    Args:
        layers: decoder layers.
        mixer: of the decoder.
        appends: whether cross-attention is given the last source token again, as in fp16.
    """
    names = ["input_ids", "positions", "self_lengths", "self_total", "cross_lengths", "cross_total"]
    kinds = [*self_cache_kinds(mixer), "cross_key", "cross_value"]
    kinds += ["cross_last_key", "cross_last_value"] if appends else []
    return names + [f"{kind}_{i}" for i in range(layers) for kind in kinds]


def decoder_output_names(layers: int, *, mixer: Mixer = "attention") -> list[str]:
    """Names of the decoder's outputs, in order."""
    kinds = (*self_cache_kinds(mixer), "cross_key", "cross_value")
    return ["logits"] + [f"{kind}_out_{i}" for i in range(layers) for kind in kinds]


def export_encoder(
    model: Transformer, dtype: torch.dtype = torch.float32, weights: Path | None = None
) -> onnx.ModelProto:
    """Export the encoder with the projections of its output for every decoder layer.

    Args:
        model: the trained model; it is not changed.
        dtype: float32, or float16 for CUDA.
        weights: file to make of the large weights; None leaves them inside.

    Returns:
        The graph, dynamic in N and S.
    """
    graph = EncoderGraph(frozen(model, dtype), unpads=dtype != torch.float16)
    features = model.config.source_features
    source = torch.ones(2, 5, features) if features else torch.ones(2, 5, dtype=torch.int64)
    example = (source, torch.tensor([5, 3], dtype=torch.int32))
    n, s = Dim("sentences"), Dim("source")
    dynamic = {"source": {0: n, 1: s}, "lengths": {0: n}}
    names = encoder_output_names(model.config.decoder_layers)
    return export_graph(graph, example, dynamic, encoder_input_names(features), names, weights)


def export_decoder(
    model: Transformer,
    beam_width: int,
    dtype: torch.dtype = torch.float32,
    weights: Path | None = None,
) -> onnx.ModelProto:
    """Export one decoder step for a beam width.

    Args:
        model: the trained model; it is not changed.
        beam_width: K, beams of a sentence that share its cross keys and values.
        dtype: float32, or float16 for CUDA.
        weights: file to make of the large weights; None leaves them inside.

    Returns:
        The graph, dynamic in N (and R = N*K), S and P.
    """
    config = model.config
    layers, heads, head_dim = config.decoder_layers, config.decoder_heads, config.decoder_head_dim
    sentences, rows, capacity, source = 2, 2 * beam_width, 7, 5
    cross, mixer = (sentences, heads, source, head_dim), config.decoder_mixer
    own: tuple[tuple[int, ...], ...] = ((rows, heads, capacity, head_dim),) * 2
    if mixer == "ssru":
        own = ((rows, 1, 1, config.d_model),)
    appends = dtype == torch.float16
    shapes = (*own, cross, cross) + 2 * appends * ((sentences, 1, heads * head_dim),)
    example = (
        torch.ones(rows, 1, dtype=torch.int64),
        torch.zeros(rows, 1, dtype=torch.int64),
        torch.zeros(rows, dtype=torch.int32),
        torch.tensor(1, dtype=torch.int32),
        torch.full((sentences,), source - 1, dtype=torch.int32),
        torch.tensor(source, dtype=torch.int32),
        [tuple(torch.zeros(shape, dtype=dtype) for shape in shapes) for _ in range(layers)],
    )
    n, p, s = Dim("sentences"), Dim("capacity"), Dim("source")
    r = n if beam_width == 1 else beam_width * n
    of_own = ({0: r},) if mixer == "ssru" else ({0: r, 2: p},) * 2
    of_cache = (*of_own, {0: n, 2: s}, {0: n, 2: s}) + 2 * appends * ({0: n},)
    dynamic = {
        "input_ids": {0: r},
        "positions": {0: r},
        "self_lengths": {0: r},
        "self_total": {},
        "cross_lengths": {0: n},
        "cross_total": {},
        "caches": [of_cache for _ in range(layers)],
    }
    graph = DecoderGraph(frozen(model, dtype), beam_width)
    inputs = decoder_input_names(layers, appends=appends, mixer=mixer)
    outputs = decoder_output_names(layers, mixer=mixer)
    return export_graph(graph, example, dynamic, inputs, outputs, weights)


def frozen(model: Transformer, dtype: torch.dtype) -> Transformer:
    """Copy a model for export: on the processor, in eval mode, RMSNorm as one operator.

    Weights that stay what they are are shared, not copied.
    """
    weights = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()]
    alike = all(tensor.dtype == dtype and tensor.device.type == "cpu" for tensor in weights)
    shared = {id(tensor): tensor for tensor in weights} if alike else {}
    frozen = copy.deepcopy(model, shared).to(device="cpu", dtype=dtype).eval()
    for parent in list(frozen.modules()):
        for name, child in parent.named_children():
            if isinstance(child, torch.nn.RMSNorm):
                setattr(parent, name, RmsNormOperator(child))
    return frozen


def export_graph(
    module: torch.nn.Module,
    example: tuple[Any, ...],
    dynamic: dict[str, Any],
    input_names: list[str],
    output_names: list[str],
    weights: Path | None = None,
) -> onnx.ModelProto:
    """Turn a module into a graph.

    Args:
        module: to export.
        example: arguments that it is traced with.
        dynamic: axes of them that may have another size, as `torch.export` takes them.
        input_names: of the graph.
        output_names: names of its outputs.
        weights: file to make of the large weights; None leaves them inside.

    Raises:
        RuntimeError: the exporter has no result.
    """
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module,
            example,
            dynamo=True,
            dynamic_shapes=dynamic,
            input_names=input_names,
            output_names=output_names,
            opset_version=OPSET,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned nothing")
    return to_proto(program.model, weights)
