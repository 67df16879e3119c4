"""Reads the arrays of an ``.npz`` without trusting it: no pickles, and no size that is not in the file.

Format: a zip of ``.npy`` files (NumPy Enhancement Proposal 1).
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from export.convert.huggingface_files import HuggingFaceError

_MAX_BYTES, _MAX_MEMBERS, _MAX_RATIO = 1 << 34, 10_000, 50
_MIN_BYTES = 1 << 12
"""Of a member that is asked how well it was compressed."""


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Read all arrays by name.

    Raises:
        HuggingFaceError: no such file, damaged, larger than any model, or with arrays of objects.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_sizes(path, members)
            return {member.filename.removesuffix(".npy"): _read(archive, member) for member in members}
    except FileNotFoundError:
        raise HuggingFaceError(f"{path}: no such file") from None
    except HuggingFaceError:
        raise
    except Exception as error:  # noqa: BLE001 - zlib's, zipfile's and numpy's; all of them mean damage
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise HuggingFaceError(f"{path}: damaged: {ascii(reason)[1:-1][:200]}") from None


def _check_sizes(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > _MAX_MEMBERS or len({member.filename for member in members}) != len(members):
        raise HuggingFaceError(f"{path}: {len(members)} arrays, or one twice; no model has such")
    if sum(member.file_size for member in members) > _MAX_BYTES:
        raise HuggingFaceError(f"{path}: more than {_MAX_BYTES} bytes")
    for member in members:
        if member.file_size > max(_MIN_BYTES, _MAX_RATIO * max(member.compress_size, 1)):
            raise HuggingFaceError(f"{path}: {ascii(member.filename)[:80]} would be {member.file_size} bytes")


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as stream:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read_header(stream)
        content = stream.read()
    if dtype.hasobject:
        raise ValueError("holds objects, and reading them could run code")
    count = 1
    for size in shape:
        count *= size
    if count * dtype.itemsize != len(content):
        raise ValueError(f"{member.filename} states a shape of {count} numbers, {len(content)} bytes follow")
    array = np.frombuffer(content, dtype)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)
