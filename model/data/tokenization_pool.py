"""Tokenizes chunks of a corpus on all processors."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.data.process_pool import mapped
from model.data.token_table import Column, fits
from model.tokenizer import Tokenizer

_FEW = 8
"""Chunks the caller tokenizes itself: of 16,384 pairs each, a second, as long as a pool takes to start."""


@dataclass(frozen=True)
class Chunk:
    """Neighbouring pairs of one direction, as lines of two strings: lists take ten times as long to send.

    Attributes:
        prefix: ids before every source.
        sources: one sentence a line.
        targets: its translation, same line.
        origins: number of the origin of each pair.
        direction: number of the direction.
    """

    prefix: Sequence[int]
    sources: str
    targets: str
    origins: NDArray[np.uint16]
    direction: int = 0


@dataclass(frozen=True)
class Rows:
    """The ids of a chunk.

    Attributes:
        sources: of each pair that is short enough.
        targets: of its translation.
        origins: uint16, its origin.
    """

    sources: Column
    targets: Column
    origins: NDArray[np.uint16]


def tokenised(chunks: Iterable[Chunk], tokenizer: Tokenizer, max_tokens: int) -> Iterator[Rows]:
    """Yield the ids of each chunk in order, without pairs of ``max_tokens`` or more with eos on a side."""
    return mapped(tokenise_chunk, (tokenizer, max_tokens), chunks, few=_FEW)


def tokenise_chunk(state: tuple[Tokenizer, int], chunk: Chunk) -> Rows:
    """Turn a chunk into ids.

    Args:
        state: tokenizer, and the length in tokens from which on a pair is left out.
        chunk: the text.
    """
    tokenizer, max_tokens = state
    sources = tokenizer.encode_batch(chunk.sources.split("\n"))
    if chunk.prefix:
        sources = [[*chunk.prefix, *ids] for ids in sources]
    targets = tokenizer.encode_target_batch(chunk.targets.split("\n"))
    columns = Column.of(sources), Column.of(targets)
    kept = fits(np.diff(columns[0].offsets), np.diff(columns[1].offsets), max_tokens)
    if kept.all():
        return Rows(*columns, chunk.origins)
    sources, targets = (list(itertools.compress(side, kept)) for side in (sources, targets))
    return Rows(Column.of(sources), Column.of(targets), chunk.origins[kept])
