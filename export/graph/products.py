"""Finds the matrix products of an exported graph: what int8 replaces and calibration observes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from export.graph.large_weights import values_of

DOMAIN = "com.microsoft"
"""Of the operators below."""

INTEGER_PRODUCT = "MatMulIntegerToFloat"
"""Operator that every product of an int8 graph is, but for fused ones."""

ROWS, WEIGHT, ROW_SCALE, SCALE, ROW_ZERO_POINT, WEIGHT_ZERO_POINT, BIAS = range(7)
"""Its inputs."""

FUSED_PRODUCT = "QAttention"
"""Operator that is a product and the attention over it; see `export.int8.fused_attention`."""

TRANSPOSED_PRODUCT = "FusedMatMul"
"""Operator that the projection of an fp16 graph is: a product with the weight [O, I]."""

FUSED_BIAS, FUSED_SCALE = 2, 4
"""Its inputs that have another place; the weight has the same."""


@dataclass(frozen=True, slots=True)
class Product:
    """``output = input @ weight + bias``, one or two nodes of a graph.

    Attributes:
        input: name of the activations, float [..., I].
        weight: float32 [I, O], a view of what the graph holds.
        bias: name of the bias, [O], or None.
        output: name of the result, float [..., O].
        nodes: positions in ``graph.node`` of the nodes that compute it, ascending.
    """

    input: str
    weight: NDArray[np.float32]
    bias: str | None
    output: str
    nodes: tuple[int, ...]


class GraphIndex:
    """Initializers and consumers of a graph by name, as they were when the index was made.

    Args:
        graph: any.
        folder: of the files that large weights are kept in, if they are.
    """

    def __init__(self, graph: onnx.GraphProto, folder: Path | None = None) -> None:
        self._folder = folder
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.consumers: dict[str, list[int]] = {}
        for position, node in enumerate(graph.node):
            for name in node.input:
                self.consumers.setdefault(name, []).append(position)
        self.outputs = {output.name for output in graph.output}

    def array(self, name: str) -> NDArray[np.generic]:
        """Return the values of an initializer."""
        return values_of(self.initializers[name], self._folder)

    def is_float(self, name: str, rank: int) -> bool:
        """Tell whether ``name`` is a float32 initializer of this rank."""
        tensor = self.initializers.get(name)
        return tensor is not None and tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == rank

    def only_consumer(self, name: str) -> int | None:
        """Return the position of the only node that reads ``name``; None if the caller reads it too."""
        positions = self.consumers.get(name, [])
        return positions[0] if len(positions) == 1 and name not in self.outputs else None


def find_products(graph: onnx.GraphProto, index: GraphIndex) -> list[Product]:
    """List the products with constant weights, in the order in which the graph computes them.

    Recognised are ``MatMul`` and ``FusedMatMul`` with a transposed weight, followed or not by the ``Add`` of
    a vector, and ``Gemm`` with or without bias.
    """
    products = []
    for position, node in enumerate(graph.node):
        if node.op_type in ("MatMul", TRANSPOSED_PRODUCT) and index.is_float(node.input[1], 2):
            products.append(_from_matmul(graph, index, position))
        elif node.op_type == "Gemm" and index.is_float(node.input[1], 2):
            products.append(_from_gemm(index, node, position))
    return products


def _from_matmul(graph: onnx.GraphProto, index: GraphIndex, position: int) -> Product:
    node = graph.node[position]
    weight = np.asarray(index.array(node.input[1]), np.float32)
    if node.op_type == TRANSPOSED_PRODUCT:
        weight = weight.T
    follower = index.only_consumer(node.output[0])
    if follower is not None and graph.node[follower].op_type == "Add":
        add = graph.node[follower]
        other = add.input[1] if add.input[0] == node.output[0] else add.input[0]
        if index.is_float(other, 1):
            return Product(node.input[0], weight, other, add.output[0], (position, follower))
    return Product(node.input[0], weight, None, node.output[0], (position,))


def _from_gemm(index: GraphIndex, node: onnx.NodeProto, position: int) -> Product:
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    if (
        attributes.get("alpha", 1.0) != 1.0
        or attributes.get("beta", 1.0) != 1.0
        or attributes.get("transA", 0)
    ):
        raise ValueError(f"Gemm {node.output[0]} with alpha, beta or transA cannot be quantised")
    weight = np.asarray(index.array(node.input[1]), np.float32)
    bias = node.input[2] if len(node.input) > 2 and node.input[2] else None
    if bias is not None and not index.is_float(bias, 1):
        raise ValueError(f"Gemm {node.output[0]} adds something that is no vector")
    weight = weight.T if attributes.get("transB", 0) else weight
    return Product(node.input[0], weight, bias, node.output[0], (position,))
