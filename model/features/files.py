"""Files of feature vectors: .npz of two arrays, never unpickled.

``features`` [total, F] has all vectors of all sequences one after the other, ``lengths`` [N] says how many
belong to each sequence. A leaf: imports nothing of this project.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SUFFIX = ".npz"
"""Of the name of a file of features; any other file is text."""

Features = NDArray[np.float32]
"""A sequence: [length, F]."""


class FeaturesError(ValueError):
    """Features cannot be used; the message says what is wrong and never shows any of them."""


def holds_features(path: Path) -> bool:
    """Tell by its name whether a file holds features and no text."""
    return path.suffix == SUFFIX


def read_features(path: Path) -> list[Features]:
    """Read the sequences of a file into memory.

    Returns:
        Views [length, F] of one array; at least one, none of them empty.

    Raises:
        FeaturesError: no such file, or not such arrays; the message names the file.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            values, lengths = arrays["features"], arrays["lengths"]
    except FileNotFoundError:
        raise FeaturesError(f"{path}: no such file") from None
    except KeyError as error:
        raise FeaturesError(f"{path}: {error.args[0]}; features and lengths are needed") from None
    except (
        OSError,
        EOFError,
        ValueError,
        AttributeError,
        TypeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise FeaturesError(f"{path}: not an .npz of arrays: {error}") from None
    if values.ndim != 2 or not values.shape[1] or values.dtype.kind not in "fiu":
        raise FeaturesError(f"{path}: features must be numbers [total, F], not {values.dtype} {values.shape}")
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not len(lengths):
        raise FeaturesError(f"{path}: lengths must be whole numbers [N], not {lengths.dtype} {lengths.shape}")
    if lengths.min() < 1:
        raise FeaturesError(f"{path}: sequence {int(lengths.argmin()) + 1} is empty")
    if int(lengths.sum()) != len(values):
        raise FeaturesError(f"{path}: lengths add up to {int(lengths.sum())}, but there are {len(values)}")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values, np.float32)
    if not np.isfinite(values).all():
        raise FeaturesError(f"{path}: a feature is not finite")
    return np.split(values, np.cumsum(lengths)[:-1])


def write_features(path: Path, sequences: Sequence[Features]) -> None:
    """Write sequences [length, F] as a file that ``read_features`` reads."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    np.savez_compressed(path, features=np.concatenate(sequences).astype(np.float32), lengths=lengths)
