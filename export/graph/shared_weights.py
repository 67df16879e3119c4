"""Writes graphs with their weights beside them: several graphs share one file, each tensor in it once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import onnx

from export.graph.large_weights import refer, values_of

INLINE_BYTES = 1024
_ALIGNMENT = 64


def save_graphs(
    directory: Path, graphs: Mapping[str, onnx.ModelProto], weights_name: str, folder: Path | None = None
) -> None:
    """Write graphs that share one file of weights.

    Args:
        directory: where to write.
        graphs: file name to graph; the graphs are not changed.
        weights_name: file for all tensors of at least 1 KiB; equal tensors are stored once.
        folder: of the files that large weights are kept in so far, if they are.
    """
    with (directory / weights_name).open("wb") as stream:
        offsets: dict[bytes, int] = {}
        for name, graph in graphs.items():
            slim = strip(graph)
            for tensor in slim.graph.initializer:
                _move_out(tensor, stream, offsets, weights_name, folder)
            (directory / name).write_bytes(slim.SerializeToString(deterministic=True))


def strip(model: onnx.ModelProto) -> onnx.ModelProto:
    """Copy a graph without the exporter's traces: stack traces, documentation, file paths of this machine."""
    slim = onnx.ModelProto()
    slim.CopyFrom(model)
    slim.producer_name, slim.producer_version, slim.doc_string = "dragoman", "", ""
    del slim.metadata_props[:]
    graph = slim.graph
    graph.name, graph.doc_string = "dragoman", ""
    del graph.metadata_props[:]
    if not any(info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 for info in graph.value_info):
        del graph.value_info[:]  # shapes; without them ONNX Runtime does not fuse all that it can on CUDA
    for part in (*graph.node, *graph.input, *graph.output, *graph.initializer, *graph.value_info):
        part.doc_string = ""
        del part.metadata_props[:]
    return slim


def _move_out(
    tensor: onnx.TensorProto,
    stream: BinaryIO,
    offsets: dict[bytes, int],
    weights_name: str,
    folder: Path | None,
) -> None:
    content = values_of(tensor, folder).tobytes()
    if len(content) < INLINE_BYTES:
        return
    digest = hashlib.sha256(content).digest()
    if digest not in offsets:
        stream.write(b"\0" * (-stream.tell() % _ALIGNMENT))
        offsets[digest] = stream.tell()
        stream.write(content)
    refer(tensor, weights_name, offsets[digest], len(content))
