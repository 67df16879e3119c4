"""Decoders that write their caches themselves against the same decoders that leave it to attention."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.graph.cache_names import updated_cache, written_cache
from export.graph.runner import GraphRunner, open_session
from export.int8.cache_writes import OPSET, with_own_writes
from export.int8.quantize import quantize_graph
from tests.export.small_model import IDS, SOURCES, TARGETS, SmallModel

CACHES = [f"self_{part}_{layer}" for layer in (0, 1) for part in ("key", "value")]


@pytest.fixture(scope="module", params=[1, 2])
def pair(
    request: pytest.FixtureRequest, small: SmallModel
) -> tuple[bytes, onnx.ModelProto, onnx.ModelProto, int]:
    ranges = small.ranges
    encoder = quantize_graph(small.encoder, ranges.encoder, 8, ranges.caches).SerializeToString()
    decoder = quantize_graph(small.decoders[request.param], ranges.decoder, 8, ranges.caches)
    return encoder, decoder, with_own_writes(decoder), request.param


def feeds_of(session: onnxruntime.InferenceSession, lengths: list[int], width: int) -> dict[str, np.ndarray]:
    """A step of some rows that have so many positions behind them, and numbers to be told apart elsewhere."""
    draw, rows, sentences = np.random.default_rng(1), len(lengths), len(lengths) // width
    feeds = {
        "input_ids": draw.integers(4, 40, (rows, 1)),
        "positions": np.full((rows, 1), 3),  # not what says where the new position is written
        "self_lengths": np.array(lengths, np.int32),
        "self_total": np.array(max(lengths) + 1, np.int32),
        "cross_lengths": np.full(sentences, 4, np.int32),
        "cross_total": np.array(5, np.int32),
    }
    for entry in session.get_inputs():
        if entry.name not in feeds:
            shape = (
                (rows, entry.shape[1], 16, 8) if "self" in entry.name else (sentences, entry.shape[1], 5, 8)
            )
            feeds[entry.name] = draw.integers(-90, 90, shape).astype(np.int8)
    return feeds


def test_a_step_has_the_same_bits(pair) -> None:
    _, before, after, width = pair
    onnx.checker.check_model(after)
    sessions = [open_session(model.SerializeToString()) for model in (before, after)]
    lengths = [0, 7, 15, 3]
    feeds = feeds_of(sessions[0], lengths, width)
    appended = sessions[0].run(["logits", *map(updated_cache, CACHES)], feeds)
    logits, *written = sessions[1].run(["logits", *map(written_cache, CACHES)], feeds)
    np.testing.assert_array_equal(logits, appended[0])
    for name, here, there in zip(CACHES, written, appended[1:], strict=True):
        for row, length in enumerate(lengths):
            np.testing.assert_array_equal(here[row, :, length], there[row, :, length])
        changed = (here != feeds[name]).any(axis=(1, 3))
        assert [np.flatnonzero(row).tolist() for row in changed] == [[length] for length in lengths]


def test_known_targets_have_the_same_scores(pair) -> None:
    encoder, before, after, width = pair
    runners = [
        GraphRunner(encoder, model.SerializeToString(), beam_width=width, **IDS) for model in (before, after)
    ]
    one, other = (runner.forced(SOURCES, TARGETS * width) for runner in runners)
    for appended, written in zip(one, other, strict=True):
        np.testing.assert_array_equal(appended, written)


def test_in_place_only_the_new_position_is_written(pair) -> None:
    """Where all is the same memory; the address past a short cache is another's."""
    _, _, after, width = pair
    session = open_session(after.SerializeToString())
    feeds = feeds_of(session, [2, 5], width)
    before = {name: feeds[name].copy() for name in feeds}
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("logits")
    for name in CACHES:
        array = feeds[name]
        for output in (updated_cache(name), written_cache(name)):
            binding.bind_output(output, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    session.run_with_iobinding(binding)
    for name in CACHES:
        changed = (feeds[name] != before[name]).any(axis=(1, 3))
        assert [np.flatnonzero(row).tolist() for row in changed] == [[n] for n in feeds["self_lengths"]]


def test_the_graph_says_what_it_needs(pair) -> None:
    _, before, after, _ = pair
    assert {entry.domain: entry.version for entry in after.opset_import}[""] == OPSET
    inputs, outputs = ({entry.name for entry in side} for side in (after.graph.input, after.graph.output))
    assert inputs == {entry.name for entry in before.graph.input}
    assert outputs - {entry.name for entry in before.graph.output} == set(map(written_cache, CACHES))
    queries = [node for node in after.graph.node if node.op_type == "GroupQueryAttention"]
    assert all(node.input[1] for node in queries), "nothing is appended by attention"


def test_decoders_of_floats_stay_as_they_are(small: SmallModel) -> None:
    assert with_own_writes(small.decoders[1]) is small.decoders[1]
    floats = quantize_graph(small.decoders[1], small.ranges.decoder, 8, None)
    assert with_own_writes(floats) is floats


def test_attention_rounds_as_quantizelinear_does() -> None:
    """Halves to the even number, what is too large to the largest: without this multi_step had other bits."""
    heads, size = 2, 8
    width = heads * size
    halves = np.arange(-140, 140, 0.5, dtype=np.float32)
    near = [np.nextafter(halves, np.float32(towards)) for towards in (-999, 999)]
    values = np.resize(np.concatenate([halves, *near]), (60, 1, 2 * width))
    rows = len(values)
    float_input = helper.make_tensor_value_info("packed", TensorProto.FLOAT, [rows, 1, 3 * width])
    caches = [
        helper.make_tensor_value_info(name, TensorProto.INT8, [rows, heads, 1, size])
        for name in ("key", "value", "key_out", "value_out")
    ]
    lengths = helper.make_tensor_value_info("lengths", TensorProto.INT32, [rows])
    total = helper.make_tensor_value_info("total", TensorProto.INT32, [])
    inputs = ["packed", "", "", "key", "value", "lengths", "total", *[""] * 5, "one", "one"]
    kinds = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
    attention = helper.make_node(
        "GroupQueryAttention",
        inputs,
        ["context", "key_out", "value_out"],
        domain="com.microsoft",
        num_heads=heads,
        kv_num_heads=heads,
        **kinds,
    )
    quantize = helper.make_node("QuantizeLinear", ["packed", "unit", "zero"], ["quantized"])
    graph = helper.make_graph(
        [attention, quantize],
        "both",
        [float_input, *caches[:2], lengths, total],
        [*caches[2:], helper.make_tensor_value_info("quantized", TensorProto.INT8, [rows, 1, 3 * width])],
        [
            numpy_helper.from_array(np.ones(1, np.float32), "one"),
            numpy_helper.from_array(np.ones((), np.float32), "unit"),
            numpy_helper.from_array(np.zeros((), np.int8), "zero"),
        ],
    )
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    session = open_session(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())
    none = np.zeros((rows, heads, 1, size), np.int8)
    feeds = {"packed": np.concatenate([np.zeros((rows, 1, width), np.float32), values], axis=2)}
    feeds |= {"key": none, "value": none}
    feeds |= {"lengths": np.zeros(rows, np.int32), "total": np.array(1, np.int32)}
    key, value, quantized = session.run(["key_out", "value_out", "quantized"], feeds)
    np.testing.assert_array_equal(key.reshape(rows, width), quantized[:, 0, width : 2 * width])
    np.testing.assert_array_equal(value.reshape(rows, width), quantized[:, 0, 2 * width :])
    assert quantized.min() == -128 and quantized.max() == 127
