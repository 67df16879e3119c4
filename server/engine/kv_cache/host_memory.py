"""Keys and values in numpy arrays."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from server.runtime.memory import Caches, Places
from server.runtime.model_spec import Array, ModelSpec


class HostCaches(Caches):
    """Keys and values in memory of the process. Owned by the worker thread."""

    def __init__(self, spec: ModelSpec, beam_width: int, max_sentences: int) -> None:
        """Have no capacity yet; see `memory.Caches`."""
        super().__init__(spec, beam_width, max_sentences)
        last = (max_sentences, 1, spec.decoder_heads * spec.head_size)
        self._last = [np.zeros(last, spec.cache_dtype) for _ in self._names["cross_last"]]

    def allocate(self, target_capacity: int, source_capacity: int) -> None:
        """Replace all caches by empty ones; see `memory.Caches`."""
        spec, sentences = self._spec, self._max_sentences
        heads, size, dtype = spec.decoder_heads, spec.head_size, spec.cache_dtype
        rows = sentences * self._beam_width
        cross = (sentences, heads, source_capacity, size)
        self._self, self._cross = [], []
        for _ in self._names["self"]:
            self._self.append(
                np.zeros((rows, 1, 1, spec.state_size), spec.state_dtype)
                if spec.state_size
                else np.zeros((rows, heads, target_capacity, size), dtype)
            )
        for _ in self._names["cross"]:
            self._cross.append(np.zeros(cross, dtype))
        self._count(target_capacity)

    def grow_target(self, capacity: int, used: int) -> None:
        """Make room for `capacity` positions; see `memory.Caches`."""
        if not self._spec.state_size:
            self._self = _grown(self._self, capacity, used)
        self._count(capacity)

    def grow_source(self, capacity: int, used: int) -> None:
        """Make room for `capacity` positions; see `memory.Caches`."""
        self._cross = _grown(self._cross, capacity, used)
        self._count(self.target_capacity)

    def admit(self, first: int, encoded: Sequence[Array], lengths: NDArray[np.int32]) -> None:
        """Store what an encoder returned; see `memory.Caches`."""
        added, longest = len(lengths), int(lengths.max())
        last = first + added
        for array, given in zip(self._cross, encoded, strict=True):
            array[first:last, :, :longest] = given[:, :, :longest]
        for array, given in zip(self._last, encoded, strict=False):
            array[first:last] = given[np.arange(added), :, lengths - 1].reshape(added, 1, -1)

    def continue_rows(self, rows: Places, parents: Places, filled: int) -> None:
        """Copy the filled positions of rows; see `memory.Caches`."""
        for array in self._self:
            array[rows, :, :filled] = array[parents, :, :filled]

    def move(self, place: int, last: int, filled: int, source: int) -> None:
        """Copy a sentence to another place; see `memory.Caches`."""
        width = self._beam_width
        to_rows, from_rows = (slice(at * width, (at + 1) * width) for at in (place, last))
        for array in self._self:
            array[to_rows, :, :filled] = array[from_rows, :, :filled]
        for array in self._cross:
            array[place, :, :source] = array[last, :, :source]
        for array in self._last:
            array[place] = array[last]

    def flush_moves(self) -> None:
        """Do nothing: `move` puts nothing off."""

    def padded_batch(self, count: int) -> int:
        """Give the same number: on a processor every row costs; see `memory.Caches`."""
        return count

    def zeros(self, shape: Sequence[int]) -> Array:
        """Make float32 zeros."""
        return np.zeros(shape, np.float32)

    def clear(self, tensor: Array) -> None:
        """Set an array to zero."""
        tensor[...] = 0


def _grown(arrays: list[Array], capacity: int, used: int) -> list[Array]:
    """Copy caches into larger ones, one after the other so that only one exists twice."""
    grown = []
    while arrays:
        old = arrays.pop(0)
        new = np.zeros((*old.shape[:2], capacity, old.shape[3]), old.dtype)
        new[:used, :, : old.shape[2]] = old[:used]
        grown.append(new)
    return grown
