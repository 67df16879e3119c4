"""Where a model's memory lies: in numpy arrays, or on a device that numpy cannot reach.

What an arena knows of a sentence (lengths, positions, its place) is the same for both and stays with the
arena; keys, values and scores lie behind these classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from server.runtime.model_spec import ModelSpec, cache_names

Tensor = Any
"""A numpy array, or a device's tensor: has `shape`, and `[first:last]` is a part of the same memory."""

Places = NDArray[np.intp]
Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]


class Caches(ABC):
    """Keys and values of up to `max_sentences` sentences, those of one arena. Owned by the worker thread.

    Attributes:
        target_capacity: positions P that a row's self-attention cache has room for.
        source_capacity: positions S that a sentence's cross-attention cache has room for.
        nbytes: bytes of all keys and values, filled or not.
    """

    def __init__(self, spec: ModelSpec, beam_width: int, max_sentences: int) -> None:
        """Have no capacity yet; for `max_sentences` of `beam_width` rows."""
        self._spec = spec
        self._beam_width = beam_width
        self._max_sentences = max_sentences
        layers = spec.decoder_layers
        self._names = {kind: cache_names(layers, kind) for kind in ("cross", "cross_last")}
        self._names["self"] = spec.self_names
        if not spec.appends_cross:
            self._names["cross_last"] = []
        self._self: list[Tensor] = []
        self._cross: list[Tensor] = []
        self._last = self._empty("cross_last", 1)
        self.target_capacity = self.source_capacity = self.nbytes = 0

    def tensors(self, rows: slice, sentences: slice) -> Iterator[tuple[str, Tensor]]:
        """Give the decoder's inputs of some sentences and their rows by name."""
        for kind, tensors, part in (
            ("self", self._self, rows),
            ("cross", self._cross, sentences),
            ("cross_last", self._last, sentences),
        ):
            for name, tensor in zip(self._names[kind], tensors, strict=True):
                yield name, tensor[part]

    def allocate(self, target_capacity: int, source_capacity: int) -> None:
        """Replace all caches by empty ones.

        Raises:
            MemoryError: there is no room.
        """
        self._self, self._cross = [], []  # before others are made
        self._self = self._empty("self", target_capacity)
        self._cross = self._empty("cross", source_capacity)
        self._count(target_capacity)

    def grow_target(self, capacity: int, used: int) -> None:
        """Make the self-attention caches hold `capacity` positions; the first `used` rows keep theirs."""
        if not self._spec.state_size:
            self._self = self._grown("self", self._self, capacity, used)
        self._count(capacity)

    def grow_source(self, capacity: int, used: int) -> None:
        """Make the cross-attention caches hold `capacity` positions; `used` sentences keep theirs."""
        self._cross = self._grown("cross", self._cross, capacity, used)
        self._count(self.target_capacity)

    @abstractmethod
    def admit(self, first: int, encoded: Sequence[Tensor], lengths: NDArray[np.int32]) -> None:
        """Store what an encoder returned.

        Args:
            first: place of the first sentence; the others follow.
            encoded: as from `EncoderSession.encode`.
            lengths: int32 [n], source lengths, none above the capacity.
        """

    @abstractmethod
    def continue_rows(self, rows: Places, parents: Places, filled: int) -> None:
        """Copy the first `filled` positions of rows `parents` [M], as they were before, to `rows` [M]."""

    @abstractmethod
    def move(self, place: int, last: int, filled: int, source: int) -> None:
        """Copy the sentence at `last` to `place`: `filled` target and `source` source positions.

        It may be done later, with others: nothing else may be asked for before `flush_moves`.
        """

    @abstractmethod
    def flush_moves(self) -> None:
        """Do what `move` has put off."""

    @abstractmethod
    def padded_batch(self, count: int) -> int:
        """Give the size of the padded batch in which a step of `count` sentences is made.

        At least `count`, and no more than there are places. What the padding yields is never read.
        """

    @abstractmethod
    def zeros(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Tensor:
        """Make zeros where the caches lie."""

    @abstractmethod
    def clear(self, tensor: Tensor) -> None:
        """Set a tensor that `zeros` made, or a part of it, to zero."""

    @abstractmethod
    def _grown(self, kind: str, old: list[Tensor], capacity: int, used: int) -> list[Tensor]:
        """Copy the first `used` rows or sentences of caches into larger ones; may empty `old`."""

    def _empty(self, kind: str, capacity: int) -> list[Tensor]:
        """Make caches of a kind; a state is a cache of one position."""
        spec, sentences, dtype = self._spec, self._max_sentences, self._spec.cache_dtype
        rows = sentences * self._beam_width if kind == "self" else sentences
        shape: tuple[int, ...] = (rows, spec.decoder_heads, capacity, spec.head_size)
        if kind == "self" and spec.state_size:
            shape, dtype = (rows, 1, 1, spec.state_size), spec.state_dtype
        elif kind == "cross_last":
            shape = (rows, 1, spec.decoder_heads * spec.head_size)
        return [self.zeros(shape, dtype) for _ in self._names[kind]]

    def _count(self, target_capacity: int) -> None:
        """Note the capacities and sum up the bytes, after each change of them."""
        self.target_capacity, self.source_capacity = target_capacity, self._cross[0].shape[2]
        self.nbytes = sum(tensor.nbytes for kind in (self._self, self._cross, self._last) for tensor in kind)


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
