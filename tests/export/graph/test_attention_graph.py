"""The graph of attention computes what the model's attention is, and refers to the bundle's weights."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
import torch

from export.assemble import save_all_graphs
from export.graph.attention_graph import export_attention
from export.graph.onnx_export import export_decoder, export_encoder
from export.graph.runner import open_session
from export.graph.stored_weights import save_beside
from export.int8.calibration import calibrate
from export.int8.quantize import quantize_graph
from export.text_measures.attention import Links, choose
from model.config import TransformerConfig
from model.evaluation.attention_maps import cross_attention
from model.transformer import Transformer
from tests.export.small_model import IDS, SAMPLE, SOURCES, TARGETS

Mixer = Literal["attention", "ssru"]


def transformer(mixer: Mixer = "attention") -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(
        source_vocab_size=40,
        target_vocab_size=40,
        d_model=64,
        encoder_layers=1,
        decoder_layers=2,
        decoder_mixer=mixer,
    )
    return Transformer(config).eval()


@functools.cache
def graphs(mixer: Mixer = "attention") -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Encoder and decoder, exported once: that takes seconds."""
    return export_encoder(transformer(mixer)), export_decoder(transformer(mixer), 1)


@pytest.fixture(scope="module")
def model() -> Transformer:
    return transformer()


def run(folder: Path, source: list[int], target: list[int]) -> np.ndarray:
    """Run the written graphs on one sentence, padded by two tokens on both sides."""
    encoder, graph = open_session(folder / "encoder.onnx"), open_session(folder / "align.onnx")
    lengths = np.array([len(source)], np.int32)
    names = [entry.name for entry in encoder.get_outputs()]
    outputs = encoder.run(None, {"input_ids": np.array([[*source, 0, 0]]), "lengths": lengths})
    feeds = dict(zip(names, outputs, strict=True))
    feeds |= {"target_ids": np.array([[IDS["start_id"], *target, 0, 0]]), "lengths": lengths}
    needed = [entry.name for entry in graph.get_inputs()]
    (weights,) = graph.run(["attention"], {name: feeds[name] for name in needed})
    return weights[0, : len(target) + 1]


@pytest.mark.parametrize(
    ("layer", "heads", "mixer"),
    [
        (0, (1,), "attention"),
        (1, (0, 2), "attention"),
        (1, (0, 1, 2, 3), "attention"),
        (1, (0, 1, 2, 3), "ssru"),
    ],
)
def test_it_is_the_attention_of_the_chosen_heads(
    tmp_path: Path, layer: int, heads: tuple[int, ...], mixer: Mixer
) -> None:
    model = transformer(mixer)
    encoder, decoder = graphs(mixer)
    save_all_graphs(tmp_path, encoder, {1: decoder}, {})
    graph = export_attention(model, layer, heads, [None] * 4)
    save_beside(graph, tmp_path / "align.onnx", [tmp_path / "decoder.onnx", tmp_path / "encoder.onnx"])
    for source, target in zip(SOURCES, TARGETS, strict=True):
        ids = torch.tensor([source]), torch.tensor([[IDS["start_id"], *target]])
        wanted = cross_attention(model, *ids)[layer, list(heads)].mean(dim=0).numpy()
        found = run(tmp_path, source, target)
        assert np.allclose(found[:, : len(source)], wanted, atol=1e-5)
        assert not found[:, len(source) :].any()  # padding is never looked at
    tensors = onnx.load(tmp_path / "align.onnx", load_external_data=False).graph.initializer
    inside = [tensor.name for tensor in tensors if tensor.data_location != onnx.TensorProto.EXTERNAL]
    sizes = {tensor.name: np.prod(tensor.dims) for tensor in tensors}
    assert all(sizes[name] < 1024 for name in inside)


def test_an_int8_bundle_is_computed_with_its_own_integers(model: Transformer, tmp_path: Path) -> None:
    encoder, decoder = graphs()
    ranges = calibrate(encoder, decoder, SAMPLE, "minmax", **IDS)
    small = (
        quantize_graph(encoder, ranges.encoder, 8, ranges.caches),
        quantize_graph(decoder, ranges.decoder, 8, ranges.caches),
    )
    save_all_graphs(tmp_path, small[0], {1: small[1]}, {})
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in small[1].graph.initializer}
    scales = [stored.get(f"cross_{part}_{layer}.scale") for layer in range(2) for part in ("key", "value")]
    graph = export_attention(model, 1, (0, 1, 2, 3), scales)
    save_beside(graph, tmp_path / "align.onnx", [tmp_path / "decoder.onnx", tmp_path / "encoder.onnx"])
    nodes = [node.op_type for node in onnx.load(tmp_path / "align.onnx", load_external_data=False).graph.node]
    assert nodes.count("MatMulIntegerToFloat") == 3 + 3 + 3  # the second layer's attention is the end
    for source, target in zip(SOURCES, TARGETS, strict=True):
        ids = torch.tensor([source]), torch.tensor([[IDS["start_id"], *target]])
        wanted = cross_attention(model, *ids)[1].mean(dim=0).numpy()
        assert np.allclose(run(tmp_path, source, target)[:, : len(source)], wanted, atol=0.03)


def test_the_layer_head_and_step_that_link_as_the_lexicon_are_chosen(model: Transformer) -> None:
    """A lexicon that links just as one head looks, in the step that reads a token."""
    found = []
    for source, target in zip(SOURCES, TARGETS, strict=True):
        ids = torch.tensor([source]), torch.tensor([[IDS["start_id"], *target]])
        weights = cross_attention(model, *ids)[1, 2, 1:, :-1].numpy()
        pairs = np.stack([weights.argmax(axis=1), np.arange(len(target))], axis=1)
        found.append(Links(source, target, pairs, (len(source) - 1,)))
    best = choose(model, found, IDS["start_id"])
    assert (best.layer, best.heads, best.shift, best.agreement) == (1, (2,), 1, 1.0)
