"""Graphs for decoding over candidates: a decoder whose projection is an input, and what reads its columns.

An int8 decoder ends in one product with weights [E, V]. With a shortlist the engine binds the C columns that
its sentences need instead: 64 rows of 512 take 0.4 ms with 2,112 bound columns and 6.1 ms with all 32,000
(one core, AVX-512 VNNI). A column's logits are the same bits in both: the sums are integers, and scale and
bias are applied element by element. In floating point that would not hold: the order in which a product sums
up depends on its shape.

A bound column costs twice as much as a constant one, because bound weights are packed at every step. A batch
that needs more than a third of the vocabulary gains nothing, so such tables are refused
(`export.shortlist.build`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.graph.products import (
    BIAS,
    INTEGER_PRODUCT,
    ROW_SCALE,
    ROW_ZERO_POINT,
    SCALE,
    WEIGHT,
    WEIGHT_ZERO_POINT,
)

COLUMN_INPUTS = ("column_weights", "column_scales", "column_biases")
"""Extra inputs of a decoder: int8 [E, C], float32 [C], float32 [C]."""


class ShortlistError(ValueError):
    """A shortlist cannot be made as asked; the message is one line."""


@dataclass(frozen=True)
class _Projection:
    """The last product of a decoder: its node, and its constants."""

    node: onnx.NodeProto
    weight: TensorProto
    scale: TensorProto
    bias: TensorProto | None


def with_bound_columns(decoder: onnx.ModelProto) -> onnx.ModelProto:
    """Copy an int8 decoder with further inputs `COLUMN_INPUTS`; logits become [R, C].

    Raises:
        ShortlistError: the decoder does not end in an int8 product.
    """
    result = onnx.ModelProto()
    result.CopyFrom(decoder)
    graph = result.graph
    projection = _find_projection(graph)
    inputs = list(projection.node.input)
    inputs += [""] * (BIAS + 1 - len(inputs))
    inputs[WEIGHT], inputs[SCALE], inputs[BIAS] = COLUMN_INPUTS
    del projection.node.input[:]
    projection.node.input.extend(inputs)
    width = projection.weight.dims[0]
    for name, kind, shape in zip(
        COLUMN_INPUTS,
        (TensorProto.INT8, TensorProto.FLOAT, TensorProto.FLOAT),
        ([width, "columns"], ["columns"], ["columns"]),
        strict=True,
    ):
        graph.input.append(helper.make_tensor_value_info(name, kind, shape))
    logits = next(output for output in graph.output if output.name == "logits")
    logits.type.tensor_type.shape.dim[-1].Clear()
    logits.type.tensor_type.shape.dim[-1].dim_param = "columns"
    used = {name for node in graph.node for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return result


def column_graph(decoder: onnx.ModelProto) -> onnx.ModelProto:
    """Make the graph from `ids` int64 [C] to the columns of an int8 decoder's projection.

    Its outputs are `COLUMN_INPUTS`, the weights as int8 [E, C].

    Its weights lie token by token, [V, E]: 3,000 of 32,000 tokens take 0.3 ms to read and transpose. Where
    the projection is tied to the embeddings and both have 8 bits, the decoder has this tensor too, and
    `export.graph.shared_weights` keeps it once.

    Raises:
        ShortlistError: the decoder does not end in an int8 product.
    """
    projection = _find_projection(decoder.graph)
    width, vocabulary = projection.weight.dims
    bias = np.zeros(vocabulary, np.float32)
    if projection.bias is not None:
        bias = numpy_helper.to_array(projection.bias)
    constants = {
        "weights": numpy_helper.to_array(projection.weight).T,
        "scales": numpy_helper.to_array(projection.scale),
        "biases": bias,
    }
    nodes = [
        helper.make_node("Gather", ["weights", "ids"], ["rows"], name="rows", axis=0),
        helper.make_node("Transpose", ["rows"], [COLUMN_INPUTS[0]], name=COLUMN_INPUTS[0], perm=[1, 0]),
        helper.make_node("Gather", ["scales", "ids"], [COLUMN_INPUTS[1]], name=COLUMN_INPUTS[1], axis=0),
        helper.make_node("Gather", ["biases", "ids"], [COLUMN_INPUTS[2]], name=COLUMN_INPUTS[2], axis=0),
    ]
    kinds = (TensorProto.INT8, TensorProto.FLOAT, TensorProto.FLOAT)
    shapes = ([width, "columns"], ["columns"], ["columns"])
    graph = helper.make_graph(
        nodes,
        "columns",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["columns"])],
        [
            helper.make_tensor_value_info(name, kind, shape)
            for name, kind, shape in zip(COLUMN_INPUTS, kinds, shapes, strict=True)
        ],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in constants.items()],
    )
    opset = next(entry.version for entry in decoder.opset_import if entry.domain == "")
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=decoder.ir_version
    )


def _find_projection(graph: onnx.GraphProto) -> _Projection:
    """Find the product that yields the logits."""
    node = next((node for node in graph.node if "logits" in node.output), None)
    if node is None or node.op_type != INTEGER_PRODUCT:
        found = "nothing" if node is None else node.op_type
        raise ShortlistError(
            f"a shortlist needs precision int8: the logits come from {found}, not {INTEGER_PRODUCT}"
        )
    inputs = [*node.input, *[""] * (BIAS + 1 - len(node.input))]
    constants = {tensor.name: tensor for tensor in graph.initializer}
    weight, scale = constants.get(inputs[WEIGHT]), constants.get(inputs[SCALE])
    bias = constants.get(inputs[BIAS])
    if weight is None or scale is None or len(scale.dims) != 1 or inputs[WEIGHT_ZERO_POINT]:
        raise ShortlistError("a shortlist needs constant projection weights with a scale for each column")
    if inputs[ROW_SCALE] not in constants or inputs[ROW_ZERO_POINT] not in constants:
        raise ShortlistError("a shortlist needs a calibrated scale and zero point before the projection")
    if inputs[BIAS] and bias is None:
        raise ShortlistError("a shortlist needs a constant bias of the projection")
    return _Projection(node, weight, scale, bias)
