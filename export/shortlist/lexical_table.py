"""Which target pieces a translation may need, given the source pieces: the table behind a shortlist.

The file is NumPy's `.npz` without pickled objects, the same bytes for the same table: `always` [A], `keys`
[G, L], `offsets` [G+1], `targets` [T], all integers. The server reads it with code of its own
(`server.engine.shortlist.lexical_table`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.data.word_alignment import Translations

Integers = NDArray[np.integer]


@dataclass(frozen=True)
class LexicalTable:
    """Candidates of a source sentence: those that are always there, and those of every n-gram in it.

    Attributes:
        always: int32 [A], ascending.
        keys: int32 [G, L], source n-grams; -1 behind the shorter ones.
        offsets: int64 [G+1], where the targets of each key start and the last ones end.
        targets: int32 [T].
    """

    always: NDArray[np.int32]
    keys: NDArray[np.int32]
    offsets: NDArray[np.int64]
    targets: NDArray[np.int32]

    @classmethod
    def from_rows(cls, always: Sequence[int], rows: Mapping[tuple[int, ...], Sequence[int]]) -> LexicalTable:
        """Lay out a table.

        Args:
            always: target ids that every sentence may need.
            rows: source n-gram to target ids.
        """
        longest = max(map(len, rows), default=1)
        keys = np.full((len(rows), longest), -1, np.int32)
        for row, key in enumerate(rows):
            keys[row, : len(key)] = key
        sizes = [len(targets) for targets in rows.values()]
        return cls(
            always=np.unique(np.array(always, np.int32)),
            keys=keys,
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            targets=np.array([target for targets in rows.values() for target in targets], np.int32),
        )

    @property
    def rows(self) -> dict[tuple[int, ...], list[int]]:
        """Source n-gram to target ids, as `from_rows` takes them."""
        keys = [tuple(piece for piece in key if piece >= 0) for key in self.keys.tolist()]
        return {
            key: self.targets[first:last].tolist()
            for key, first, last in zip(keys, self.offsets[:-1], self.offsets[1:], strict=True)
        }


class Candidates:
    """Looks sentences up in a table."""

    def __init__(self, table: LexicalTable) -> None:
        self._always = frozenset(table.always.tolist())
        self._rows = table.rows
        self._longest = table.keys.shape[1]

    def of(self, source: Sequence[int]) -> list[int]:
        """Give the candidates of a sentence, ascending.

        Args:
            source: ids, prefix and suffix included.
        """
        found = set(self._always)
        for first in range(len(source)):
            for length in range(1, self._longest + 1):
                found.update(self._rows.get(tuple(source[first : first + length]), ()))
        return sorted(found)


def make_table(
    translations: Translations,
    frequencies: Integers,
    *,
    per_piece: int,
    frequent: int,
    always: Sequence[int],
    copies: Mapping[int, int],
) -> LexicalTable:
    """Choose the candidates of every source piece.

    Args:
        translations: as learnt.
        frequencies: [V], how often each target piece occurs in the text.
        per_piece: most probable targets kept for a source piece.
        frequent: most frequent target pieces that are always candidates.
        always: target ids that are candidates whatever their frequency, as special pieces and bytes.
        copies: source id to the target id of the same piece: names and numbers are copied, seen or not.
    """
    order = np.lexsort((translations.targets, -translations.probabilities, translations.sources))
    sources, targets = translations.sources[order], translations.targets[order]
    rank = np.arange(len(sources)) - np.searchsorted(sources, sources)
    kept = rank < per_piece
    sources, targets = sources[kept], targets[kept]
    rows: dict[tuple[int, ...], list[int]] = {(source,): [target] for source, target in copies.items()}
    present, starts = np.unique(sources, return_index=True)
    for source, found in zip(present.tolist(), np.split(targets, starts[1:]), strict=True):
        rows[(source,)] = sorted({*found.tolist(), *rows.get((source,), ())})
    common = np.argsort(-np.asarray(frequencies), kind="stable")[:frequent]
    return LexicalTable.from_rows([*always, *common.tolist()], rows)


def save_table(path: Path, table: LexicalTable) -> None:
    """Write a table; the same table gives the same bytes."""
    with path.open("wb") as stream:
        np.savez_compressed(
            stream, always=table.always, keys=table.keys, offsets=table.offsets, targets=table.targets
        )
