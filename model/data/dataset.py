"""A tokenised corpus as training reads it: the batches of an epoch, the same ones for the same seed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from model.checkpoint import SpecialTokens
from model.data.batching import Batch, batches_by_tokens, collate
from model.data.corpus import DescribedFeatures
from model.data.sampling import drawn
from model.data.token_table import Column, TokenTable, fits
from model.features.rows import Row
from model.tokenizer import Tokenizer

POOL = 1 << 19
"""Pairs that are sorted by length and cut into batches together: all, of a corpus that is not larger."""

BLOCK = 1 << 10
"""Neighbouring pairs that stay in one pool when a larger corpus is shuffled. The order of the blocks is all
that an epoch keeps in memory of the whole corpus: 80 KB for 10 million pairs."""


class TrainingSet:
    """Owned by the training thread.

    Args:
        table: the pairs.
        special: ids that are put around them.
        more: gives the additional pairs of an epoch, by its number.
        readings: how often an epoch reads a pair of each origin, float64 [origins]; None for once.
        pool: pairs that are sorted together.
    """

    def __init__(
        self,
        table: TokenTable,
        special: SpecialTokens,
        more: Callable[[int], TokenTable] | None = None,
        *,
        readings: NDArray[np.float64] | None = None,
        pool: int = POOL,
    ) -> None:
        self._table = table
        self._special = special
        self._more = more
        self._readings = readings
        self._pool = pool

    def __len__(self) -> int:
        return len(self._table)

    def epoch(self, seed: int, epoch: int, batch_tokens: int, *, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of one epoch; order and augmentation depend on (seed, epoch) alone.

        Args:
            seed: of the run.
            epoch: number of the epoch.
            batch_tokens: see ``batches_by_tokens``.
            skip: batches at the beginning that are not built, because they were used already.
        """
        rng = np.random.default_rng([seed, epoch])
        tables = [self._table]
        if self._more is not None:
            tables.append(self._more(epoch))
        for pool in self._pools(sum(map(len, tables)), rng):
            if self._readings is not None:
                own = pool[pool < len(self._table)]
                often = self._readings[self._table.origins[own]]
                pool = np.concatenate((drawn(own, often, rng), pool[pool >= len(self._table)]))
            for rows in self._batches(tables, pool, batch_tokens, rng):
                if skip:
                    skip -= 1
                else:
                    yield self._collate(tables, rows)
            self._table.release()

    def in_order(self, batch_tokens: int) -> Iterator[Batch]:
        """Yield every pair once, sorted by length, without augmentation; for validation."""
        for rows in self._batches([self._table], np.arange(len(self._table)), batch_tokens, None):
            yield self._collate([self._table], rows)

    def _pools(self, count: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        if count <= self._pool:
            yield np.arange(count)
            return
        # Blocks in random order, a pool of them at a time; within a pool the batches are mixed again.
        block = min(BLOCK, self._pool)
        order = rng.permutation(-(-count // block))
        for start in range(0, len(order), self._pool // block):
            chosen = np.sort(order[start : start + self._pool // block])
            rows = (chosen[:, None] * block + np.arange(block)).ravel()
            yield rows[rows < count]

    @staticmethod
    def _batches(
        tables: Sequence[TokenTable],
        pool: NDArray[np.int64],
        batch_tokens: int,
        rng: np.random.Generator | None,
    ) -> Iterator[NDArray[np.int64]]:
        first = len(tables[0])
        parts = [(tables[0], pool[pool < first])]
        parts += [(table, pool[pool >= first] - first) for table in tables[1:]]
        # With eos on both sides.
        sources = np.concatenate([table.sources.lengths(rows) for table, rows in parts]) + 1
        targets = np.concatenate([table.targets.lengths(rows) for table, rows in parts]) + 1
        for chosen in batches_by_tokens(sources, targets, batch_tokens, rng):
            yield pool[chosen]

    def _collate(self, tables: Sequence[TokenTable], rows: NDArray[np.int64]) -> Batch:
        special, first = self._special, len(tables[0])
        places = [(tables[0], int(i)) if i < first else (tables[1], int(i) - first) for i in rows]
        return collate(
            [table.sources.row(i) for table, i in places],
            [table.targets.row(i) for table, i in places],
            pad_id=special.pad_id,
            start_id=special.decoder_start_id,
            eos_id=special.eos_id,
        )


def table_of(sources: Sequence[Row], targets: Sequence[Sequence[int]]) -> TokenTable:
    """Build a table in memory."""
    return TokenTable(Column.of(sources), Column.of(targets))


def features_table(text: DescribedFeatures, tokenizer: Tokenizer, max_tokens: int) -> TokenTable:
    """Build a table of features in memory, where their file is read to anyway.

    Args:
        text: features and targets.
        tokenizer: of the targets.
        max_tokens: pairs of so many vectors or tokens are left out, as `model.data.token_table.fits` counts.
    """
    targets = tokenizer.encode_target_batch(text.targets)
    kept = fits(list(map(len, text.sources)), list(map(len, targets)), max_tokens)
    table = table_of(list(itertools.compress(text.sources, kept)), list(itertools.compress(targets, kept)))
    return replace(table, left_out=int((~kept).sum()))
