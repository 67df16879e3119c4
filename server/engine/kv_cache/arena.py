"""The key/value arena: the memory of the sentences that decode together at one beam width.

Sentences are packed: sentence n owns rows n*K .. n*K+K-1, and N sentences always fill the first N places. A
batch of N sentences is therefore a prefix of every buffer, and the decoder binds it with the same address and
a smaller shape. A sentence that ends leaves a hole; the last sentence moves into it.

P (target capacity) and S (source capacity) start small and grow by doubling up to the model's limits; an
empty arena gives grown memory back. Only filled positions are ever copied.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server.engine.sentence_arrays import SentenceArrays
from server.runtime.memory import Caches, Places, Tensor
from server.runtime.model_spec import Array, ModelSpec
from server.runtime.sessions import StepBuffers

FIRST_CAPACITY = 32
"""Positions of a new arena, enough for most single sentences."""

KEPT_CAPACITY = 128
"""Positions that an empty arena keeps: giving memory back after every sentence would cost time."""


def next_capacity(needed: int, limit: int) -> int:
    """Round up to a power of two times the first capacity, but not above the model's limit."""
    capacity = FIRST_CAPACITY
    while capacity < needed:
        capacity *= 2
    return max(needed, min(capacity, limit))


class HostCaches(Caches):
    """Keys and values in memory of the process. Owned by the worker thread."""

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

    def zeros(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Make zeros."""
        return np.zeros(shape, dtype)

    def clear(self, tensor: Array) -> None:
        """Set an array to zero."""
        tensor[...] = 0

    def _grown(self, kind: str, old: list[Array], capacity: int, used: int) -> list[Array]:
        """Copy caches into larger ones, one after the other so that only one exists twice."""
        grown = []
        while old:
            one = old.pop(0)
            new = np.zeros((*one.shape[:2], capacity, one.shape[3]), one.dtype)
            new[:used, :, : one.shape[2]] = one[:used]
            grown.append(new)
        return grown


class Arena:
    """Caches, lengths and step inputs of up to `max_sentences` sentences. Owned by the worker thread.

    Lengths and step inputs are numpy arrays; keys, values and scores lie where `Caches` puts them.

    Attributes:
        beam_width: rows K per sentence.
        max_sentences: places for sentences.
        count: sentences in it, N.
        source_lengths: int32 [max_sentences], source tokens of each sentence.
        target_lengths: int32 [max_sentences], decoder steps done for each sentence.
        input_ids: int64 [max_sentences*K, 1], the next input of every row; written by the search.
        logits: scores of the last step, float32 [max_sentences*K, V], or as `bind_projection` was told.
    """

    def __init__(
        self,
        spec: ModelSpec,
        beam_width: int,
        max_sentences: int,
        caches: Caches | None = None,
        *,
        has_own_logits: bool = True,
    ) -> None:
        """Allocate the smallest capacity.

        Args:
            spec: sizes of the model.
            beam_width: rows per sentence.
            max_sentences: most sentences at a time.
            caches: for as many sentences of this width; numpy arrays if None.
            has_own_logits: whether scores of the whole vocabulary are allocated; if not, `bind_projection`
                must be called before the first step.
        """
        rows = max_sentences * beam_width
        self._spec = spec
        self.beam_width = beam_width
        self.max_sentences = max_sentences
        self.count = 0
        self._arrays = arrays = SentenceArrays(max_sentences)
        self.source_lengths = arrays.array(np.int32)
        self.target_lengths = arrays.array(np.int32)
        self.input_ids = arrays.array(np.int64, beam_width).reshape(rows, 1)
        self._positions = arrays.array(np.int64, beam_width).reshape(rows, 1)
        self._self_lengths = arrays.array(np.int32, beam_width).reshape(rows)
        self._cross_lengths = arrays.array(np.int32)
        self._caches: Caches = caches or HostCaches(spec, beam_width, max_sentences)
        self._projection_inputs: Mapping[str, Tensor] = {}
        self.logits: Tensor = self._caches.zeros(
            (rows if has_own_logits else 0, spec.vocabulary_size), np.dtype(np.float32)
        )
        self._self_total = np.zeros((), np.int32)
        self._cross_total = np.zeros((), np.int32)
        self._longest: int | None = None  # steps done for the oldest sentence; None after others came or left
        self._prefixes: dict[int, StepBuffers] = {}
        self._allocate_smallest()

    @property
    def rows(self) -> int:
        """Rows in use, N*K."""
        return self.count * self.beam_width

    @property
    def cache_bytes(self) -> int:
        """Bytes of all keys and values, filled or not."""
        return self._caches.nbytes

    @property
    def target_capacity(self) -> int:
        """Positions P that a row's self-attention cache has room for."""
        return self._caches.target_capacity

    @property
    def free_positions(self) -> int:
        """Positions that every row can still be given before caches have to grow."""
        return self.target_capacity - self.longest_target

    @property
    def longest_target(self) -> int:
        """Decoder steps done for the oldest sentence."""
        return int(self.target_lengths[: self.count].max())

    @property
    def source_capacity(self) -> int:
        """Positions S that a sentence's cross-attention cache has room for."""
        return self._caches.source_capacity

    def admit(self, cross: Sequence[Tensor], lengths: NDArray[np.int32]) -> int:
        """Add encoded sentences behind those that are there.

        Args:
            cross: what an encoder returns: per layer key and value, [n, H, S, D].
            lengths: int32 [n], source lengths.

        Returns:
            The place of the first of them; the others follow.
        """
        first, added = self.count, len(lengths)
        last = first + added
        longest = int(lengths.max())
        if longest > self.source_capacity:
            self._prefixes.clear()
            self._caches.grow_source(next_capacity(longest, self._spec.max_source_tokens), self.count)
        self._caches.admit(first, cross, lengths)
        self.count = last
        self.source_lengths[first:last] = lengths
        self.target_lengths[first:last] = 0
        rows = slice(first * self.beam_width, last * self.beam_width)
        self.input_ids[rows] = self._spec.decoder_start_id
        self._positions[rows] = 0
        self._self_lengths[rows] = 0
        self._cross_lengths[first:last] = lengths - 1
        self._longest = None
        return first

    def bind_projection(self, inputs: Mapping[str, Tensor], logits: Tensor) -> None:
        """Let the decoder read and write other arrays at its last product from the next step on.

        Args:
            inputs: further inputs of the decoder, the same for all rows.
            logits: float32 [max_sentences*K, C], where it writes the scores.
        """
        self._projection_inputs, self.logits = inputs, logits
        self._prefixes.clear()

    def prepare_step(self) -> None:
        """Make room for one more position of every row and set the scalar inputs."""
        if self._longest is None:
            self._longest = int(self.target_lengths[: self.count].max())
            self._cross_total[...] = self._cross_lengths[: self.count].max() + 1
        longest = self._longest + 1
        if longest > self.target_capacity:
            self._prefixes.clear()
            self._caches.grow_target(next_capacity(longest, self._spec.max_target_tokens), self.rows)
        self._self_total[...] = longest

    def buffers(self, first: int, count: int) -> StepBuffers:
        """Give the arrays of `count` sentences from place `first` on, as the decoder's inputs and outputs.

        Prefixes are kept until the next growth, so that a decoder sees the same object for the same batch
        size. Those of all sentences may be padded (`Caches.padded_batch`): what a step writes behind them is
        overwritten by who comes there.
        """
        if first == 0 and count == self.count:
            count = self._pad_batch()
        if first == 0 and count in self._prefixes:
            return self._prefixes[count]
        sentences = slice(first, first + count)
        rows = slice(first * self.beam_width, (first + count) * self.beam_width)
        inputs: dict[str, Tensor] = {
            "input_ids": self.input_ids[rows],
            "positions": self._positions[rows],
            "self_lengths": self._self_lengths[rows],
            "self_total": self._self_total,
            "cross_lengths": self._cross_lengths[sentences],
            "cross_total": self._cross_total,
            **self._projection_inputs,
        }
        outputs: dict[str, Tensor] = {"logits": self.logits[rows]}
        for name, tensor in self._caches.tensors(rows, sentences):
            inputs[name] = tensor
            if not name.startswith("cross_last"):
                outputs[_output_name(name)] = tensor
        buffers = StepBuffers(inputs, outputs)
        if first == 0:
            self._prefixes[count] = buffers
        return buffers

    def finish_step(self, steps: int = 1) -> None:
        """Count the positions that the decoder has just written for every row."""
        if self._longest is not None:
            self._longest += steps
        self.target_lengths[: self.count] += steps
        self._positions[: self.rows] += steps
        self._self_lengths[: self.rows] += steps

    def reorder(self, rows: NDArray[np.intp], parents: NDArray[np.intp]) -> None:
        """Let rows continue other rows' targets: copy the filled self-attention cache of `parents` to `rows`.

        Args:
            rows: [M], rows that change parent.
            parents: [M], the row each continues, as it was before this call; of the same sentence.
        """
        filled = int(self.target_lengths[rows // self.beam_width].max())
        self._caches.continue_rows(rows, parents, filled)

    def zero_logits(self, place: int) -> None:
        """Set the scores of a sentence to zero, so that the search stays in finite numbers."""
        rows = slice(place * self.beam_width, (place + 1) * self.beam_width)
        self._caches.clear(self.logits[rows])

    def retire(self, place: int) -> None:
        """Drop the sentence at `place`; another last one moves there. End a series with `flush_moves`."""
        last = self.count - 1
        if place != last:
            self._caches.move(place, last, int(self.target_lengths[last]), int(self.source_lengths[last]))
            self._arrays.move(last, place)
        self.count, self._longest = last, None
        if last == 0 and max(self.target_capacity, self.source_capacity) > KEPT_CAPACITY:
            self._allocate_smallest()

    def flush_moves(self) -> None:
        """Let the caches do what they have put off, after the last of some sentences was dropped."""
        self._caches.flush_moves()

    def _pad_batch(self) -> int:
        """Let dummy sentences begin in the padding of a step; gives the size of the padded batch."""
        padded = self._caches.padded_batch(self.count)
        if padded > self.count:
            rows = slice(self.rows, padded * self.beam_width)
            for array in (self.input_ids, self._positions, self._self_lengths):
                array[rows] = 0
            self._cross_lengths[self.count : padded] = 0
        return padded

    def _allocate_smallest(self) -> None:
        """Replace all caches by empty ones of the first capacity."""
        self._prefixes.clear()
        self._caches.allocate(
            min(FIRST_CAPACITY, self._spec.max_target_tokens),
            min(FIRST_CAPACITY, self._spec.max_source_tokens),
        )


def _output_name(name: str) -> str:
    """`self_key_3` -> `self_key_out_3`: the output that updates this input in place."""
    kind, part, layer = name.split("_")
    return f"{kind}_{part}_out_{layer}"
