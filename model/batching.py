"""Token-budget batches of sentences of similar length, in an order that a seed fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Sentences padded to tensors.

    Attributes:
        source_ids: int64 [N, S], each ending in eos, right-padded.
        source_lengths: int64 [N].
        target_in: int64 [N, T], start token then the target, right-padded.
        target_out: int64 [N, T], the target then eos, right-padded.
        target_tokens: number of entries of ``target_out`` that are not padding.
    """

    source_ids: Tensor
    source_lengths: Tensor
    target_in: Tensor
    target_out: Tensor
    target_tokens: int


def batches_by_tokens(
    source_lengths: np.ndarray, target_lengths: np.ndarray, max_tokens: int, rng: np.random.Generator | None
) -> list[np.ndarray]:
    """Group sentences so that no batch pads to more than ``max_tokens`` on either side.

    Sentences are sorted by length, so that padding is small; with ``rng`` ties are broken at random and the
    batches come in random order.

    Args:
        source_lengths: int [N].
        target_lengths: int [N].
        max_tokens: budget, padding included; a longer single sentence is a batch of its own.
        rng: source of randomness, or None for the sorted order.

    Returns:
        One int64 array of sentence indices a batch; every sentence exactly once.
    """
    count = len(source_lengths)
    ties = rng.random(count) if rng is not None else np.arange(count)
    order = np.lexsort((ties, source_lengths, target_lengths))
    batches = []
    start, widest = 0, 0
    for position, index in enumerate(order):
        width = int(max(source_lengths[index], target_lengths[index]))
        if position > start and max(widest, width) * (position - start + 1) > max_tokens:
            batches.append(order[start:position])
            start, widest = position, 0
        widest = max(widest, width)
    if count:
        batches.append(order[start:])
    if rng is not None:
        rng.shuffle(batches)
    return batches


def pad_rows(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Stack rows of ids into int64 [N, longest], right-padded."""
    padded = np.full((len(rows), max(len(row) for row in rows)), pad_id, dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return torch.from_numpy(padded)


def collate(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    pad_id: int,
    start_id: int,
    eos_id: int,
) -> Batch:
    """Build a batch from pieces without special ids."""
    return Batch(
        source_ids=pad_rows([[*row, eos_id] for row in sources], pad_id),
        source_lengths=torch.tensor([len(row) + 1 for row in sources]),
        target_in=pad_rows([[start_id, *row] for row in targets], pad_id),
        target_out=pad_rows([[*row, eos_id] for row in targets], pad_id),
        target_tokens=sum(len(row) + 1 for row in targets),
    )
