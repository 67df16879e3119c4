"""Token-budget batches of sentences of similar length, in an order that a seed fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.features.rows import Row, are_features


@dataclass(frozen=True)
class Batch:
    """Sentences padded to tensors.

    Attributes:
        source_ids: int64 [N, S], each ending in eos, right-padded; or features, float32 [N, S, F].
        source_lengths: int64 [N].
        target_in: int64 [N, T], start token then the target, right-padded.
        target_out: int64 [N, T], the target then eos, right-padded.
        target_tokens: number of entries of ``target_out`` that are not padding; of the whole batch, if this
            is one process's share of it.
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


def pad_rows(rows: Sequence[Row], pad_id: int) -> Tensor:
    """Stack rows of ids into int64 [N, longest], right-padded; features into float32 [N, longest, F]."""
    longest = max(len(row) for row in rows)
    if are_features(rows):
        padded = np.zeros((len(rows), longest, np.shape(rows[0])[1]), np.float32)
    else:
        padded = np.full((len(rows), longest), pad_id, dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return torch.from_numpy(padded)


def collate(
    sources: Sequence[Row],
    targets: Sequence[Row],
    *,
    pad_id: int,
    start_id: int,
    eos_id: int,
) -> Batch:
    """Build a batch from rows without special ids; features get no end."""
    if are_features(sources):
        source_ids = pad_rows(sources, pad_id).numpy()
        source_lengths = np.fromiter(map(len, sources), np.int64, len(sources))
    else:
        source_ids, source_lengths = _padded(sources, pad_id, eos_id)
    target_out, target_lengths = _padded(targets, pad_id, eos_id)
    target_in = np.full_like(target_out, start_id)
    target_in[:, 1:] = np.where(target_out[:, :-1] == eos_id, pad_id, target_out[:, :-1])
    return Batch(
        source_ids=torch.from_numpy(source_ids),
        source_lengths=torch.from_numpy(source_lengths),
        target_in=torch.from_numpy(target_in),
        target_out=torch.from_numpy(target_out),
        target_tokens=int(target_lengths.sum()),
    )


def _padded(rows: Sequence[Row], pad_id: int, eos_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Stack rows with eos behind each, int64 [N, longest + 1]; and their lengths with eos, int64 [N].

    All rows in one assignment: a loop takes 2 us a row, which is as long as a GPU needs for it.
    """
    lengths = np.fromiter(map(len, rows), np.int64, len(rows)) + 1
    padded = np.full((len(rows), int(lengths.max())), pad_id, dtype=np.int64)
    place = np.arange(padded.shape[1])
    padded[place < lengths[:, None] - 1] = np.concatenate([np.asarray(row, np.int64) for row in rows])
    padded[np.arange(len(rows)), lengths - 1] = eos_id
    return padded, lengths


def take_share(batch: Batch, rank: int, count: int, pad_id: int) -> Batch:
    """Take every ``count``-th sentence of a batch, from ``rank`` on, and no more padding than they need.

    The shares of all ranks are the batch: sums over them are those of the batch. A rank that gets no sentence
    gets one whose targets are all padding, so that it takes part in the backward pass and adds nothing.
    """
    if count == 1:
        return batch
    rows = slice(rank, None, count) if rank < batch.source_ids.shape[0] else slice(0, 1)
    targets = batch.target_out[rows]
    lengths = batch.source_lengths[rows]
    sources = int(lengths.max())
    width = int((targets != pad_id).sum(dim=1).max())
    if rank >= batch.source_ids.shape[0]:
        targets = torch.full_like(targets, pad_id)
    return Batch(
        source_ids=batch.source_ids[rows, :sources],
        source_lengths=lengths,
        target_in=batch.target_in[rows, :width],
        target_out=targets[:, :width],
        target_tokens=batch.target_tokens,
    )
