"""Writes small ONNX graphs: what the server needs of protobuf, so that it needs neither `onnx` nor a file.

Only graphs of this package are written with it: standard operators, no subgraphs, weights inside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

IR_VERSION, OPSET = 8, 18
"""The oldest in which every operator used has its present meaning."""

ELEMENT_TYPES = {"float32": 1, "int16": 5, "int32": 6, "int64": 7, "float16": 10}
"""ONNX's number of each dtype, by its name in numpy."""

_ATTRIBUTE_INT, _ATTRIBUTE_TENSOR = 2, 4

Shape = Sequence[int | str]
"""Sizes of the axes; a name stands for any size."""


@dataclass
class GraphWriter:
    """One graph, node after node. Used by one thread."""

    _nodes: list[bytes] = field(default_factory=list)
    _weights: list[bytes] = field(default_factory=list)
    _inputs: list[bytes] = field(default_factory=list)
    _outputs: list[bytes] = field(default_factory=list)

    def input(self, name: str, dtype: np.dtype[Any], shape: Shape) -> str:
        """Declare an input; returns its name."""
        self._inputs.append(_value_info(name, dtype, shape))
        return name

    def output(self, name: str, dtype: np.dtype[Any], shape: Shape) -> str:
        """Declare that the value called `name` is an output."""
        self._outputs.append(_value_info(name, dtype, shape))
        return name

    def weight(self, value: NDArray[Any]) -> str:
        """Add a constant; returns its name."""
        name = f"constant_{len(self._weights)}"
        self._weights.append(_tensor(value, name))
        return name

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str] = (),
        **attributes: int | NDArray[Any],
    ) -> str:
        """Add a node; returns the name of its first output, which is made up if none is given."""
        outputs = outputs or (f"value_{len(self._nodes)}",)
        content = b"".join(_text(1, name) for name in inputs) + b"".join(_text(2, name) for name in outputs)
        content += _text(4, operator) + b"".join(_bytes(5, _attribute(*item)) for item in attributes.items())
        self._nodes.append(content)
        return outputs[0]

    def serialise(self) -> bytes:
        """Give the model as ONNX Runtime reads it."""
        parts: Mapping[int, list[bytes]] = {
            1: self._nodes,
            5: self._weights,
            11: self._inputs,
            12: self._outputs,
        }
        graph = _text(2, "dragoman") + b"".join(
            _bytes(number, content) for number, contents in parts.items() for content in contents
        )
        return _integer(1, IR_VERSION) + _bytes(7, graph) + _bytes(8, _integer(2, OPSET))


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative number is written as its two's complement
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _value_info(name: str, dtype: np.dtype[Any], shape: Shape) -> bytes:
    axes = (_integer(1, size) if isinstance(size, int) else _text(2, size) for size in shape)
    tensor_type = _integer(1, ELEMENT_TYPES[dtype.name])
    tensor_type += _bytes(2, b"".join(_bytes(1, axis) for axis in axes))
    return _text(1, name) + _bytes(2, _bytes(1, tensor_type))


def _tensor(value: NDArray[Any], name: str) -> bytes:
    content = b"".join(_integer(1, size) for size in value.shape)
    content += _integer(2, ELEMENT_TYPES[value.dtype.name]) + _text(8, name)
    return content + _bytes(9, value.astype(value.dtype.newbyteorder("<")).tobytes())


def _attribute(name: str, value: int | NDArray[Any]) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _integer(3, value) + _integer(20, _ATTRIBUTE_INT)
    return _text(1, name) + _bytes(5, _tensor(value, name)) + _integer(20, _ATTRIBUTE_TENSOR)
