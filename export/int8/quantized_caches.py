"""Turns the keys and values that a decoder keeps into int8: one scale a channel, from calibration.

A step reads every cached key and value once and does two multiplications with each, so its attention costs
what reading costs. Measured on one thread, 6+6 layers of 512, 32 rows of 25 positions: 0.62 ms a
``GroupQueryAttention`` with fp32 caches, 0.26 with int8. A sentence also takes a quarter of the memory.

The operator quantises what it appends and multiplies what it reads by the scale; queries, weights and sums
stay fp32, so a row depends on nothing but itself. For cross-attention the encoder quantises: its product
gives keys and values in units of their scales, which costs nothing, so that one scale of 1 does for all. A
scale a channel takes ``QuantizeLinear`` 2 ms for 200 x 512 values, one scale 0.03.

In self-attention one scale of 1 does for all, too: keys and values are in units of their scales, queries are
multiplied by those of the keys, all of it by the scales of the product that gives them, and the context by
those of the values. So what is appended can be quantised by any operator, bit by bit alike
(`export.int8.cache_writes`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from export.graph.products import BIAS, INTEGER_PRODUCT, SCALE

UNIT, ZERO = "s8.one", "s8.zero"
"""Scale 1, float32 [], and zero point 0, int8 []."""

_LIMIT = 127
_LEAST_SCALE = np.float32(1e-30)  # its inverse times a product's scale is still a number
_HEADROOM = 1.2  # for channels of which the sample did not show the largest value; costs a fifth of a step
_KEY_SCALE_INPUT = 12

Floats = NDArray[np.float32]


def quantize_caches(graph: onnx.GraphProto, largest: Mapping[str, Floats]) -> None:
    """Rewrite an encoder or decoder graph in place.

    In a decoder the inputs and outputs that hold caches become int8, in an encoder the outputs.

    Args:
        graph: as exported; an encoder's products are quantised, a decoder's may be.
        largest: largest magnitude of each channel, float32 [E], by the name of the decoder's input; the key
            and the value of an attention, or neither.
    """
    scales = {
        name: np.maximum(values * _HEADROOM / _LIMIT, _LEAST_SCALE).astype(np.float32)
        for name, values in largest.items()
    }
    del graph.value_info[:]  # states the types that are about to change
    rewrite = _Rewrite(graph)
    for key in sorted(name for name in scales if "_key_" in name):
        value = key.replace("_key_", "_value_")
        if key in rewrite.inputs:
            rewrite.attention(key, value, scales[key], scales[value])
        elif key in rewrite.outputs:
            rewrite.memory(key, value, scales[key], scales[value])
    rewrite.drop_unused()


def unit_of(cache: str) -> str:
    """Name the scales [E] that a self-attention's keys or values are in units of."""
    return f"{cache}.unit"


class _Rewrite:
    """One graph, whose caches are being rewritten."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.inputs = {value.name: value for value in graph.input}
        self.outputs = {value.name: value for value in graph.output}
        self._producers = {name: node for node in graph.node for name in node.output}
        self._constants = {tensor.name: tensor for tensor in graph.initializer}

    def attention(self, key: str, value: str, of_key: Floats, of_value: Floats) -> None:
        """Make two caches of a decoder int8, and let the operator that owns them know their scales."""
        node = next(n for n in self.graph.node if n.op_type == "GroupQueryAttention" and key in n.input)
        node.input.extend([""] * (_KEY_SCALE_INPUT - len(node.input)))
        if key.startswith("self_") and self._producers[node.input[0]].op_type == INTEGER_PRODUCT:
            self._in_units(node, key, value, of_key, of_value)
            kind, scales = "PER_TENSOR", [self._constant("s8.ones", np.ones(1, np.float32))] * 2
        else:
            kind = "PER_CHANNEL"
            scales = [self._constant(f"{key}.scale", of_key), self._constant(f"{value}.scale", of_value)]
        node.input.extend(scales)
        types = ("k_quant_type", kind), ("v_quant_type", kind)
        for attribute, setting in (*types, ("kv_cache_bit_width", 8)):
            node.attribute.append(helper.make_attribute(attribute, setting))
        for name in (key, value):
            side, part, layer = name.rsplit("_", 2)
            for entry in (self.inputs[name], self.outputs[f"{side}_{part}_out_{layer}"]):
                entry.type.tensor_type.elem_type = TensorProto.INT8

    def _in_units(self, node: onnx.NodeProto, key: str, value: str, of_key: Floats, of_value: Floats) -> None:
        """Give a self-attention keys and values in units of their scales."""
        self._multiply_columns(node.input[0], np.concatenate([of_key, 1 / of_key, 1 / of_value]))
        self._constant(unit_of(key), of_key)  # only `export.recovery.from_bundle` reads it
        context = node.output[0]
        node.output[0] = f"{context}.in_units"
        inputs = [node.output[0], self._constant(unit_of(value), of_value)]
        multiply = helper.make_node("Mul", inputs, [context], name=f"{context}.units")
        self.graph.node.insert(list(self.graph.node).index(node) + 1, multiply)

    def memory(self, key: str, value: str, of_key: Floats, of_value: Floats) -> None:
        """Make two outputs of an encoder [N, H, S, D] int8, before they are split, padded and transposed."""
        split = self._producers[key]
        while split.op_type != "Split":
            split = self._producers[split.input[0]]
        packed = split.input[0]
        self._multiply_columns(packed, np.concatenate([1 / of_key, 1 / of_value]))
        unit, zero = np.ones((), np.float32), np.zeros((), np.int8)
        inputs = [packed, self._constant(UNIT, unit), self._constant(ZERO, zero)]
        quantized = f"{key}.s8"
        split.input[0] = quantized
        quantize = helper.make_node("QuantizeLinear", inputs, [quantized], name=quantized)
        self.graph.node.insert(list(self.graph.node).index(self._producers[packed]) + 1, quantize)
        for name in (key, value):
            self.outputs[name].type.tensor_type.elem_type = TensorProto.INT8

    def drop_unused(self) -> None:
        """Drop the scales and biases that others stand for now."""
        used = {name for node in self.graph.node for name in node.input}
        used |= {unit_of(name) for name in self.inputs if name.startswith("self_key_")}
        kept = [tensor for tensor in self.graph.initializer if tensor.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)

    def _multiply_columns(self, name: str, factors: Floats) -> None:
        """Multiply the columns of what a quantised product gives, by way of its scales and its bias."""
        product = self._producers[name]
        for at in (SCALE, BIAS):
            if product.input[at : at + 1] not in ([], [""]):
                old = numpy_helper.to_array(self._constants[product.input[at]])
                product.input[at] = self._constant(f"{product.input[at]}.in_units", old * factors)

    def _constant(self, name: str, value: NDArray[np.generic]) -> str:
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(value, name)
            self.graph.initializer.append(self._constants[name])
        return name
