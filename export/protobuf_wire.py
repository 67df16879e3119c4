"""Reads just enough of protobuf's wire format to look into a bundle's files before a native parser does.

A leaf: standard library only. ONNX Runtime and SentencePiece parse in C++, where a hostile file can be a
crash instead of an exception; what they are to load is looked at here first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_MODEL_IR_VERSION, _MODEL_GRAPH, _MODEL_OPSET = 1, 7, 8
_GRAPH_NODE, _GRAPH_INITIALIZER, _NODE_DOMAIN = 1, 5, 7
_TENSOR_EXTERNAL_DATA = 13
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_SENTENCEPIECE_PIECES = 1


class WireError(ValueError):
    """The bytes are not the protobuf message they should be."""


@dataclass(frozen=True, slots=True)
class OnnxSummary:
    """What a graph file asks for.

    Attributes:
        ir_version: version of the file format.
        opsets: operator domain to version; the standard domain is the empty string.
        node_domains: domains of the operators of the main graph.
        external_files: names of files that hold its weights.
    """

    ir_version: int
    opsets: dict[str, int]
    node_domains: frozenset[str]
    external_files: frozenset[str]


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise WireError("truncated or malformed protobuf")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Walk over the fields of one message.

    Yields:
        Field number with an integer (varint) or the bytes (length-delimited, fixed size).

    Raises:
        WireError: malformed or truncated.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise WireError("malformed protobuf")
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise WireError("malformed protobuf")
        if at + size > len(data):
            raise WireError("truncated protobuf")
        yield number, data[at : at + size]
        at += size


def _messages(data: memoryview, number: int) -> Iterator[memoryview]:
    for field, value in fields(data):
        if field == number:
            if isinstance(value, int):
                raise WireError("malformed protobuf")
            yield value


def _text(data: memoryview, number: int) -> str:
    for value in _messages(data, number):
        return bytes(value).decode("utf-8", errors="replace")
    return ""


def _integer(data: memoryview, number: int) -> int:
    for field, value in fields(data):
        if field == number and isinstance(value, int):
            return value
    return 0


def summarise_onnx(content: bytes) -> OnnxSummary:
    """Read versions, operator domains and external files of an ONNX model.

    Raises:
        WireError: the content is no ONNX model.
    """
    model = memoryview(content)
    graphs = list(_messages(model, _MODEL_GRAPH))
    if len(graphs) != 1:
        raise WireError("holds no ONNX graph")
    opsets = {
        _text(entry, _OPSET_DOMAIN): _integer(entry, _OPSET_VERSION)
        for entry in _messages(model, _MODEL_OPSET)
    }
    external = set()
    for tensor in _messages(graphs[0], _GRAPH_INITIALIZER):
        for entry in _messages(tensor, _TENSOR_EXTERNAL_DATA):
            if _text(entry, _ENTRY_KEY) == "location":
                external.add(_text(entry, _ENTRY_VALUE))
    domains = frozenset(_text(node, _NODE_DOMAIN) for node in _messages(graphs[0], _GRAPH_NODE))
    return OnnxSummary(_integer(model, _MODEL_IR_VERSION), opsets, domains, frozenset(external))


def count_pieces(content: bytes) -> int:
    """Count the vocabulary entries of a SentencePiece model.

    Raises:
        WireError: the content is no protobuf message.
    """
    return sum(1 for _ in _messages(memoryview(content), _SENTENCEPIECE_PIECES))
