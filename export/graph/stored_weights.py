"""Writes a graph whose weights a bundle holds already: it refers to them, and is as small as its nodes.

Where the bundle keeps a weight in 8 bits, the graph computes with these: rows are looked up among them, and a
product rounds its activations as the bundle's own one with that weight does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from export.graph.large_weights import refer
from export.graph.products import (
    DOMAIN,
    INTEGER_PRODUCT,
    ROW_SCALE,
    ROW_ZERO_POINT,
    WEIGHT,
)
from export.graph.shared_weights import INLINE_BYTES, strip

Floats = NDArray[np.float32]
_ALIKE = 0.02
"""Distance of a weight from its 8 bits, as a share of its norm. Of a table that is stored twice, to look up
and for the projection, numbers are recovered that both stand for, some thousandths away from each."""


@dataclass(frozen=True)
class _Stored:
    """A tensor of at least 1 KiB in a bundle's file of weights.

    Attributes:
        location: the file.
        offset: in it.
        values: the tensor.
        rounding: scale and zero point of the activations that it is multiplied with, if it is such a weight.
    """

    location: str
    offset: int
    values: NDArray[np.generic]
    rounding: tuple[NDArray[np.generic], NDArray[np.generic]] | None

    def tensor(self, name: str) -> TensorProto:
        """Refer to it by a name."""
        tensor = numpy_helper.from_array(np.ascontiguousarray(self.values), name)
        refer(tensor, self.location, self.offset, self.values.nbytes)
        return tensor


@dataclass
class _Parts:
    """What a graph is put together of anew."""

    tensors: list[TensorProto] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)

    def constant(self, name: str, values: NDArray[np.generic]) -> str:
        self.tensors.append(numpy_helper.from_array(values, name))
        return name

    def refer(self, stored: _Stored, name: str) -> str:
        self.tensors.append(stored.tensor(name))
        return name


def save_beside(graph: onnx.ModelProto, path: Path, others: Sequence[Path]) -> None:
    """Write a graph into a bundle.

    Args:
        graph: float32, with its weights inside; not changed.
        path: of the file.
        others: graphs of the bundle whose stored weights may be referred to.
    """
    slim = strip(graph)
    stored = list(_stored(others))
    tensors = {tensor.name: tensor for tensor in slim.graph.initializer}
    parts = _Parts()
    for node in slim.graph.node:
        if node.op_type == "Gather" and (rows := _quantized(tensors, node.input[0], stored, axis=1)):
            _look_up(parts, node, *rows)
        elif node.op_type == "MatMul" and (columns := _quantized(tensors, node.input[1], stored, axis=0)):
            _multiply(parts, node, *columns)
        else:
            parts.nodes.append(node)
    read = {name for node in parts.nodes for name in node.input}
    for name, tensor in tensors.items():
        if name in read:
            same = _find_equal(numpy_helper.to_array(tensor), stored)
            parts.tensors.append(tensor if same is None else same.tensor(name))
    nodes, initializers = list(parts.nodes), list(parts.tensors)
    made = onnx.GraphProto(name=slim.graph.name, input=slim.graph.input, output=slim.graph.output)
    made.node.extend(nodes)
    made.initializer.extend(initializers)
    slim.graph.CopyFrom(made)
    if not any(entry.domain == DOMAIN for entry in slim.opset_import):
        slim.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    path.write_bytes(slim.SerializeToString(deterministic=True))


def _look_up(parts: _Parts, node: NodeProto, table: _Stored, scales: Floats) -> None:
    """Look rows up among integers, in place of a node that did so among floats."""
    name, ids = node.output[0], node.input[1]
    at = {part: f"{name}.{part}" for part in ("row", "floats", "scale")}
    parts.nodes += [
        helper.make_node("Gather", [parts.refer(table, f"{name}.s8"), ids], [at["row"]]),
        helper.make_node("Cast", [at["row"]], [at["floats"]], to=TensorProto.FLOAT),
        helper.make_node("Gather", [parts.constant(f"{name}.scales", scales), ids], [at["scale"]]),
        helper.make_node("Mul", [at["floats"], at["scale"]], [name]),
    ]


def _multiply(parts: _Parts, node: NodeProto, weight: _Stored, scales: Floats) -> None:
    """Multiply with integers, in place of a node that did so with floats."""
    assert weight.rounding is not None
    name, rows = node.output[0], node.input[0]
    scale = parts.constant(f"{name}.row_scale", weight.rounding[0])
    zero_point = parts.constant(f"{name}.row_zero_point", weight.rounding[1])
    integers = parts.refer(weight, f"{name}.weight")
    own = parts.constant(f"{name}.weight_scale", scales[0])
    parts.nodes += [
        helper.make_node("QuantizeLinear", [rows, scale, zero_point], [f"{name}.u8"]),
        helper.make_node(
            INTEGER_PRODUCT, [f"{name}.u8", integers, scale, own, zero_point], [name], domain=DOMAIN
        ),
    ]


def _stored(graphs: Sequence[Path]) -> Iterator[_Stored]:
    """Read what is kept beside graphs, each tensor once."""
    seen: set[tuple[str, int]] = set()
    for path in graphs:
        places: dict[str, tuple[str, int]] = {}
        for tensor in onnx.load(path, load_external_data=False).graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                entries = {entry.key: entry.value for entry in tensor.external_data}
                places[tensor.name] = entries["location"], int(entries.get("offset", 0))
        graph = onnx.load(path).graph
        values = {tensor.name: tensor for tensor in graph.initializer}
        products = {node.input[WEIGHT]: node for node in graph.node if node.op_type == INTEGER_PRODUCT}
        for name, place in places.items():
            if place in seen:
                continue
            seen.add(place)
            rounding = None
            if name in products:
                scale, zero_point = (products[name].input[at] for at in (ROW_SCALE, ROW_ZERO_POINT))
                rounding = numpy_helper.to_array(values[scale]), numpy_helper.to_array(values[zero_point])
            yield _Stored(*place, numpy_helper.to_array(values[name]), rounding)


def _find_equal(values: NDArray[np.generic], stored: Sequence[_Stored]) -> _Stored | None:
    if values.nbytes >= INLINE_BYTES:
        for one in stored:
            if one.values.dtype == values.dtype and np.array_equal(one.values, values):
                return one
    return None


def _quantized(
    tensors: dict[str, TensorProto], name: str, stored: Sequence[_Stored], axis: int
) -> tuple[_Stored, Floats] | None:
    """Find integers that a float weight [A, B] is a multiple of.

    Args:
        tensors: of the graph.
        name: of one, or of something else.
        stored: where to look.
        axis: 1 for a scale a row, of a table that is looked up; 0 for one a column, of a product's weight.

    Returns:
        The integers, and their scales [A, 1] or [1, B].
    """
    if name not in tensors:
        return None
    values = numpy_helper.to_array(tensors[name])
    for one in stored:
        if (
            one.values.dtype == np.int8
            and one.values.shape == values.shape
            and (axis or one.rounding is not None)
        ):
            integers = one.values.astype(np.float32)
            squares = (integers * integers).sum(axis, keepdims=True)
            scales = (integers * values).sum(axis, keepdims=True) / np.maximum(squares, 1)
            if np.linalg.norm(values - integers * scales) <= _ALIKE * np.linalg.norm(values):
                return one, scales.astype(np.float32)
    return None
