"""Exported graphs compute what PyTorch computes, whatever the architecture, whatever else is in the batch."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from onnx import helper

from export.graph.beam_width import EXPORTED_WIDTH, with_beam_width
from export.graph.onnx_export import (
    decoder_input_names,
    decoder_output_names,
    encoder_output_names,
    export_decoder,
    export_encoder,
)
from export.graph.products import GraphIndex, find_products
from export.graph.runner import GraphRunner
from export.int8.calibration import calibrate
from export.quality_gates import MAX_LOGIT_DIFFERENCE, GateError, check_parity, is_batch_invariant
from model.transformer import Transformer
from tests.support.factories import tiny_config

START, EOS, PAD = 2, 3, 0
VOCABULARY = 70
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm, gelu, learned positions with offset": {
        "norm": "post",
        "activation": "gelu",
        "positions": "learned",
        "position_offset": 2,
        "embedding_norm": True,
        "final_norm": False,
        "scale_embeddings": False,
    },
    "marian: post-norm, silu, halves, output bias": {
        "norm": "post",
        "activation": "silu",
        "positions": "sinusoidal_halves",
        "final_norm": False,
        "output_bias": True,
    },
    "two vocabularies, nothing tied, unequal sides": {
        "source_vocab_size": 50,
        "share_source_target_embeddings": False,
        "tie_output": False,
        "encoder_layers": 1,
        "encoder_ffn_dim": 40,
        "encoder_heads": 2,
        "decoder_heads": 6,
    },
    "m2m100: halves whose frequencies reach 10000, offset": {
        "positions": "sinusoidal_t2t",
        "position_offset": 2,
    },
    "t5: RMSNorm, no biases, distances that all layers share": {
        "norm_kind": "rms",
        "biases": False,
        "positions": "none",
        "scale_embeddings": False,
        "relative_distances": 5,
        "head_dim": 24,
    },
    "umt5: gates, distances of every layer, heads wider than the model": {
        "norm_kind": "rms",
        "biases": False,
        "activation": "gelu_tanh",
        "gated_ffn": True,
        "positions": "none",
        "scale_embeddings": False,
        "relative_distances": 4,
        "relative_every_layer": True,
        "encoder_heads": 2,
        "decoder_heads": 3,
        "head_dim": 40,
        "tie_output": False,
    },
    "untied with bias, one decoder layer": {
        "tie_output": False,
        "output_bias": True,
        "decoder_layers": 1,
        "norm": "pre",
        "activation": "gelu",
    },
}


def random_model(**changes: Any) -> Transformer:
    """A model whose every weight, biases and norms too, is random."""
    generator = torch.Generator().manual_seed(0)
    model = Transformer(tiny_config(VOCABULARY, **changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(0.1 * noise) if parameter.dim() == 1 else parameter.copy_(0.15 * noise)
    return model


@functools.cache
def graph_of(width: int, dtype: torch.dtype = torch.float32, name: str = "pre-norm") -> onnx.ModelProto:
    """The encoder, of width 0, or a decoder, exported once; must not be changed."""
    model = random_model(**ARCHITECTURES[name])
    return export_decoder(model, width, dtype) if width else export_encoder(model, dtype)


def random_rows(count: int, longest: int, vocabulary: int, seed: int = 0) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [
        [int(token) for token in draw.integers(4, vocabulary, draw.integers(1, longest + 1))]
        for _ in range(count)
    ]


def make_runner(encoder: onnx.ModelProto, decoder: onnx.ModelProto, beam_width: int = 1) -> GraphRunner:
    return GraphRunner(
        encoder.SerializeToString(),
        decoder.SerializeToString(),
        start_id=START,
        eos_id=EOS,
        pad_id=PAD,
        beam_width=beam_width,
    )


@torch.inference_mode()
def torch_logits(model: Transformer, source: list[int], target: list[int]) -> NDArray[np.float32]:
    lengths = torch.tensor([len(source)])
    memory = model.encode(torch.tensor([source]), lengths)
    logits: NDArray[np.float32] = model.decode(torch.tensor([[START, *target]]), memory, lengths)[0].numpy()
    return logits


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_graphs_equal_pytorch_for_every_architecture(name: str) -> None:
    model = random_model(**ARCHITECTURES[name])
    runner = make_runner(graph_of(0, name=name), graph_of(1, name=name))
    sources = random_rows(7, 12, model.config.source_vocab_size)
    targets = random_rows(7, 9, VOCABULARY, seed=1)
    for source, target, logits in zip(sources, targets, runner.forced(sources, targets), strict=True):
        np.testing.assert_allclose(logits, torch_logits(model, source, target), atol=1e-4)
    assert is_batch_invariant(runner, sources, targets)


def test_a_sentence_without_an_end_stops_where_the_models_positions_do() -> None:
    model = random_model(max_positions=16)
    encoder, decoder = export_encoder(model), export_decoder(model, 1)
    ids: dict[str, Any] = {"start_id": START, "eos_id": EOS, "pad_id": PAD, "suppressed_ids": [EOS]}
    runner = GraphRunner(encoder.SerializeToString(), decoder.SerializeToString(), max_positions=16, **ids)
    sources = random_rows(250, 15, VOCABULARY)
    assert {len(result.tokens) for result in runner.greedy(sources, batch_rows=250)} == {15}
    assert check_parity(model, runner, sources, START, EOS).same_tokens == len(sources)
    calibrate(encoder, decoder, sources, "minmax", max_positions=16, **ids)


def test_a_model_that_amplifies_rounding_is_as_near_to_float64_as_pytorch_is() -> None:
    model = random_model(encoder_layers=3, decoder_layers=3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter *= 4 if parameter.dim() == 2 and "embedding" not in name else 1
    runner = make_runner(export_encoder(model), export_decoder(model, 1))
    sources = random_rows(200, 15, VOCABULARY)
    parity = check_parity(model, runner, sources, START, EOS)
    assert parity.largest_logit_difference > MAX_LOGIT_DIFFERENCE
    forced = runner.forced
    runner.forced = lambda *rows: [logits + 0.05 for logits in forced(*rows)]  # type: ignore[method-assign]
    with pytest.raises(GateError, match=r"float64 by 5\.\d+e-02, more than 4 times PyTorch's"):
        check_parity(model, runner, sources, START, EOS)


@pytest.mark.parametrize("beams", [2, 5])
def test_beams_of_a_sentence_share_its_source_and_nothing_else(beams: int) -> None:
    model = random_model()
    wide = make_runner(graph_of(0), with_beam_width(graph_of(EXPORTED_WIDTH), beams), beams)
    sources = random_rows(4, 10, VOCABULARY)
    targets = random_rows(4 * beams, 6, VOCABULARY, seed=1)
    for row, logits in enumerate(wide.forced(sources, targets)):
        expected = torch_logits(model, sources[row // beams], targets[row])
        np.testing.assert_allclose(logits, expected, atol=1e-4)


def watched(encoder: onnx.ModelProto, rows: list[list[int]]) -> dict[str, NDArray[np.float32]]:
    """Run an encoder on sentences of any lengths; the input of every product by name."""
    names = [product.input for product in find_products(encoder.graph, GraphIndex(encoder.graph))]
    encoder = copy.deepcopy(encoder)
    for name in dict.fromkeys(names):
        encoder.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    outputs = make_runner(encoder, graph_of(1)).encode(rows)
    return {name: outputs[name] for name in names}


def test_padding_is_not_multiplied() -> None:
    rows = [[5, 6, 7, 8, 9], [10], [11, 12, 13]]
    seen = watched(graph_of(0), rows)
    assert {(values.ndim, len(values)) for values in seen.values()} == {(2, 9)}


def test_calibration_sees_every_real_token_of_the_encoder_once() -> None:
    rows, full = random_rows(30, 12, VOCABULARY), graph_of(0)
    ranges = calibrate(full, graph_of(1), rows, "minmax", start_id=START, eos_id=EOS, pad_id=PAD).encoder
    alone = [watched(full, [row]) for row in rows[:6]]
    alone += [watched(full, rows[6:])]
    products = find_products(full.graph, GraphIndex(full.graph))
    for product, interval in zip(products, ranges, strict=True):
        values = np.concatenate([seen[product.input].ravel() for seen in alone])
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-5)


def test_names_shapes_and_types_are_the_contract() -> None:
    model = random_model(decoder_layers=1)
    encoder, decoder = export_encoder(model), export_decoder(model, 3)
    assert [entry.name for entry in encoder.graph.input] == ["input_ids", "lengths"]
    assert [entry.name for entry in encoder.graph.output] == encoder_output_names(1)
    assert [entry.name for entry in decoder.graph.input] == decoder_input_names(1)
    assert [entry.name for entry in decoder.graph.output] == decoder_output_names(1)
    types = {entry.name: entry.type.tensor_type.elem_type for entry in decoder.graph.input}
    assert types["input_ids"] == types["positions"] == onnx.TensorProto.INT64
    for name in ("self_lengths", "self_total", "cross_lengths", "cross_total"):
        assert types[name] == onnx.TensorProto.INT32
    shapes = {
        entry.name: [size.dim_param or size.dim_value for size in entry.type.tensor_type.shape.dim]
        for entry in (*decoder.graph.input, *decoder.graph.output)
    }
    assert shapes["self_total"] == []
    assert shapes["cross_lengths"] == ["sentences"]
    assert shapes["logits"] == ["3*sentences", VOCABULARY]
    assert shapes["self_key_0"] == shapes["self_key_out_0"] == ["3*sentences", 2, "capacity", 24]
    assert shapes["cross_value_0"] == shapes["cross_value_out_0"] == ["sentences", 2, "source", 24]


def test_exporting_changes_neither_the_model_nor_its_mode() -> None:
    model = random_model(decoder_layers=1).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    export_decoder(model, 1, torch.float16)
    assert model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_fp16_encoders_stay_padded_because_a_device_would_have_to_tell_how_many_tokens_there_are() -> None:
    def counts(dtype: torch.dtype) -> int:
        return sum(n.op_type == "NonZero" for n in graph_of(0, dtype).graph.node)

    assert (counts(torch.float32), counts(torch.float16)) == (1, 0)


def test_fp16_graphs_keep_caches_in_fp16_and_logits_in_fp32() -> None:
    model = random_model()
    encoder, decoder = graph_of(0, torch.float16), graph_of(1, torch.float16)
    types = {
        entry.name: entry.type.tensor_type.elem_type
        for entry in (*decoder.graph.input, *decoder.graph.output)
    }
    assert (
        types["self_key_0"]
        == types["cross_key_out_0"]
        == types["cross_last_value_1"]
        == onnx.TensorProto.FLOAT16
    )
    assert types["logits"] == onnx.TensorProto.FLOAT
    weights = [
        tensor for tensor in (*encoder.graph.initializer, *decoder.graph.initializer) if len(tensor.dims) == 2
    ]
    assert weights
    assert {tensor.data_type for tensor in weights} == {onnx.TensorProto.FLOAT16}
    runner = make_runner(encoder, decoder)
    sources, targets = random_rows(3, 8, VOCABULARY), random_rows(3, 6, VOCABULARY, seed=1)
    for source, target, logits in zip(sources, targets, runner.forced(sources, targets), strict=True):
        np.testing.assert_allclose(logits, torch_logits(model, source, target), atol=0.05)
