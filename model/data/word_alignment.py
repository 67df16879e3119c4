"""IBM model 1 (Brown et al., 1993): which target piece a source piece becomes, learnt from parallel text.

Every target piece of a sentence was produced by one source piece or by nothing; expectation maximisation
finds the probabilities p(target | source) under which the text is most probable. Order plays no part.

One *cell* is a source and a target piece that meet in a sentence pair. 4 bytes of each are kept between the
passes, the rest is worked on in blocks: 154,000 pairs of 10 pieces (18 million cells) take 10 seconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Sentence = Sequence[int]

ITERATIONS = 5
MAX_CELLS = 200_000_000
"""A larger corpus is sampled; 1 GB is kept then."""

MAX_SENTENCE_PIECES = 200
"""Longer sentences say little about words and have many cells."""

_BLOCK_CELLS = 4_000_000


@dataclass(frozen=True)
class Translations:
    """Pairs of pieces that met, ascending by source, then by target.

    Attributes:
        sources: int32 [M].
        targets: int32 [M].
        probabilities: float64 [M], p(target | source).
    """

    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    probabilities: NDArray[np.float64]


def learn_translations(
    sources: Sequence[Sentence],
    targets: Sequence[Sentence],
    source_vocab_size: int,
    target_vocab_size: int,
    max_cells: int = MAX_CELLS,
) -> Translations:
    """Learn p(target piece | source piece).

    Args:
        sources: ids of each source sentence.
        targets: ids of its translation.
        source_vocab_size: ids are below it.
        target_vocab_size: ids are below it.
        max_cells: sentence pairs beyond it are left out, drawn with a fixed seed.

    Raises:
        ValueError: no sentence pair is usable.
    """
    pairs = _choose(sources, targets, max_cells)
    if not pairs:
        raise ValueError("no sentence pair has words on both sides")
    chosen = [(sources[i], targets[i]) for i in pairs]
    blocks: list[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]] = []
    for keys, starts in _blocks(chosen, source_vocab_size, target_vocab_size):
        different, which = np.unique(keys, return_inverse=True)
        blocks.append((different, which.astype(np.int32), starts))
    met = np.unique(np.concatenate([different for different, _, _ in blocks]))
    cells: list[tuple[NDArray[np.int32], NDArray[np.int64]]] = []
    while blocks:  # one after the other, so that only one is there twice
        here, places, firsts = blocks.pop(0)
        cells.append((np.searchsorted(met, here).astype(np.int32)[places], firsts))
    source_of = (met // target_vocab_size).astype(np.int32)
    probabilities = np.ones(len(met))
    for _ in range(ITERATIONS):
        counts = np.zeros(len(met))
        for cell, starts in cells:
            weights = probabilities[cell]
            totals = np.add.reduceat(weights, starts)
            weights /= np.repeat(totals, np.diff(starts, append=len(cell)))
            counts += np.bincount(cell, weights, len(met))
        probabilities = counts / np.bincount(source_of, counts)[source_of]
    real = source_of < source_vocab_size  # the rest comes from nothing
    target_of = (met % target_vocab_size).astype(np.int32)
    return Translations(source_of[real], target_of[real], probabilities[real])


def _choose(sources: Sequence[Sentence], targets: Sequence[Sentence], max_cells: int) -> list[int]:
    """Choose the sentence pairs to learn from."""
    usable = [
        i
        for i, (source, target) in enumerate(zip(sources, targets, strict=True))
        if 0 < len(source) <= MAX_SENTENCE_PIECES and 0 < len(target) <= MAX_SENTENCE_PIECES
    ]
    sizes = {i: (len(sources[i]) + 1) * len(targets[i]) for i in usable}
    if sum(sizes.values()) <= max_cells:
        return usable
    random.Random(0).shuffle(usable)
    total, chosen = 0, []
    for i in usable:
        total += sizes[i]
        if total > max_cells:
            break
        chosen.append(i)
    return chosen


def _blocks(
    pairs: Sequence[tuple[Sentence, Sentence]], nothing: int, target_vocab_size: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Give the cells of some sentence pairs at a time.

    Yields:
        Keys int64 [C], `source * target_vocab_size + target`, target piece by target piece; and where the
        cells of each target piece start, int64 [target pieces].
    """
    keys: list[NDArray[np.int64]] = []
    widths: list[NDArray[np.int64]] = []
    size = 0
    for source, target in pairs:
        rows = np.array([*source, nothing], np.int64) * target_vocab_size
        keys.append((np.array(target, np.int64)[:, None] + rows).reshape(-1))
        widths.append(np.full(len(target), len(rows)))
        size += len(keys[-1])
        if size >= _BLOCK_CELLS:
            yield _joined(keys, widths)
            keys, widths, size = [], [], 0
    if keys:
        yield _joined(keys, widths)


def _joined(
    keys: list[NDArray[np.int64]], widths: list[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Make one block; every target piece has at least one cell, as `np.add.reduceat` needs."""
    ends = np.cumsum(np.concatenate(widths))
    return np.concatenate(keys), np.concatenate([[0], ends[:-1]])
