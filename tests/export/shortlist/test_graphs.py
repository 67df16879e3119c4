"""A decoder over bound columns computes the very bits of the whole one, at any number of columns and rows."""

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from export.graph.runner import open_session
from export.shortlist.graphs import (
    COLUMN_INPUTS,
    ShortlistError,
    column_graph,
    with_bound_columns,
)

WIDTH, VOCABULARY = 32, 700
DRAW = np.random.default_rng(0)


def decoder(bias: bool = True, operator: str = "MatMulIntegerToFloat") -> onnx.ModelProto:
    """The end of an int8 decoder, and another product before it."""
    constants: dict[str, NDArray[np.generic]] = {
        "scale": np.float32(0.05),
        "zero": np.uint8(120),
        "w0": DRAW.integers(-63, 64, (WIDTH, WIDTH)).astype(np.int8),
        "s0": DRAW.random(WIDTH).astype(np.float32),
        "w1": DRAW.integers(-63, 64, (WIDTH, VOCABULARY)).astype(np.int8),
        "s1": DRAW.random(VOCABULARY).astype(np.float32),
        "b1": DRAW.standard_normal(VOCABULARY).astype(np.float32),
    }
    last = ["q1", "w1", "scale", "s1", "zero", *(["", "b1"] if bias else [])]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q0"]),
        helper.make_node(
            "MatMulIntegerToFloat", ["q0", "w0", "scale", "s0", "zero"], ["h"], domain="com.microsoft"
        ),
        helper.make_node("QuantizeLinear", ["h", "scale", "zero"], ["q1"]),
        helper.make_node("MatMulIntegerToFloat", last, ["logits"], domain="com.microsoft"),
    ]
    if operator != "MatMulIntegerToFloat":
        nodes = [helper.make_node(operator, ["x"], ["logits"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["R", WIDTH])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["R", VOCABULARY])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 7, 33])
@pytest.mark.parametrize("count", [1, 3, 64, 321])
def test_columns_have_the_same_bits_bound_or_built_in(bias: bool, rows: int, count: int) -> None:
    whole = decoder(bias)
    sessions = [
        open_session(model.SerializeToString())
        for model in (whole, with_bound_columns(whole), column_graph(whole))
    ]
    x = DRAW.standard_normal((rows, WIDTH)).astype(np.float32) * 3
    ids = DRAW.permutation(VOCABULARY)[:count]
    weights, scales, biases = sessions[2].run(list(COLUMN_INPUTS), {"ids": ids})
    assert weights.shape == (WIDTH, count)
    bound = dict(zip(COLUMN_INPUTS, (weights, scales, biases), strict=True))
    (logits,) = sessions[1].run(["logits"], {"x": x, **bound})
    (expected,) = sessions[0].run(["logits"], {"x": x})
    assert (logits == expected[:, ids]).all()


def test_a_column_of_minus_infinity_stays_so() -> None:
    session = open_session(with_bound_columns(decoder()).SerializeToString())
    bound = {
        "column_weights": np.zeros((WIDTH, 64), np.int8),
        "column_scales": np.ones(64, np.float32),
        "column_biases": np.full(64, -np.inf, np.float32),
    }
    x = DRAW.standard_normal((5, WIDTH)).astype(np.float32)
    (logits,) = session.run(["logits"], {"x": x, **bound})
    assert (logits == -np.inf).all()


def test_the_weights_of_the_whole_vocabulary_are_gone_and_the_others_stay() -> None:
    whole = decoder()
    bound = with_bound_columns(whole)
    assert {tensor.name for tensor in bound.graph.initializer} == {"scale", "zero", "w0", "s0"}
    assert [entry.name for entry in bound.graph.input] == ["x", *COLUMN_INPUTS]
    assert [entry.name for entry in bound.graph.output] == ["logits"]
    assert (len(whole.graph.input), len(whole.graph.output)) == (1, 1)
    onnx.checker.check_model(column_graph(whole))


def test_other_precisions_are_refused() -> None:
    floating = decoder(operator="Relu")
    for make in (with_bound_columns, column_graph):
        with pytest.raises(ShortlistError, match="needs precision int8: the logits come from Relu"):
            make(floating)
