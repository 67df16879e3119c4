"""int8 caches against the same graphs with fp32 caches, on a small model of random weights."""

import numpy as np
import onnx
import pytest

from export.graph.runner import GraphRunner, open_session
from export.int8.calibration import CalibratedRanges, packed_projections
from export.int8.quantize import quantize_graph
from export.int8.quantized_caches import quantize_caches
from tests.export.small_model import IDS, SOURCES, TARGETS, SmallModel

HEADROOM = 2
Graphs = tuple[onnx.ModelProto, dict[int, onnx.ModelProto], CalibratedRanges]


@pytest.fixture
def graphs(small: SmallModel) -> Graphs:
    return small.encoder, small.decoders, small.ranges


def widened(ranges: CalibratedRanges) -> dict[str, np.ndarray]:
    # The sample shows the tokens that a random model chooses, a handful; the tests feed others.
    return {name: largest * HEADROOM for name, largest in ranges.caches.items()}


def int8_encoder(model: onnx.ModelProto, ranges: CalibratedRanges) -> bytes:
    return quantize_graph(model, ranges.encoder, 7, widened(ranges)).SerializeToString()


def with_int8_caches(model: onnx.ModelProto, ranges: CalibratedRanges) -> bytes:
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    quantize_caches(changed.graph, widened(ranges))
    onnx.checker.check_model(changed)
    return changed.SerializeToString()


def test_every_channel_of_every_cache_is_calibrated(graphs) -> None:
    _, decoders, ranges = graphs
    names = {f"{kind}_{part}_{i}" for kind in ("self", "cross") for part in ("key", "value") for i in (0, 1)}
    assert ranges.caches.keys() == names
    assert all(largest.shape == (32,) and (largest > 0).all() for largest in ranges.caches.values())
    assert sorted(packed_projections(decoders[1].graph).values()) == [0, 1]


@pytest.mark.parametrize("width", [1, 2])
def test_scores_stay_close_and_inputs_keep_their_names(graphs, width: int) -> None:
    encoder, decoders, ranges = graphs
    full = GraphRunner(
        encoder.SerializeToString(), decoders[width].SerializeToString(), beam_width=width, **IDS
    )
    small = GraphRunner(
        int8_encoder(encoder, ranges), with_int8_caches(decoders[width], ranges), beam_width=width, **IDS
    )
    pairs = zip(full.forced(SOURCES, TARGETS * width), small.forced(SOURCES, TARGETS * width), strict=True)
    differences = [np.abs(exact - near).max() / np.abs(exact).max() for exact, near in pairs]
    assert 0 < max(differences) < 0.05


def test_a_sentence_has_the_same_bits_alone_and_among_others(graphs) -> None:
    encoder, decoders, ranges = graphs
    small = GraphRunner(int8_encoder(encoder, ranges), with_int8_caches(decoders[1], ranges), **IDS)
    together = small.forced(SOURCES, TARGETS)
    for source, target, scores in zip(SOURCES, TARGETS, together, strict=True):
        assert (small.forced([source], [target])[0] == scores).all()


def test_keys_and_values_are_quantised_once_and_scaled_by_their_product(graphs) -> None:
    encoder, _, ranges = graphs
    whole = quantize_graph(encoder, ranges.encoder, 7, ranges.caches)
    onnx.checker.check_model(whole)
    full, small = (open_session(model.SerializeToString()) for model in (encoder, whole))
    made_by = {name: node for node in whole.graph.node for name in node.output}
    split = next(node for node in whole.graph.node if node.op_type == "Split")
    product = made_by[made_by[split.input[0]].input[0]]
    assert (made_by[split.input[0]].op_type, product.op_type) == ("QuantizeLinear", "MatMulIntegerToFloat")
    feeds = {"input_ids": np.array([SOURCES[2]]), "lengths": np.array([9], np.int32)}
    for entry, floats, integers in zip(
        full.get_outputs(), full.run(None, feeds), small.run(None, feeds), strict=True
    ):
        assert integers.dtype == np.int8
        unit = ranges.caches[entry.name].reshape(4, 1, 8) * 1.2 / 127
        inside = np.abs(floats) < 126 * unit
        assert inside.mean() > 0.9
        assert np.abs(integers * unit - floats)[inside].max() < 0.05 * np.abs(floats).max()


def test_products_and_caches_together(graphs) -> None:
    _, decoders, ranges = graphs
    whole = quantize_graph(decoders[1], ranges.decoder, 7, ranges.caches)
    onnx.checker.check_model(whole)
    inputs = {value.name: value.type.tensor_type.elem_type for value in whole.graph.input}
    assert inputs["self_key_0"] == inputs["cross_value_1"] == onnx.TensorProto.INT8
    kinds = {
        (node.input[3], attribute.s)
        for node in whole.graph.node
        for attribute in node.attribute
        if attribute.name == "k_quant_type"
    }
    own = {(f"self_key_{i}", b"PER_TENSOR") for i in (0, 1)}
    assert kinds == own | {(f"cross_key_{i}", b"PER_CHANNEL") for i in (0, 1)}
    again = quantize_graph(decoders[1], ranges.decoder, 7, ranges.caches)
    assert again.SerializeToString() == whole.SerializeToString()


def test_units_change_nothing_but_roundings(graphs) -> None:
    encoder, decoders, ranges = graphs
    wide = widened(ranges)
    kept = {name: largest for name, largest in wide.items() if name.startswith("cross_")}
    models = [quantize_graph(decoders[1], ranges.decoder, 8, caches) for caches in (kept, wide)]
    floats, integers = (
        GraphRunner(int8_encoder(encoder, ranges), model.SerializeToString(), **IDS) for model in models
    )
    pairs = zip(floats.forced(SOURCES, TARGETS), integers.forced(SOURCES, TARGETS), strict=True)
    differences = [np.abs(exact - near).max() / np.abs(exact).max() for exact, near in pairs]
    assert 0 < max(differences) < 0.05


def test_a_channel_that_is_always_zero_stays_a_number(graphs) -> None:
    encoder, decoders, ranges = graphs
    caches = {name: largest.copy() for name, largest in ranges.caches.items()}
    caches["self_key_0"][3] = caches["self_value_1"][5] = 0
    model = quantize_graph(decoders[1], ranges.decoder, 8, caches)
    runner = GraphRunner(int8_encoder(encoder, ranges), model.SerializeToString(), **IDS)
    assert all(np.isfinite(scores).all() for scores in runner.forced(SOURCES, [[6, 7], [30], [11], [13]]))
