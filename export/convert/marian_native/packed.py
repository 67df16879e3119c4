"""Reads Marian's binary models, ``.bin``, as Firefox publishes them: 8-bit matrices with one scale each.

Format, all little-endian: version 1 and the number of items, uint64; of each item the length of its name,
its type, the lengths of its shape and data, uint64; all names, ending in a zero; all shapes, int32; how
many bytes of padding follow, uint64, and those; all data. An 8-bit matrix is [O, I] where its shape says
[I, O], but for tables of embeddings; behind its numbers stands what they were multiplied by, float32. Items
whose names end in ``_QuantMultA`` are scales of activations ("alphas"), which are not used here.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from export.convert.huggingface_files import HuggingFaceError

_VERSION = 1
_MAX_BYTES, _MAX_ITEMS, _MAX_NAME, _MAX_AXES = 1 << 34, 10_000, 1024, 8
_INT8, _FLOAT32, _SCALED_INT8 = 0x0101, 0x0404, 0x10001
_ITEM = struct.Struct("<4Q")
_ALPHA, _TABLE = "_QuantMultA", "Wemb"


def read_packed(path: Path) -> dict[str, NDArray[Any]]:
    """Read all arrays by name, 8-bit matrices as float32; those of 8-bit text as they are.

    Raises:
        HuggingFaceError: no such file, damaged, larger than any model, or with numbers of another kind.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise HuggingFaceError(f"{path}: more than {_MAX_BYTES} bytes")
        return _Bytes(path.read_bytes()).arrays()
    except FileNotFoundError:
        raise HuggingFaceError(f"{path}: no such file") from None
    except _DamageError as error:
        raise HuggingFaceError(f"{path}: damaged, or no binary model of Marian: {error}") from None


class _DamageError(ValueError):
    """The file is not what the format says."""


class _Bytes:
    """A file that is read from the beginning to its end."""

    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)
        self._at = 0

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Read the whole file."""
        version, count = struct.unpack("<2Q", self._take(16))
        if version != _VERSION:
            raise _DamageError(f"version {version}")
        if count > _MAX_ITEMS:
            raise _DamageError(f"{count} arrays; no model has such")
        items = [_ITEM.unpack(self._take(_ITEM.size)) for _ in range(count)]
        names = [self._name(length) for length, _, _, _ in items]
        if len(set(names)) != count:
            raise _DamageError("two arrays have one name")
        shapes = [self._shape(length) for _, _, length, _ in items]
        (padding,) = struct.unpack("<Q", self._take(8))
        self._take(padding)
        found = {}
        for name, (_, kind, _, length), shape in zip(names, items, shapes, strict=True):
            content = self._take(length)
            if not name.endswith(_ALPHA):
                found[name] = _array(name, kind, shape, content)
        return found

    def _take(self, length: int) -> memoryview:
        taken = self._content[self._at : self._at + length]
        if len(taken) != length:
            raise _DamageError(f"it ends at byte {len(self._content)}, before what it states")
        self._at += length
        return taken

    def _name(self, length: int) -> str:
        if not 1 < length <= _MAX_NAME:
            raise _DamageError(f"a name of {length} bytes")
        name = self._take(length).tobytes()
        if name[-1] or not name[:-1].isascii() or not (text := name[:-1].decode("ascii")).isprintable():
            raise _DamageError(f"the name {ascii(name)[2:-1][:60]}")
        return text

    def _shape(self, length: int) -> tuple[int, ...]:
        if not 0 < length <= _MAX_AXES:
            raise _DamageError(f"a shape of {length} axes")
        shape = struct.unpack(f"<{length}i", self._take(4 * length))
        if min(shape) < 1:
            raise _DamageError(f"a shape {list(shape)}")
        return shape


def _array(name: str, kind: int, shape: tuple[int, ...], content: memoryview) -> NDArray[Any]:
    """Read one array; what follows its numbers is padding."""
    count = math.prod(shape)
    size = {_INT8: count, _FLOAT32: 4 * count, _SCALED_INT8: count + 4}.get(kind)
    if size is None:
        raise _DamageError(f"{name} has numbers of type {kind:#x}; 8-bit and 32-bit ones are read")
    if size > len(content):
        raise _DamageError(f"{name} states a shape of {count} numbers, {len(content)} bytes follow")
    if kind != _SCALED_INT8:
        dtype = np.dtype("<f4" if kind == _FLOAT32 else np.int8)
        return np.frombuffer(content, dtype, count).reshape(shape)
    (scale,) = struct.unpack("<f", content[count : count + 4])
    if len(shape) != 2 or not (math.isfinite(scale) and scale > 0):
        raise _DamageError(f"{name} has a shape of {len(shape)} axes or the scale {scale}")
    integers = np.frombuffer(content, np.int8, count)
    matrix = integers.reshape(shape) if _TABLE in name else integers.reshape(shape[::-1]).T
    return matrix / np.float32(scale)
