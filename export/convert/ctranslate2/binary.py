"""Reads CTranslate2's ``model.bin`` without trusting it: names, shapes and numbers, nothing that runs.

The format (CTranslate2, ``python/ctranslate2/specs/model_spec.py``), little endian: u32 version, from 2 on
the string of a specification and its u32 revision, u32 count, then for each variable its name, u8 rank, u32
dimensions, from 4 on u8 type and u32 bytes, before u8 item size and u32 items, and the numbers; from 3 on u32
count of aliases, each two strings. A string is a u16 of its bytes, an ending zero included.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from export.convert.huggingface_files import HuggingFaceError

VERSIONS = range(1, 7)
_TYPES = ("<f4", "<i1", "<i2", "<i4", "<f2", "bfloat16")
_BY_SIZE = {4: "<f4", 2: "<i2", 1: "<i1"}
_MAX_BYTES = 1 << 35
_MAX_VARIABLES, _MAX_RANK = 100_000, 4


@dataclass(frozen=True)
class Binary:
    """What a file holds.

    Attributes:
        specification: kind of model, ``TransformerSpec`` for instance; empty in version 1.
        revision: of the specification.
        variables: values by name, aliases included; bfloat16 is widened to float32.
    """

    specification: str
    revision: int
    variables: Mapping[str, NDArray[np.generic]]


def read_binary(path: Path) -> Binary:
    """Read a file.

    Raises:
        HuggingFaceError: missing, truncated, or not of this format.
    """
    try:
        size = path.stat().st_size
        if not 0 < size <= _MAX_BYTES:
            raise HuggingFaceError(f"{path}: {size} bytes; at most {_MAX_BYTES} are read")
        content = np.memmap(path, np.uint8, "r")
    except FileNotFoundError:
        raise HuggingFaceError(f"{path}: no such file") from None
    except OSError as error:
        raise HuggingFaceError(f"{path}: cannot be read: {error}") from None
    try:
        return _Reader(content).read()
    except (ValueError, struct.error, UnicodeDecodeError) as error:
        raise HuggingFaceError(f"{path}: not a model of CTranslate2, or damaged: {error}") from None


class _Reader:
    """A place in a file."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self._content = content
        self._at = 0

    def read(self) -> Binary:
        version = self._number("I")
        if version not in VERSIONS:
            raise ValueError(f"its version is {version}; {VERSIONS[0]} to {VERSIONS[-1]} are read")
        specification, revision = (self._string(), self._number("I")) if version >= 2 else ("", 1)
        variables: dict[str, NDArray[np.generic]] = {}
        for _ in range(self._count()):
            name = self._string()
            variables[name] = self._values(typed=version >= 4)
        for _ in range(self._count() if version >= 3 else 0):
            alias, name = self._string(), self._string()
            if name not in variables:
                raise ValueError(f"an alias of {ascii(name)[:60]}, which is not there")
            variables[alias] = variables[name]
            if (scale := f"{name}_scale") in variables:
                variables.setdefault(f"{alias}_scale", variables[scale])
        if self._at != len(self._content):
            raise ValueError(f"{len(self._content) - self._at} bytes behind its end")
        return Binary(specification, revision, variables)

    def _count(self) -> int:
        count = self._number("I")
        if count > _MAX_VARIABLES:
            raise ValueError(f"{count} variables")
        return count

    def _bytes(self, count: int) -> NDArray[np.uint8]:
        if count > len(self._content) - self._at:
            raise ValueError("it ends too early")
        taken = self._content[self._at : self._at + count]
        self._at += count
        return taken

    def _number(self, kind: str) -> int:
        return int(struct.unpack(f"<{kind}", self._bytes(struct.calcsize(kind)).tobytes())[0])

    def _string(self) -> str:
        return self._bytes(self._number("H")).tobytes().rstrip(b"\0").decode()

    def _values(self, *, typed: bool) -> NDArray[np.generic]:
        rank = self._number("B")
        if rank > _MAX_RANK:
            raise ValueError(f"a variable of {rank} dimensions")
        shape = tuple(self._number("I") for _ in range(rank))
        if typed:
            number, size = self._number("B"), self._number("I")
            if number >= len(_TYPES):
                raise ValueError(f"a variable of type {number}")
            kind = _TYPES[number]
        else:
            item, count = self._number("B"), self._number("I")
            if item not in _BY_SIZE:
                raise ValueError(f"numbers of {item} bytes")
            kind, size = _BY_SIZE[item], item * count
        wide = kind == "bfloat16"
        item = 2 if wide else np.dtype(kind).itemsize
        if math.prod(shape) * item != size:
            raise ValueError(f"{size} bytes for a shape of {list(shape)}")
        content = self._bytes(size).tobytes()
        if wide:
            return (np.frombuffer(content, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
        return np.frombuffer(content, kind).reshape(shape)
