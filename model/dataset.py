"""A tokenised corpus that hands out the batches of an epoch, the same ones for the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .augment import CopyAugmenter
from .batching import Batch, batches_by_tokens, collate
from .checkpoint import SpecialTokens
from .corpus import ParallelText
from .noise import damage
from .recipe import Augment
from .tokenizer import Tokenizer


class TrainingSet:
    """Training pairs as ids; pairs longer than ``max_tokens`` on a side are left out and counted."""

    def __init__(
        self,
        text: ParallelText,
        tokenizer: Tokenizer,
        special: SpecialTokens,
        *,
        max_tokens: int,
        augment: Augment | None = None,
    ) -> None:
        self._text = text
        self._tokenizer = tokenizer
        self._special = special
        self._max_tokens = max_tokens
        self._augment = augment or Augment()
        self._sources = tokenizer.encode_batch(text.sources)
        self._targets = tokenizer.encode_target_batch(text.targets)
        self._kept = [i for i in range(len(text)) if self._fits(self._sources[i], self._targets[i])]
        self.left_out = len(text) - len(self._kept)
        self.target_tokens = sum(len(self._targets[i]) + 1 for i in self._kept)
        self._augmenter: CopyAugmenter | None = None
        if self._augment.copy_share or self._augment.number_share:
            self._augmenter = CopyAugmenter(text.sources, text.targets, self._augment.number_words)

    def __len__(self) -> int:
        return len(self._kept)

    def _fits(self, source: Sequence[int], target: Sequence[int]) -> bool:
        return max(len(source), len(target)) < self._max_tokens

    def _epoch_rows(self, rng: np.random.Generator) -> tuple[list[list[int]], list[list[int]]]:
        sources = [self._sources[i] for i in self._kept]
        targets = [self._targets[i] for i in self._kept]
        swapped: list[tuple[str, str]] = []
        candidates = [] if self._augmenter is None else self._augmenter.candidates
        for i, draw in zip(candidates, rng.random(len(candidates)), strict=True):
            assert self._augmenter is not None
            number = self._augmenter.has_number(i)
            if draw < (self._augment.number_share if number else self._augment.copy_share):
                pair = self._text.sources[i], self._text.targets[i]
                copies = self._augment.copies if number else 1
                # The same variant drawn twice counts once; a dict, unlike a set, keeps the order.
                swapped += dict.fromkeys(self._augmenter.augment(*pair, rng) for _ in range(copies))
        if self._augment.noise_share:
            clean = [(self._text.sources[i], self._text.targets[i]) for i in self._kept] + swapped
            draws = rng.random(len(clean))
            swapped += [
                (damage(source, rng), target)
                for (source, target), draw in zip(clean, draws, strict=True)
                if draw < self._augment.noise_share
            ]
        new_sources = self._tokenizer.encode_batch([source for source, _ in swapped])
        new_targets = self._tokenizer.encode_target_batch([target for _, target in swapped])
        for source, target in zip(new_sources, new_targets, strict=True):
            if self._fits(source, target):
                sources.append(source)
                targets.append(target)
        return sources, targets

    def epoch(self, seed: int, epoch: int, batch_tokens: int) -> Iterator[Batch]:
        """Yield the batches of one epoch; order and augmentation depend on (seed, epoch) alone."""
        rng = np.random.default_rng([seed, epoch])
        sources, targets = self._epoch_rows(rng)
        source_lengths = np.array([len(row) + 1 for row in sources])
        target_lengths = np.array([len(row) + 1 for row in targets])
        for rows in batches_by_tokens(source_lengths, target_lengths, batch_tokens, rng):
            yield self._collate([sources[i] for i in rows], [targets[i] for i in rows])

    def in_order(self, batch_tokens: int) -> Iterator[Batch]:
        """Yield every pair once, sorted by length, without augmentation; for validation."""
        lengths = [
            np.array([len(rows[i]) + 1 for i in self._kept]) for rows in (self._sources, self._targets)
        ]
        for batch in batches_by_tokens(lengths[0], lengths[1], batch_tokens, None):
            indices = [self._kept[i] for i in batch]
            yield self._collate([self._sources[i] for i in indices], [self._targets[i] for i in indices])

    def _collate(self, sources: list[list[int]], targets: list[list[int]]) -> Batch:
        special = self._special
        return collate(
            sources, targets, pad_id=special.pad_id, start_id=special.decoder_start_id, eos_id=special.eos_id
        )
