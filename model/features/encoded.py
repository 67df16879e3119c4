"""A sequence of feature vectors in a request: a .npy array [length, F] in base64, never unpickled.

A leaf, so that the server can use it without torch.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import re
import struct
from typing import Any

import numpy as np

from model.features.files import Features, FeaturesError

_TYPES = (b"<f2", b"<f4", b"<f8")
_MAX_HEADER_BYTES = 1024
_MAX_DIGITS = 12
_LENGTHS = {b"\x01\x00": struct.Struct("<H"), b"\x02\x00": struct.Struct("<I")}
"""How each version writes the length of its header."""

_HEADER = re.compile(
    rb"\{ *'descr': *'([^']*)', *'fortran_order': *(True|False), *'shape': *\(([0-9, ]*)\),? *\} *\n?"
)


class FeaturesTooLongError(FeaturesError):
    """A sequence has more vectors than may be read."""


def to_base64(sequence: Features) -> str:
    """Write a sequence as a request holds it."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(sequence), allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode("ascii")


def from_base64(text: str, size: int, longest: int) -> Features:
    """Read a sequence as a request holds it, in time and memory that ``longest`` bounds.

    Args:
        text: base64 of a .npy file (format 1.0 or 2.0; NumPy Enhancement Proposal 1): little-endian floats of
            16, 32 or 64 bits, in C order.
        size: F, values of a vector.
        longest: most vectors.

    Returns:
        [length, size], finite, at least one vector.

    Raises:
        FeaturesTooLongError: there are more vectors.
        FeaturesError: it is something else.
    """
    most_bytes = _MAX_HEADER_BYTES + longest * size * 8
    if len(text) > 4 * math.ceil(most_bytes / 3):
        raise FeaturesTooLongError(f"more base64 than {longest} vectors of {size} values can have")
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise FeaturesError("not base64") from None
    shape, dtype, start = _read_header(content)
    if len(shape) != 2 or shape[1] != size:
        raise FeaturesError(f"the shape must be [length, {size}]")
    if shape[0] > longest:
        raise FeaturesTooLongError(f"{shape[0]} vectors; at most {longest} are accepted")
    if shape[0] < 1:
        raise FeaturesError("it has no vectors")
    if len(content) - start != shape[0] * size * dtype.itemsize:
        raise FeaturesError("it has fewer or more bytes than its header says")
    with np.errstate(over="ignore"):
        values = np.frombuffer(content, dtype, offset=start).reshape(shape).astype(np.float32)
    if not np.isfinite(values).all():
        raise FeaturesError("a value is not finite, or too large for 32 bits")
    return values


def _read_header(content: bytes) -> tuple[tuple[int, int], np.dtype[Any], int]:
    """Read shape, type, and where the values begin. numpy's own reader evaluates the header as Python."""
    if content[:6] != b"\x93NUMPY" or content[6:8] not in _LENGTHS:
        raise FeaturesError("not a .npy file of version 1 or 2")
    length = _LENGTHS[content[6:8]]
    start = 8 + length.size
    if len(content) < start or (size := length.unpack_from(content, 8)[0]) > _MAX_HEADER_BYTES:
        raise FeaturesError(f"the .npy header must have at most {_MAX_HEADER_BYTES} bytes")
    header = _HEADER.fullmatch(content, start, start + size)
    if header is None:
        raise FeaturesError("the .npy header is not one of a single array")
    kind, by_column, shape = header.groups()
    if kind not in _TYPES or by_column != b"False":
        raise FeaturesError("the values must be little-endian floats (16, 32 or 64 bits) in C order")
    sides = shape.replace(b" ", b"").removesuffix(b",").split(b",")
    if len(sides) != 2 or max(map(len, sides)) > _MAX_DIGITS or not all(map(bytes.isdigit, sides)):
        raise FeaturesError("the array must have two dimensions")
    return (int(sides[0]), int(sides[1])), np.dtype(kind.decode()), start + size
