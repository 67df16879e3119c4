"""Where a model's memory lies: in numpy arrays, or on a device that numpy cannot reach.

What an arena knows of a sentence (lengths, positions, its place) is the same for both and stays with the
arena; keys, values and scores lie behind these Protocols.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from server.runtime.model_spec import ModelSpec

Tensor = Any
"""A numpy array, or a device's tensor: has `shape`, and `[first:last]` is a part of the same memory."""

Places = NDArray[np.intp]
Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]


class Caches(Protocol):
    """Keys and values of the sentences of one arena. Owned by the worker thread.

    Attributes:
        target_capacity: positions P that a row's self-attention cache has room for.
        source_capacity: positions S that a sentence's cross-attention cache has room for.
        nbytes: bytes of all keys and values, filled or not.
    """

    target_capacity: int
    source_capacity: int
    nbytes: int

    def allocate(self, target_capacity: int, source_capacity: int) -> None:
        """Replace all caches by empty ones.

        Raises:
            MemoryError: there is no room.
        """

    def grow_target(self, capacity: int, used: int) -> None:
        """Make the self-attention caches hold `capacity` positions; the first `used` rows keep theirs."""

    def grow_source(self, capacity: int, used: int) -> None:
        """Make the cross-attention caches hold `capacity` positions; `used` sentences keep theirs."""

    def admit(self, first: int, encoded: Sequence[Tensor], lengths: NDArray[np.int32]) -> None:
        """Store what an encoder returned.

        Args:
            first: place of the first sentence; the others follow.
            encoded: as from `EncoderSession.encode`.
            lengths: int32 [n], source lengths, none above the capacity.
        """

    def continue_rows(self, rows: Places, parents: Places, filled: int) -> None:
        """Copy the first `filled` positions of rows `parents` [M], as they were before, to `rows` [M]."""

    def move(self, place: int, last: int, filled: int, source: int) -> None:
        """Copy the sentence at `last` to `place`: `filled` target and `source` source positions.

        It may be done later, with others: nothing else may be asked for before `flush_moves`.
        """

    def flush_moves(self) -> None:
        """Do what `move` has put off."""

    def padded_batch(self, count: int) -> int:
        """Give the size of the padded batch in which a step of `count` sentences is made.

        At least `count`, and no more than there are places. What the padding yields is never read.
        """

    def tensors(self, rows: slice, sentences: slice) -> Iterator[tuple[str, Tensor]]:
        """Give the decoder's inputs of some sentences and their rows by name."""

    def zeros(self, shape: Sequence[int]) -> Tensor:
        """Make float32 zeros where the caches lie."""

    def clear(self, tensor: Tensor) -> None:
        """Set a tensor that `zeros` made, or a part of it, to zero."""


class Ranker(Protocol):
    """Ranks scores where they lie. Owned by the worker thread."""

    def best(self, logits: Tensor) -> tuple[NDArray[np.int64], Floats]:
        """Find the best columns of every row, the same for a row alone and in any batch.

        Args:
            logits: float32 [R, V], C-contiguous; of one V the same few tensors every time, or prefixes.

        Returns:
            Columns int64 [R, k], best first and of equal ones the lowest first, and their natural
            log-probabilities float32 [R, k]; all NaN for a row whose scores are not finite. They may be
            overwritten and are valid until the next call.
        """


class DeviceRanker(Ranker, Protocol):
    """Brings scores from a device to the host, few or all. What is never written is not ranked."""

    def whole(self, logits: Tensor) -> Floats:
        """Copy the scores [R, V]; they may be overwritten and are valid until the next call."""


class Device(Protocol):
    """A device that keeps caches and scores to itself. Thread-safe."""

    def caches(self, spec: ModelSpec, beam_width: int, max_sentences: int) -> Caches:
        """Make caches without capacity."""

    def ranker(self, spec: ModelSpec, rows: int, best: int) -> DeviceRanker:
        """Make a ranker of up to `rows` rows that finds the `best` best columns."""
