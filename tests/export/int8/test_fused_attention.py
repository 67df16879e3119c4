"""An encoder whose attention computes its product itself, against the same with a product of its own."""

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

import export.int8.quantize
from export.graph.onnx_export import export_decoder, export_encoder
from export.graph.products import FUSED_PRODUCT, INTEGER_PRODUCT
from export.graph.runner import open_session
from export.int8.calibration import CalibratedRanges, calibrate
from export.int8.fused_attention import fuse_attention
from export.int8.quantize import quantize_graph
from model.config import TransformerConfig
from model.transformer import Transformer

LAYERS = 2
SAMPLE = [[*np.random.default_rng(i).integers(4, 40, 2 + i % 9).tolist(), 3] for i in range(60)]


@pytest.fixture(scope="module", params=["with biases", "without", "with norms behind, as Marian's"])
def exported(request) -> tuple[onnx.ModelProto, CalibratedRanges]:
    torch.manual_seed(0)
    behind = {"norm": "post", "final_norm": False} if "behind" in request.param else {}
    config = TransformerConfig(
        source_vocab_size=40,
        target_vocab_size=40,
        d_model=64,
        encoder_layers=LAYERS,
        decoder_layers=1,
        **behind,
    )
    model = Transformer(config).eval()
    if request.param != "without":
        for name, bias in model.named_parameters():
            if name.endswith(".bias"):
                torch.nn.init.normal_(bias)
    encoder = export_encoder(model)
    ids = {"start_id": 2, "eos_id": 3, "pad_id": 0}
    return encoder, calibrate(encoder, export_decoder(model, 1), SAMPLE, "minmax", **ids)


@pytest.fixture
def apart(exported, monkeypatch: pytest.MonkeyPatch) -> onnx.ModelProto:
    """The int8 encoder with products of their own."""
    encoder, ranges = exported
    with monkeypatch.context() as patch:
        patch.setattr(export.int8.quantize, "fuse_attention", lambda graph: None)
        return quantize_graph(encoder, ranges.encoder, 7, ranges.caches)


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_bits_are_the_same_for_all_lengths(exported, apart: onnx.ModelProto) -> None:
    encoder, ranges = exported
    fused = quantize_graph(encoder, ranges.encoder, 7, ranges.caches)
    onnx.checker.check_model(fused)
    assert operators(fused).count(FUSED_PRODUCT) == LAYERS == operators(apart).count("MultiHeadAttention")
    assert operators(fused).count(INTEGER_PRODUCT) == operators(apart).count(INTEGER_PRODUCT) - LAYERS
    assert not {"MultiHeadAttention", "GroupQueryAttention"} & set(operators(fused))
    one, other = (open_session(model.SerializeToString()) for model in (fused, apart))
    draw = np.random.default_rng(1)
    for sentences, longest in ((1, 1), (1, 9), (3, 4), (7, 30), (2, 200)):
        lengths = draw.integers(1, longest + 1, sentences).astype(np.int32)
        lengths[draw.integers(sentences)] = longest
        ids = draw.integers(4, 40, (sentences, longest))
        ids[np.arange(longest) >= lengths[:, None]] = 0
        for ours, theirs in zip(
            one.run(None, {"input_ids": ids, "lengths": lengths}),
            other.run(None, {"input_ids": ids, "lengths": lengths}),
            strict=True,
        ):
            assert ours.any()
            assert (ours == theirs).all()


def test_another_reader_of_the_product_keeps_it(apart: onnx.ModelProto) -> None:
    split = next(node for node in apart.graph.node if node.op_type == "Split")
    watched = helper.make_node("Identity", [split.input[0]], ["watched"])
    apart.graph.node.append(watched)
    before = operators(apart)
    fuse_attention(apart.graph)
    assert operators(apart).count("MultiHeadAttention") == 1
    assert operators(apart).count(FUSED_PRODUCT) == before.count("MultiHeadAttention") - 1


def test_weights_are_the_same_tensors(exported, apart: onnx.ModelProto) -> None:
    encoder, ranges = exported
    fused = quantize_graph(encoder, ranges.encoder, 7, ranges.caches)
    ours, theirs = (
        {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        for model in (fused, apart)
    )
    assert theirs.keys() <= ours.keys()
    assert all((ours[name] == theirs[name]).all() for name in theirs)
    assert all(not ours[name].any() for name in ours.keys() - theirs.keys())  # biases of zeros
