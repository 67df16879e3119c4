"""int8 graphs compute exactly the integers that numpy says, and share what can be shared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from export.graph.products import GraphIndex, find_products
from export.graph.runner import open_session
from export.int8.calibration import choose_range, hash_sample
from export.int8.quantize import ActivationRange, quantize_columns, quantize_graph

DRAW = np.random.default_rng(0)


def graph(
    nodes: list[onnx.NodeProto],
    weights: dict[str, NDArray[np.generic]],
    outputs: Sequence[str] = ("y",),
    kind: int = TensorProto.FLOAT,
    columns: int = 16,
) -> onnx.ModelProto:
    """Wrap nodes from ``x`` [rows, columns] to float outputs."""
    inputs = [helper.make_tensor_value_info("x", kind, ["rows", columns])]
    made_outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    made = helper.make_graph(nodes, "g", inputs, made_outputs, tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def weights(*shape: int) -> NDArray[np.float32]:
    return DRAW.standard_normal(shape).astype(np.float32)


def run(model: onnx.ModelProto, x: NDArray[np.generic]) -> list[NDArray[np.float32]]:
    name = model.graph.input[0].name
    result: list[NDArray[np.float32]] = open_session(model.SerializeToString()).run(None, {name: x})
    return result


def by_hand(
    x: NDArray[np.float32], weight: NDArray[np.float32], interval: ActivationRange, bits: int
) -> NDArray[np.float64]:
    """``x @ weight`` in integers, the slow way."""
    zero = int(interval.zero_point)
    steps = np.clip(np.rint(x / interval.scale) + zero, 0, 255).astype(np.int64) - zero
    values, scales = quantize_columns(weight, bits)
    result: NDArray[np.float64] = (steps @ values.astype(np.int64)) * float(interval.scale) * scales
    return result


@pytest.mark.parametrize("bits", [7, 8])
@pytest.mark.parametrize(
    "interval", [ActivationRange(-2.5, 3.0), ActivationRange(0.0, 2.0), ActivationRange(-1, 0)]
)
def test_a_product_equals_integer_arithmetic(bits: int, interval: ActivationRange) -> None:
    weight, bias, x = weights(16, 9), weights(9), weights(5, 16)
    if (
        bits == 8
    ):  # up to 128 of 255 steps: without VNNI two products are added in 16 bits, 2 * 128 * 127 < 2**15
        x = np.minimum(x, np.float32((interval.low + interval.high) / 2))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
    quantized = quantize_graph(graph(nodes, {"w": weight, "b": bias}), [interval], bits)
    assert [node.op_type for node in quantized.graph.node] == ["QuantizeLinear", "MatMulIntegerToFloat"]
    np.testing.assert_allclose(run(quantized, x)[0], by_hand(x, weight, interval, bits) + bias, atol=1e-5)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("with_bias", [False, True])
def test_gemm_is_a_product_too(transposed: int, with_bias: bool) -> None:
    weight, bias, x = weights(16, 9), weights(9), weights(5, 16)
    stored = np.ascontiguousarray(weight.T) if transposed else weight
    inputs = ["x", "w", "b"] if with_bias else ["x", "w"]
    nodes = [helper.make_node("Gemm", inputs, ["y"], transB=transposed)]
    model = graph(nodes, {"w": stored, "b": bias} if with_bias else {"w": stored})
    interval = ActivationRange(-3, 3)
    expected = by_hand(x, weight, interval, 7) + (bias if with_bias else 0)
    np.testing.assert_allclose(run(quantize_graph(model, [interval], 7), x)[0], expected, atol=1e-5)


def test_gemm_that_scales_is_refused() -> None:
    model = graph([helper.make_node("Gemm", ["x", "w"], ["y"], alpha=2.0)], {"w": weights(16, 4)})
    with pytest.raises(ValueError, match="alpha"):
        find_products(model.graph, GraphIndex(model.graph))


def test_products_of_one_input_share_its_quantisation() -> None:
    nodes = [helper.make_node("MatMul", ["x", name], [f"y{name}"]) for name in "abc"]
    model = graph(nodes, {name: weights(16, 4) for name in "abc"}, outputs=["ya", "yb", "yc"])
    quantized = quantize_graph(model, [ActivationRange(-3, 3)] * 3, 7)
    assert [node.op_type for node in quantized.graph.node].count("QuantizeLinear") == 1


@pytest.mark.parametrize(("low", "kept"), [(0.0, False), (-0.5, True)])
def test_relu_goes_when_quantising_clips_at_zero_anyway(low: float, kept: bool) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    first, second, x = weights(16, 8), weights(8, 4), weights(6, 16)
    ranges = [ActivationRange(-3, 3), ActivationRange(low, 9.0)]
    quantized = quantize_graph(graph(nodes, {"w": first, "v": second}), ranges, 7)
    assert ("Relu" in [node.op_type for node in quantized.graph.node]) == kept
    hidden = np.maximum(by_hand(x, first, ranges[0], 7), 0).astype(np.float32)
    np.testing.assert_allclose(run(quantized, x)[0], by_hand(hidden, second, ranges[1], 7), atol=1e-4)


def test_relu_stays_when_something_else_reads_it() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
        helper.make_node("Neg", ["r"], ["z"]),
    ]
    model = graph(nodes, {"w": weights(16, 4)}, outputs=["y", "z"])
    quantized = quantize_graph(model, [ActivationRange(0, 3)], 8)
    assert "Relu" in [node.op_type for node in quantized.graph.node]


def test_embeddings_become_rows_of_int8_with_the_factor_folded_in() -> None:
    table = weights(30, 16) * np.linspace(0.1, 4, 30, dtype=np.float32)[:, None]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["e"]),
        helper.make_node("Mul", ["e", "four"], ["y"]),
    ]
    model = graph(
        nodes, {"table": table, "four": np.array(4.0, np.float32)}, kind=TensorProto.INT64, columns=1
    )
    model.graph.input[0].name = "input_ids"
    quantized = quantize_graph(model, [], 7)
    ids = np.arange(30)[:, None]
    error = np.abs(run(quantized, ids)[0][:, 0] - 4 * table)
    assert (error <= 4 * np.abs(table).max(axis=1, keepdims=True) / 127 * 0.51).all()
    stored = {tensor.data_type for tensor in quantized.graph.initializer if tensor.dims[-1:] == [16]}
    assert stored == {TensorProto.INT8}


def test_a_product_of_two_activations_stays() -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    assert [node.op_type for node in quantize_graph(graph(nodes, {}), [], 8).graph.node] == [
        "Transpose",
        "MatMul",
    ]


def test_ranges_must_fit_the_products() -> None:
    model = graph([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weights(16, 4)})
    with pytest.raises(ValueError, match="1 products, but ranges for 2"):
        quantize_graph(model, [ActivationRange(0, 1)] * 2, 8)


def test_seven_bits_never_saturate_16_bit_sums() -> None:
    values, _ = quantize_columns(weights(200, 50), 7)
    assert np.abs(values.astype(int)).max() == 63
    assert 2 * 255 * 63 < 2**15 <= 2 * 255 * 127


def test_a_column_of_zeros_stays_zero() -> None:
    values, scales = quantize_columns(np.zeros((4, 2), np.float32), 8)
    assert not values.any()
    assert np.isfinite(scales).all()


@given(st.floats(-100, 100, width=32), st.floats(-100, 100, width=32))
def test_zero_is_always_exact(low: float, high: float) -> None:
    interval = ActivationRange(min(low, high), max(low, high))
    assert interval.scale > 0
    assert 0 <= interval.zero_point <= 255


def test_range_methods() -> None:
    values = DRAW.standard_normal(50_000).astype(np.float32)
    assert choose_range(values, -8.0, 60.0, "minmax") == ActivationRange(-8.0, 60.0)
    percentile = choose_range(values, -8.0, 60.0, "percentile")
    squares = choose_range(values, -8.0, 60.0, "mse")
    for interval in (percentile, squares):
        assert -6 < interval.low < -3
        assert 3 < interval.high < 6
    assert choose_range(np.zeros(0, np.float32), 0.0, 0.0, "mse").scale == 1.0


def test_least_squares_keeps_an_outlier_that_is_worth_it() -> None:
    values = np.concatenate([DRAW.standard_normal(5_000), np.full(50, 60.0)]).astype(np.float32)
    assert choose_range(values, float(values.min()), 60.0, "mse").high > 55


def test_relu_outputs_get_zero_point_0() -> None:
    values = np.maximum(DRAW.standard_normal(10_000), 0).astype(np.float32)
    for method in ("minmax", "percentile", "mse"):
        assert choose_range(values, 0.0, float(values.max()), method).zero_point == 0


def test_a_sample_hash_can_be_repeated_with_sha256sum() -> None:
    # printf 'a\nä\n' | sha256sum
    assert hash_sample(["a", "ä"]) == "345afa12b4c5a3441ba45d0ff00fd6b1f39b753e16384b7479699673f67cbb8b"
