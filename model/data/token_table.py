"""A tokenised corpus: rows of ids back to back in flat files, with an index, read through a memory map.

A directory holds, for each side, ``NAME.ids`` (all ids, little-endian uint16 or uint32) and ``NAME.offsets``
(uint64, one more than there are rows: row i is ``ids[offsets[i]:offsets[i + 1]]``), ``origins`` (uint16, a
number for each row) and ``index.json``, which names the origins. It is written aside and renamed, so one that
exists is whole. A corpus of any size costs memory only for the pages that were read since the last
``release``.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from model.features.rows import Row, are_features

FORMAT_VERSION = 2
_SIDES = ("source", "target")
_OFFSETS = np.dtype("<u8")
_ORIGINS = np.dtype("<u2")


class TokenTableError(ValueError):
    """A tokenised corpus cannot be used; the message names the file and the remedy."""


@dataclass(frozen=True)
class Column:
    """Rows of one side.

    Attributes:
        ids: uint16, uint32 or int64, all rows back to back; of features, which are never on disk, float32
            [total, F].
        offsets: uint64 [rows + 1].
        maps: what ``ids`` and ``offsets`` are mapped from; none if they are in memory.
    """

    ids: NDArray[Any]
    offsets: NDArray[np.uint64]
    maps: tuple[mmap.mmap, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Column:
        """Build a column in memory."""
        lengths = np.fromiter(map(len, rows), dtype=np.uint64, count=len(rows))
        if are_features(rows):
            ids = np.concatenate(rows)
        else:
            ids = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum()))
        return cls(ids, np.concatenate((np.zeros(1, np.uint64), lengths.cumsum(dtype=np.uint64))))

    @classmethod
    def mapped(cls, directory: Path, side: str, dtype: str, rows: int, tokens: int) -> Column:
        """Map the files of a side.

        Raises:
            TokenTableError: one is missing or has another size than the index says.
        """
        ids, first = _map(directory / f"{side}.ids", np.dtype(dtype), tokens)
        offsets, second = _map(directory / f"{side}.offsets", _OFFSETS, rows + 1)
        return cls(ids, offsets, first + second)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the ids of rows, int64 [N]."""
        return (self.offsets[rows + 1] - self.offsets[rows]).astype(np.int64)

    def row(self, index: int) -> NDArray[Any]:
        """Return the ids of a row, without special ids."""
        return self.ids[int(self.offsets[index]) : int(self.offsets[index + 1])]

    def release(self) -> None:
        """Give the pages read so far back; the next reading maps them again."""
        for mapped in self.maps:
            mapped.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class TokenTable:
    """Pairs of rows. Read by any number of threads and processes.

    Attributes:
        sources: ids of each source.
        targets: those of its translation, same index.
        left_out: pairs of the corpus that were too long.
        origins: uint16 [rows], where each pair is from; empty if that is not known.
        names: of the origins, by number.
    """

    sources: Column
    targets: Column
    left_out: int = 0
    origins: NDArray[np.uint16] = field(default_factory=lambda: np.empty(0, np.uint16))
    names: tuple[str, ...] = ()

    @classmethod
    def open(cls, directory: Path) -> TokenTable:
        """Map a table that ``TokenTableWriter`` wrote.

        Raises:
            TokenTableError: it is damaged or of another version.
        """
        index = read_index(directory)
        if index is None:
            raise TokenTableError(f"{directory}: no tokenised corpus, or of another version; remove it")
        try:
            sources, targets = (
                Column.mapped(directory, side, index["dtype"], index["rows"], index[f"{side}_tokens"])
                for side in _SIDES
            )
            origins, _ = _map(directory / "origins", _ORIGINS, index["rows"])
            return cls(sources, targets, index["left_out"], origins, tuple(index["origins"]))
        except (KeyError, TypeError) as error:
            raise TokenTableError(
                f"{directory / 'index.json'}: damaged ({error}); remove {directory}"
            ) from None

    def __len__(self) -> int:
        return len(self.sources)

    def release(self) -> None:
        """Give the pages read so far back."""
        self.sources.release()
        self.targets.release()


def fits(source_tokens: ArrayLike, target_tokens: ArrayLike, max_tokens: int) -> NDArray[np.bool_]:
    """Tell which pairs are short enough, with eos on both sides; of one pair or of many."""
    within: NDArray[np.bool_] = np.maximum(source_tokens, target_tokens) < max_tokens
    return within


class TokenTableWriter:
    """Writes a table aside, some rows at a time; ``finish`` puts it in place. Owned by the calling thread."""

    def __init__(self, directory: Path, vocabulary: int) -> None:
        self._directory = directory
        self._aside = directory.with_name(f".{directory.name}.partial")
        shutil.rmtree(self._aside, ignore_errors=True)
        self._aside.mkdir(parents=True)
        self._dtype = np.dtype("<u2" if vocabulary <= 1 << 16 else "<u4")
        self._files: dict[str, BinaryIO] = {}
        self._tokens = dict.fromkeys(_SIDES, 0)
        self._files["origins"] = (self._aside / "origins").open("wb")
        self.rows = 0
        for side in _SIDES:
            self._files[f"{side}.ids"] = (self._aside / f"{side}.ids").open("wb")
            self._files[f"{side}.offsets"] = (self._aside / f"{side}.offsets").open("wb")
            self._files[f"{side}.offsets"].write(np.zeros(1, _OFFSETS).tobytes())

    def add(self, sources: Column, targets: Column, origins: NDArray[np.uint16] | None = None) -> None:
        """Append pairs of rows; their origin is number 0 if not given."""
        numbers = np.zeros(len(sources)) if origins is None else origins
        self._files["origins"].write(numbers.astype(_ORIGINS).tobytes())
        for side, column in zip(_SIDES, (sources, targets), strict=True):
            offsets = column.offsets[1:] + np.uint64(self._tokens[side])
            self._files[f"{side}.ids"].write(column.ids.astype(self._dtype).tobytes())
            self._files[f"{side}.offsets"].write(offsets.astype(_OFFSETS).tobytes())
            self._tokens[side] += len(column.ids)
        self.rows += len(sources)

    def finish(self, made_from: dict[str, Any], left_out: int, origins: Sequence[str] = ("",)) -> None:
        """Flush, write the index and rename.

        Args:
            made_from: what the table depends on; see ``read_index``.
            left_out: pairs that were too long.
            origins: their names, by number.
        """
        index = {
            "format_version": FORMAT_VERSION,
            "dtype": self._dtype.str,
            "rows": self.rows,
            **{f"{side}_tokens": count for side, count in self._tokens.items()},
            "left_out": left_out,
            "origins": list(origins),
            "made_from": made_from,
        }
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        (self._aside / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(self._directory, ignore_errors=True)
        self._aside.rename(self._directory)


def read_index(directory: Path) -> dict[str, Any] | None:
    """Read what a table says about itself; None if there is none that this version can use."""
    try:
        index = json.loads((directory / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    usable = isinstance(index, dict) and index.get("format_version") == FORMAT_VERSION
    return index if usable else None


def _map(path: Path, dtype: np.dtype[Any], count: int) -> tuple[NDArray[Any], tuple[mmap.mmap, ...]]:
    expected = count * dtype.itemsize
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size != expected:
                raise TokenTableError(
                    f"{path}: has {size} bytes instead of {expected}; remove {path.parent}, it is made again"
                )
            if not expected:  # an empty file cannot be mapped
                return np.empty(0, dtype), ()
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise TokenTableError(f"{path}: cannot be read ({error}); remove {path.parent}") from None
    return np.frombuffer(mapped, dtype=dtype), (mapped,)
