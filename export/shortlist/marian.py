"""Marian's binary shortlist, as Firefox's models have one: ``lex.50.50.ende.s2t.bin``.

Six uint64: a magic number, a checksum, how many of the first target words are always candidates, how many the
list of a word has at most, O offsets, T targets; then uint64 [O] and uint32 [T], all of them little-endian.
The targets of source word w lie between the offsets w and w + 1 (``BinaryShortlistGenerator`` of marian-dev).
With one vocabulary for both sides, a source word is a candidate, too. Marian fills the candidates up to a
multiple of eight, and those of a batch are in common; neither is done here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from export.shortlist.lexical_table import LexicalTable
from export.shortlist.vmap import VmapError

MAGIC = 0xF11A48D5013417F5
_HEADER = np.dtype([(name, "<u8") for name in ("magic", "checksum", "first", "best", "offsets", "targets")])


def is_marian_shortlist(path: Path) -> bool:
    """Tell whether a file begins as Marian's binary shortlists do."""
    try:
        with path.open("rb") as stream:
            return stream.read(8) == MAGIC.to_bytes(8, "little")
    except OSError:
        return False


def read_marian_shortlist(
    path: Path, source_size: int, target_size: int, always: Sequence[int], *, is_shared: bool
) -> LexicalTable:
    """Read a shortlist.

    Args:
        path: for which `is_marian_shortlist` holds.
        source_size: words of the source vocabulary.
        target_size: words of the target vocabulary.
        always: target ids that are candidates of every sentence, whatever the file says.
        is_shared: whether both vocabularies are one.

    Raises:
        VmapError: it cannot be read, is damaged, or was made for other vocabularies.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise VmapError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) < _HEADER.itemsize:
        raise VmapError(f"{path}: cut off")
    header = np.frombuffer(data, _HEADER, 1)[0]
    first, count, total = (int(header[name]) for name in ("first", "offsets", "targets"))
    if len(data) != _HEADER.itemsize + 8 * count + 4 * total:
        raise VmapError(f"{path}: {len(data)} bytes do not hold {count} offsets and {total} targets")
    offsets = np.frombuffer(data, "<u8", count, _HEADER.itemsize)
    targets = np.frombuffer(data, "<u4", total, _HEADER.itemsize + 8 * count)
    words = max(first, 1 + int(targets.max(initial=0)))
    if not 2 <= count <= source_size + 1 or words > target_size:
        raise VmapError(
            f"{path}: made for {max(0, count - 1)} source words and at least {words} target words; "
            f"the bundle has {source_size} and {target_size}"
        )
    if int(offsets.max()) > total or (offsets[1:] < offsets[:-1]).any():
        raise VmapError(f"{path}: its offsets do not ascend within its {total} targets")
    rows: dict[tuple[int, ...], list[int]] = {}
    for word, (start, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        own = [word] if is_shared and word < target_size else []
        rows[(word,)] = sorted({*targets[start:end].tolist(), *own})
    return LexicalTable.from_rows([*always, *range(first)], rows)
