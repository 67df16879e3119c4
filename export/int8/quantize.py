"""Rewrites fp32 graphs to static int8: a result never depends on the other rows of a batch.

Every product becomes ``QuantizeLinear`` (u8, one scale and zero point a tensor, from calibration) and
``com.microsoft::MatMulIntegerToFloat`` (s8 weights, one scale a column). Embeddings are stored as s8 rows
with one scale a row. Keys and values are cached as s8 with one scale a channel
(`export.int8.quantized_caches`). An encoder's attention computes the product it reads itself
(`export.int8.fused_attention`). All else stays fp32.

With 8-bit weights, AVX2 machines without VNNI saturate: two products are added in 16 bits there.
With 7 bits (|w| <= 63, 2 * 255 * 63 < 2**15) every machine computes the same integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from export.graph.products import DOMAIN, INTEGER_PRODUCT, GraphIndex, Product, find_products
from export.int8.fused_attention import fuse_attention
from export.int8.quantized_caches import quantize_caches

_BLOCK_ROWS = 64


@dataclass(frozen=True, slots=True)
class ActivationRange:
    """Interval of an activation tensor that 8 unsigned bits are spent on; always contains 0."""

    low: float
    high: float

    @property
    def scale(self) -> np.float32:
        """Distance between two neighbouring steps."""
        scale = np.float32((max(self.high, 0.0) - min(self.low, 0.0)) / 255.0)
        # Nothing but zeros, or so little that its 255th part is no normal number.
        return scale if scale >= np.finfo(np.float32).tiny else np.float32(1.0)

    @property
    def zero_point(self) -> np.uint8:
        """The step that stands for 0."""
        return np.uint8(np.clip(np.rint(-min(self.low, 0.0) / float(self.scale)), 0, 255))


def quantize_columns(weight: NDArray[np.float32], bits: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round a weight matrix to symmetric integers, one scale a column.

    Args:
        weight: float32 [I, O].
        bits: 2 to 8, sign included.

    Returns:
        int8 [I, O] and scales float32 [O].
    """
    limit = 2 ** (bits - 1) - 1
    scales = (np.maximum(weight.max(axis=0), -weight.min(axis=0)) / limit).astype(np.float32)
    scales[scales == 0] = 1.0
    rounded = np.empty(weight.shape, np.int8)
    for start in range(0, len(weight), _BLOCK_ROWS):  # a head of 256,000 words takes 1 GB in fp32
        block = weight[start : start + _BLOCK_ROWS]
        rounded[start : start + _BLOCK_ROWS] = np.clip(np.rint(block / scales), -limit, limit)
    return rounded, scales


def quantize_graph(
    model: onnx.ModelProto,
    ranges: Sequence[ActivationRange],
    weight_bits: int,
    caches: Mapping[str, NDArray[np.float32]] | None = None,
    folder: Path | None = None,
) -> onnx.ModelProto:
    """Return an int8 copy of an fp32 graph, its own weights inside.

    Args:
        model: as exported; inputs and outputs keep names, shapes and, but for the caches, types.
        ranges: one for each product, in the order of ``find_products``.
        weight_bits: 8, or 7 for machines that saturate.
        caches: largest magnitudes of a cache's channels, float32 [E], by name; caches not named stay fp32.
        folder: of the files that large weights of the fp32 graph are kept in, if they are.

    Raises:
        ValueError: the number of ranges and products differs.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    rewrite = _Rewrite(result.graph, weight_bits, folder)
    products = find_products(result.graph, rewrite.index)
    if len(products) != len(ranges):
        raise ValueError(f"{len(products)} products, but ranges for {len(ranges)}")
    for product, interval in zip(products, ranges, strict=True):
        rewrite.product(product, interval)
    for position, node in enumerate(result.graph.node):
        if (
            node.op_type == "Gather"
            and node.input[1] == "input_ids"
            and rewrite.index.is_float(node.input[0], 2)
        ):
            rewrite.embedding(position)
    rewrite.finish()
    quantize_caches(result.graph, caches or {})
    fuse_attention(result.graph)
    if all(entry.domain != DOMAIN for entry in result.opset_import):
        result.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return result


class _Rewrite:
    """One graph being rewritten: nodes to put in place of others, and new initializers."""

    def __init__(self, graph: onnx.GraphProto, weight_bits: int, folder: Path | None) -> None:
        self.graph = graph
        self.index = GraphIndex(graph, folder)
        self._weight_bits = weight_bits
        self._replacements: dict[int, list[onnx.NodeProto]] = {}
        self._added: dict[str, onnx.TensorProto] = {}
        self._quantized: dict[str, tuple[ActivationRange, list[str]]] = {}

    def _constant(self, name: str, value: NDArray[np.generic]) -> str:
        self._added[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def product(self, product: Product, interval: ActivationRange) -> None:
        """Replace a product by its integer form; products of one input share its quantisation."""
        nodes: list[onnx.NodeProto] = []
        if product.input not in self._quantized:
            scale = self._constant(f"{product.input}.scale", np.asarray(interval.scale))
            zero = self._constant(f"{product.input}.zero_point", np.asarray(interval.zero_point))
            quantized = f"{product.input}.u8"
            source = self._without_relu(product.input, interval)
            nodes.append(
                helper.make_node("QuantizeLinear", [source, scale, zero], [quantized], name=quantized)
            )
            self._quantized[product.input] = (interval, [quantized, scale, zero])
        known, (quantized, scale, zero) = self._quantized[product.input]
        if known != interval:
            raise ValueError(f"two ranges for the same activations {product.input}")
        values, scales = quantize_columns(product.weight, self._weight_bits)
        inputs = [
            quantized,
            self._constant(f"{product.output}.weight", values),
            scale,
            self._constant(f"{product.output}.weight_scale", scales),
            zero,
        ]
        if product.bias is not None:
            inputs += ["", product.bias]
        nodes.append(
            helper.make_node(INTEGER_PRODUCT, inputs, [product.output], name=product.output, domain=DOMAIN)
        )
        first, *others = product.nodes
        self._replacements[first] = nodes
        self._replacements.update({position: [] for position in others})

    def _without_relu(self, name: str, interval: ActivationRange) -> str:
        """Skip a ReLU whose result is only quantised with zero point 0: clipping at 0 does its work."""
        if interval.zero_point != 0:
            return name
        for position, node in enumerate(self.graph.node):
            if name in node.output and node.op_type == "Relu" and self.index.only_consumer(name) is not None:
                self._replacements[position] = []
                return str(node.input[0])
        return name

    def embedding(self, position: int) -> None:
        """Replace the lookup of float rows by a lookup of s8 rows and their scales, sqrt(E) folded in."""
        node = self.graph.node[position]
        rows = np.asarray(self.index.array(node.input[0]), np.float32)
        output, factor = node.output[0], 1.0
        follower = self.index.only_consumer(output)
        if follower is not None and self.graph.node[follower].op_type == "Mul":
            multiply = self.graph.node[follower]
            other = multiply.input[1] if multiply.input[0] == output else multiply.input[0]
            if other in self.index.initializers and not self.index.initializers[other].dims:
                factor = self.index.array(other).item()
                output = multiply.output[0]
                self._replacements[follower] = []
        values, scales = quantize_columns(np.ascontiguousarray(rows.T), 8)
        table = self._constant(f"{output}.rows", values.T)
        scale = self._constant(f"{output}.row_scales", (scales * np.float32(factor))[:, None])
        make, ids = helper.make_node, node.input[1]
        self._replacements[position] = [
            make("Gather", [table, ids], [f"{output}.s8"], name=f"{output}.s8", axis=0),
            make(
                "Cast",
                [f"{output}.s8"],
                [f"{output}.float"],
                name=f"{output}.float",
                to=onnx.TensorProto.FLOAT,
            ),
            make("Gather", [scale, ids], [f"{output}.scale"], name=f"{output}.scale", axis=0),
            make("Mul", [f"{output}.float", f"{output}.scale"], [output], name=output),
        ]

    def finish(self) -> None:
        """Put the new nodes in place and drop initializers that nothing reads any more."""
        nodes = []
        for position, node in enumerate(self.graph.node):
            nodes.extend(self._replacements.get(position, [node]))
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        used = {name for node in nodes for name in node.input}
        kept = [tensor for tensor in self.graph.initializer if tensor.name in used]
        kept += [tensor for name, tensor in self._added.items() if name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        del self.graph.value_info[:]
