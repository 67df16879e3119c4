"""Keys and values on a device: every change of an arena is one run of a small graph there.

The graph moves positions. All caches of one kind have the same shape, so that the same indices say for all of
them which position goes where; each is bound as a table of positions [X, D]. A position is read before any is
written (ScatterND takes what Gather gave), and the table that is written is bound as input and output at the
same address, so that only what moves is touched: both ScatterND kernels, CPU and CUDA, copy the rest only if
the addresses differ.

Positions are moved in pieces of a few integers, the widest that divide them: ScatterND on CUDA has one thread
for each piece, which copies number by number, and every piece has an index of its own.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server.runtime.device.device import DeviceRun, DeviceTensor, OnnxDevice, bucket_size
from server.runtime.memory import Caches, Places
from server.runtime.model_spec import ModelSpec
from server.runtime.onnx.graph_writer import GraphWriter

Indices = NDArray[np.int64]
Pair = tuple[DeviceTensor, DeviceTensor]

_INT64 = np.dtype(np.int64)
_WORDS: dict[int, np.dtype[Any]] = {8: _INT64, 4: np.dtype(np.int32), 2: np.dtype(np.int16)}

PIECE_WORDS = 4
"""Integers of a piece, if that divides a position: 32 bytes, by which a GPU reads memory."""


class DeviceCaches(Caches):
    """Keys and values on a device. Owned by the worker thread."""

    def __init__(self, device: OnnxDevice, spec: ModelSpec, beam_width: int, max_sentences: int) -> None:
        """Have no capacity yet; caches are of float16 or float32."""
        self._device = device
        super().__init__(spec, beam_width, max_sentences)
        self._heads, self._dtype = spec.decoder_heads, spec.cache_dtype
        self._head_size = spec.head_size
        # A state is a cache of one position, with as many heads as make up its size.
        self._has_state = spec.state_size > 0
        self._self_heads = spec.state_size // spec.head_size or spec.decoder_heads
        # Moves since the last `flush_moves`: where to, where from, and how much of the sentences.
        self._origins: dict[int, int] = {}
        self._filled = self._source = 0

    def allocate(self, target_capacity: int, source_capacity: int) -> None:
        """Replace all caches by empty ones; see `memory.Caches`."""
        self._forget()
        self._origins, self._filled, self._source = {}, 0, 0
        super().allocate(target_capacity, source_capacity)

    def admit(self, first: int, encoded: Sequence[DeviceTensor], lengths: NDArray[np.int32]) -> None:
        """Store what an encoder returned; see `memory.Caches`."""
        given, added = np.arange(len(lengths)), np.arange(first, first + len(lengths))
        longest = encoded[0].shape[2]
        from_firsts = self._firsts(given, longest)
        ends = np.repeat(lengths.astype(np.int64) - 1, self._heads)[:, None]
        kinds = [list(zip(encoded, self._cross, strict=True))]
        moves = [(from_firsts, self._firsts(added, self.source_capacity), int(lengths.max()))]
        if self._last:
            kinds.append(list(zip(encoded, self._last, strict=True)))
            moves.append((from_firsts + ends, self._firsts(added, 1), 1))
        self._move(kinds)(*moves)

    def continue_rows(self, rows: Places, parents: Places, filled: int) -> None:
        """Copy the filled positions of rows; see `memory.Caches`."""
        self._reordering((self._own(parents), self._own(rows), self._own_positions(filled)))

    def move(self, place: int, last: int, filled: int, source: int) -> None:
        """Note that a sentence goes to another place; see `memory.Caches`."""
        self._origins[place] = self._origins.pop(last, last)
        self._filled, self._source = max(self._filled, filled), max(self._source, source)

    def flush_moves(self) -> None:
        """Move all sentences that change places, in one run; see `memory.Caches`."""
        if not self._origins:
            return
        read, written = (np.array([*places]) for places in (self._origins.values(), self._origins))
        source = self.source_capacity
        moves = [
            (self._of_rows(read), self._of_rows(written), self._own_positions(self._filled)),
            (self._firsts(read, source), self._firsts(written, source), self._source),
        ]
        if self._last:
            moves.append((self._firsts(read, 1), self._firsts(written, 1), 1))
        self._moving(*moves)
        self._origins, self._filled, self._source = {}, 0, 0

    def padded_batch(self, count: int) -> int:
        """Round up to a size that is met again soon; see `memory.Caches`."""
        return min(self._max_sentences, bucket_size(count))

    def zeros(self, shape: Sequence[int], dtype: np.dtype[Any]) -> DeviceTensor:
        """Make zeros on the device."""
        return self._device.zeros(shape, dtype)

    def clear(self, tensor: DeviceTensor) -> None:
        """Set a tensor to zero."""
        self._device.clear(tensor)

    @functools.cached_property
    def _reordering(self) -> "Move":
        """Moves within the self-attention caches, bound once until they grow."""
        return self._move([[(tensor, tensor) for tensor in self._self]])

    @functools.cached_property
    def _moving(self) -> "Move":
        """Moves of a sentence with all it has, likewise."""
        kinds = (self._self, self._cross, self._last)
        return self._move([[(tensor, tensor) for tensor in tensors] for tensors in kinds if tensors])

    def _move(self, groups: Sequence[Sequence[Pair]]) -> "Move":
        """Bind tensors for moves; see `Move`."""
        return Move(self._device, self._head_size * self._dtype.itemsize, groups)

    def _forget(self) -> None:
        """Drop the bindings of caches that are about to be replaced, and their memory with them."""
        self.__dict__.pop("_reordering", None)
        self.__dict__.pop("_moving", None)

    def _grown(self, kind: str, old: list[DeviceTensor], capacity: int, used: int) -> list[DeviceTensor]:
        """Copy caches into larger ones; for that moment both exist."""
        self._forget()
        new, places = self._empty(kind, capacity), np.arange(used)
        if used:
            before = old[0].shape[2]
            move = self._move([list(zip(old, new, strict=True))])
            move((self._firsts(places, before), self._firsts(places, capacity), before))
        return new

    def _of_rows(self, sentences: Places) -> Indices:
        """Give the first position of every head of all rows of sentences [M]: int64 [M*K*H, 1]."""
        rows = sentences[:, None] * self._beam_width + np.arange(self._beam_width)
        return self._own(rows.reshape(-1))

    def _own(self, rows: Places) -> Indices:
        """Give the first position of every head of rows [M] in what is kept of targets: int64 [M*H, 1]."""
        return _firsts(rows, self._self_heads, self._own_positions(self.target_capacity))

    def _own_positions(self, target: int) -> int:
        """Give how many positions a target of that many tokens takes: as many, or one if it is a state."""
        return min(1, target) if self._has_state else target

    def _firsts(self, rows: Places, capacity: int) -> Indices:
        """Give the first position of every head of rows [M] in a table of positions: int64 [M*H, 1]."""
        return _firsts(rows, self._heads, capacity)


def _firsts(rows: Places, heads: int, capacity: int) -> Indices:
    """Give the first position of every head of rows [M] in a table of positions: int64 [M*H, 1]."""
    places = rows[:, None].astype(np.int64) * heads + np.arange(heads)
    return (places * capacity).reshape(-1, 1)


class Move:
    """A move whose tensors are bound and whose indices are not. Owned by the worker thread."""

    def __init__(self, device: OnnxDevice, position_bytes: int, groups: Sequence[Sequence[Pair]]) -> None:
        """Bind tensors.

        Args:
            device: where.
            position_bytes: size of what one head keeps of one position.
            groups: of pairs (read, written); the pairs of a group move alike.
        """
        word = _WORDS[math.gcd(position_bytes, 8)]
        words = math.gcd(position_bytes // word.itemsize, PIECE_WORDS)
        piece_bytes = words * word.itemsize
        self._pieces = position_bytes // piece_bytes
        graph = moving_graph(tuple(map(len, groups)), word, words)
        self._run = DeviceRun(device.session(graph), device.run_options)
        for group, pairs in enumerate(groups):
            for pair, tensors in enumerate(pairs):
                read, table = (one.view((one.nbytes // piece_bytes, words), word) for one in tensors)
                self._run.bind_inputs({f"read_{group}_{pair}": read, f"table_{group}_{pair}": table})
                self._run.bind_outputs({f"written_{group}_{pair}": table})

    def __call__(self, *groups: tuple[Indices, Indices, int]) -> None:
        """Move, for each group, runs of positions.

        Args:
            *groups: first positions to read [B, 1], first positions to write [B, 1], and how many follow.

        Raises:
            MemoryError: the run failed; what it wrote is undefined.
        """
        inputs: dict[str, Indices] = {}
        for group, (read, written, count) in enumerate(groups):
            inputs[f"from_{group}"], inputs[f"to_{group}"] = read * self._pieces, written * self._pieces
            inputs[f"offsets_{group}"] = np.arange(count * self._pieces, dtype=np.int64)[None]
        try:
            self._run.run(inputs)
        except Exception as error:  # on a device that works, there is only one reason
            raise MemoryError(f"positions cannot be moved: {error}") from error


@functools.cache
def moving_graph(sizes: tuple[int, ...], word: np.dtype[Any], words: int) -> bytes:
    """Write the graph that moves pieces of so many words of a dtype, for groups of so many pairs."""
    graph = GraphWriter()
    last_axis = graph.weight(np.array([-1], np.int64))
    for group, size in enumerate(sizes):
        rows = f"rows_{group}"
        read = graph.input(f"from_{group}", _INT64, [rows, 1])
        written = graph.input(f"to_{group}", _INT64, [rows, 1])
        offsets = graph.input(f"offsets_{group}", _INT64, [1, f"count_{group}"])
        read = graph.node("Add", [read, offsets])
        written = graph.node("Unsqueeze", [graph.node("Add", [written, offsets]), last_axis])
        for pair in range(size):
            name = f"{group}_{pair}"
            source = graph.input(f"read_{name}", word, [f"pieces_read_{name}", words])
            table = graph.input(f"table_{name}", word, [f"pieces_{name}", words])
            moved = graph.node("Gather", [source, read], axis=0)
            graph.node("ScatterND", [table, written, moved], [f"written_{name}"])
            graph.output(f"written_{name}", word, [f"pieces_{name}", words])
    return graph.serialise()
