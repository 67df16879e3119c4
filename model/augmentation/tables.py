"""The additional pairs of each epoch as tables of ids on disk, drawn on all processors when first read."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from model.augmentation.drawing import Drawing, PairAugmenter, draw_chunk
from model.checkpoint import Direction
from model.data.corpus import read_parallel
from model.data.process_pool import mapped
from model.data.token_table import TokenTable, TokenTableError, TokenTableWriter
from model.data.tokenization import chunks_of, is_tokenised
from model.recipe import Recipe
from model.tokenizer import Tokenizer

_FEW = 2
"""Chunks that are drawn without other processes: a small corpus is done before they have started."""


class AugmentedTables:
    """Owned by the training thread; of several processes of a run, the first one writes.

    Args:
        recipe: says which pairs, and the seed that fixes them.
        directions: of its corpus, with the ids of their tags.
        tokenizer: of the model.
        directory: where the tables go, a folder for each variant.
        description: what the table of the corpus was made from, its longest pairs among it.
        readings: how often an epoch reads a pair of each origin; None for once.
    """

    def __init__(
        self,
        recipe: Recipe,
        directions: Sequence[Direction],
        tokenizer: Tokenizer,
        directory: Path,
        description: dict[str, Any],
        *,
        readings: NDArray[np.float64] | None = None,
        quiet: bool = True,
    ) -> None:
        self._recipe = recipe
        self._directions = directions
        self._tokenizer = tokenizer
        self._directory = directory
        self._description = description
        self._readings = readings
        self._quiet = quiet
        self._augmenters: list[PairAugmenter] = []

    def table(self, epoch: int) -> TokenTable:
        """Map the additional pairs of an epoch; they are drawn first if that was not done."""
        self.write(epoch)
        return TokenTable.open(self._path(epoch))

    def write_all(self) -> None:
        """Draw all variants that are not there yet."""
        for variant in range(self._recipe.augment.variants):
            self.write(variant)

    def write(self, epoch: int) -> None:
        """Draw the pairs of an epoch, unless they are there.

        Raises:
            TokenTableError: a process that drew them was killed.
        """
        variant = epoch % self._recipe.augment.variants
        path, description = self._path(epoch), self._described(variant)
        if is_tokenised(path, description):
            return
        seed = (self._recipe.training.seed, variant)
        limit = self._description["max_tokens"]
        state = Drawing(self._learnt(), self._tokenizer, limit, self._readings, seed)
        size = max(self._tokenizer.source_vocab_size, self._tokenizer.target_vocab_size)
        writer = TokenTableWriter(path, size)
        chunks = enumerate(chunks_of(self._recipe.corpus, self._directions, {}))
        bar = tqdm(desc=f"augmenting {variant}", unit="pair", unit_scale=True, disable=self._quiet or None)
        try:
            with bar:
                for rows in mapped(draw_chunk, state, chunks, few=_FEW):
                    writer.add(rows.sources, rows.targets)
                    bar.update(len(rows.sources))
        except BrokenExecutor:
            raise TokenTableError(f"{path}: a process that drew it was killed; try again") from None
        writer.finish(description, 0)

    def _path(self, epoch: int) -> Path:
        return self._directory / f"augmented-{epoch % self._recipe.augment.variants:02}"

    def _described(self, variant: int) -> dict[str, Any]:
        """Describe what a table depends on, as JSON gives it back."""
        augment = self._recipe.augment.model_dump(mode="json", exclude={"variants"})
        often = None if self._readings is None else self._readings.tolist()
        seed = self._recipe.training.seed
        return {**self._description, "augment": augment, "readings": often, "seed": seed, "variant": variant}

    def _learnt(self) -> list[PairAugmenter]:
        """Learn names and word alignment of each direction, once; its text is in memory meanwhile."""
        augment = self._recipe.augment
        if not self._augmenters:
            for text in self._recipe.corpus.directions:
                corpus = read_parallel(text.train_source, text.train_target)
                words = augment.number_words.get(text.name, {})
                self._augmenters.append(PairAugmenter(corpus.sources, corpus.targets, augment, words))
        return self._augmenters
