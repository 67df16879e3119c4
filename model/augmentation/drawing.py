"""Draws the additional pairs of one direction: a share of its pairs, changed as the recipe asks for.

Without torch, so that the processes that draw start at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.augmentation.copying import CopyAugmenter
from model.augmentation.joining import Joiner
from model.augmentation.lexicon import WordLexicon
from model.augmentation.noise import damage
from model.augmentation.spans import SpanAugmenter
from model.augmentation.surface import surface
from model.data.token_table import Column
from model.data.tokenization_pool import Chunk, Rows, tokenise_chunk
from model.recipe import Augment
from model.tokenizer import Tokenizer

Pair = tuple[str, str]


class PairAugmenter:
    """What is learnt of a direction, and how its pairs are changed. Read by any number of processes.

    Args:
        sources: the corpus.
        targets: its other side.
        augment: which share is changed how.
        number_words: spelled-out numbers and their translation.
    """

    def __init__(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        augment: Augment,
        number_words: dict[str, str] | None = None,
    ) -> None:
        self._augment = augment
        self._joiner = Joiner(sources, targets) if augment.join_share else None
        self._copying: CopyAugmenter | None = None
        if augment.copy_share or augment.number_share:
            self._copying = CopyAugmenter(sources, targets, number_words)
        self._spans = SpanAugmenter(WordLexicon.learn(sources, targets)) if augment.aligns else None

    def draw(self, pairs: Sequence[Pair], rng: np.random.Generator) -> list[Pair]:
        """Draw additional pairs from neighbours in the corpus; the generator decides which.

        Joined pairs and damaged sources are made of the corpus' pairs and of those that were swapped before.
        """
        drawn = self._swapped(pairs, rng)
        drawn += self._joined([*pairs, *drawn], rng)
        drawn += self._rewritten(pairs, rng)
        clean = [*pairs, *drawn]
        draws = rng.random(len(clean)) if self._augment.noise_share else np.empty(0)
        drawn += [
            (damage(source, rng), target)
            for (source, target), draw in zip(clean, draws, strict=False)
            if draw < self._augment.noise_share
        ]
        return drawn

    def _swapped(self, pairs: Sequence[Pair], rng: np.random.Generator) -> list[Pair]:
        """Swap names and numbers for others."""
        drawn: list[Pair] = []
        if self._copying is None:
            return drawn
        augment = self._augment
        for pair, draw in zip(pairs, rng.random(len(pairs)), strict=True):
            if draw >= max(augment.copy_share, augment.number_share):
                continue
            shared = self._copying.shares(*pair)
            share = {"number": augment.number_share, "name": augment.copy_share}.get(shared, 0.0)
            if draw < share:
                copies = augment.copies if shared == "number" else augment.name_copies
                # The same variant drawn twice counts once; a dict, unlike a set, keeps the order.
                drawn += dict.fromkeys(self._copying.augment(*pair, rng) for _ in range(copies))
        return drawn

    def _joined(self, pairs: Sequence[Pair], rng: np.random.Generator) -> list[Pair]:
        if self._joiner is None:
            return []
        firsts = np.flatnonzero(rng.random(len(pairs)) < self._augment.join_share).tolist()
        seconds = rng.integers(len(pairs), size=len(firsts)).tolist()
        return [self._joiner.join(pairs[i], pairs[j], rng) for i, j in zip(firsts, seconds, strict=True)]

    def _rewritten(self, pairs: Sequence[Pair], rng: np.random.Generator) -> list[Pair]:
        """Change both sides alike: masks, literals, tags, case and final marks."""
        augment, spans = self._augment, self._spans
        ways: list[tuple[float, Callable[[Pair, np.random.Generator], Pair | None]]] = []
        if spans is not None:
            ways += [(augment.mask_share, spans.masked), (augment.literal_share, spans.with_literals)]
            ways.append((augment.tag_share, spans.wrapped))
        ways.append((augment.surface_share, surface))
        drawn = []
        for share, change in ways:
            for place in np.flatnonzero(rng.random(len(pairs)) < share).tolist() if share else ():
                changed = change(pairs[place], rng)
                if changed is not None:
                    drawn.append(changed)
        return drawn


@dataclass(frozen=True)
class Drawing:
    """What a process needs to draw from a chunk.

    Attributes:
        augmenters: of each direction.
        tokenizer: of the model.
        max_tokens: pairs of so many are left out.
        readings: how often an epoch reads a pair of each origin; None for once.
        seed: of the run, and the variant.
    """

    augmenters: Sequence[PairAugmenter]
    tokenizer: Tokenizer
    max_tokens: int
    readings: NDArray[np.float64] | None
    seed: tuple[int, int]


def draw_chunk(drawing: Drawing, item: tuple[int, Chunk]) -> Rows:
    """Draw from the pairs of a chunk, as ids; its number, the variant and the run's seed decide.

    Args:
        drawing: what is learnt of the corpus.
        item: number of the chunk, and its text.
    """
    number, chunk = item
    rng = np.random.default_rng([*drawing.seed, number])
    pairs = [*zip(chunk.sources.split("\n"), chunk.targets.split("\n"), strict=True)]
    if drawing.readings is not None:
        read = rng.random(len(pairs)) < drawing.readings[chunk.origins]
        pairs = [pair for pair, wanted in zip(pairs, read, strict=True) if wanted]
    drawn = [
        pair
        for pair in drawing.augmenters[chunk.direction].draw(pairs, rng)
        if pair[0].strip() and pair[1].strip()
    ]
    if not drawn:
        return Rows(Column.of([]), Column.of([]), np.empty(0, np.uint16))
    sources, targets = ("\n".join(side) for side in zip(*drawn, strict=True))
    made = Chunk(chunk.prefix, sources, targets, np.zeros(len(drawn), np.uint16))
    return tokenise_chunk((drawing.tokenizer, drawing.max_tokens), made)
