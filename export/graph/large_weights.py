"""Keeps the large weights of a graph in a file beside it, so that a copy of the graph is small.

A graph in one message holds 2 GiB at most, and every pass over it would copy them. ONNX calls such weights
external data; their location is a file name, so all graphs over them are files of one folder.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper
from onnx.external_data_helper import set_external_data

LARGE_BYTES = 1 << 20


def to_proto(model: onnx_ir.Model, weights: Path | None) -> onnx.ModelProto:
    """Turn what `torch.onnx` made into a message; its large weights go to a new file, if one is named."""
    if weights is not None:
        onnx_ir.external_data.unload_from_model(
            model, weights.parent, weights.name, size_threshold_bytes=LARGE_BYTES
        )
    return onnx_ir.to_proto(model)


def values_of(tensor: TensorProto, folder: Path | None) -> NDArray[np.generic]:
    """Read a weight; one that is kept in a file of ``folder`` is mapped, not read."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return numpy_helper.to_array(tensor)
    assert folder is not None, f"{tensor.name} is kept in a file"
    place = {entry.key: entry.value for entry in tensor.external_data}
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    offset = int(place.get("offset", 0))
    return np.memmap(folder / place["location"], dtype, "r", offset, tuple(tensor.dims))


def move_out(graph: onnx.ModelProto, weights: Path) -> None:
    """Move large weights that are inside of a graph to a new file."""
    with weights.open("wb") as stream:
        for tensor in graph.graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL or tensor.ByteSize() < LARGE_BYTES:
                continue
            content = numpy_helper.to_array(tensor).tobytes()
            refer(tensor, weights.name, stream.tell(), len(content))
            stream.write(content)


def refer(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Let a tensor stand for bytes of a file, in place of its own."""
    tensor.raw_data = b""  # else the library refuses
    set_external_data(tensor, location, offset=offset, length=length)
    for own in ("raw_data", "float_data", "int32_data", "int64_data"):
        tensor.ClearField(own)
    tensor.data_location = TensorProto.EXTERNAL


def write_graph(graph: onnx.ModelProto, path: Path) -> Path:
    """Write a graph to the folder of its large weights, for a session."""
    path.write_bytes(graph.SerializeToString())
    return path
