"""Chooses the activation ranges of static int8 by watching the fp32 graphs translate a sample."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from numpy.typing import NDArray

from export.graph.large_weights import write_graph
from export.graph.products import GraphIndex, find_products
from export.graph.runner import GraphRunner, Observer, Source, Tokens
from export.int8.quantize import ActivationRange

Method = Literal["minmax", "percentile", "mse"]

# With 99.9 the divergence from fp32 is 15 times that of 99.99; beyond 99.99 nothing is gained.
_PERCENTILE = 99.999
_KEPT_ROWS = 0.25
_SEARCH_VALUES = 50_000


@dataclass(frozen=True, slots=True)
class CalibratedRanges:
    """What a sample showed of a model.

    Attributes:
        encoder: one range for each product of the encoder graph, in the order of ``find_products``.
        decoder: the same for the decoder graph.
        caches: largest magnitude of every channel of a cache, float32 [E], by the name of the decoder's input
            (``self_key_0``, ``cross_value_5``).
    """

    encoder: list[ActivationRange]
    decoder: list[ActivationRange]
    caches: dict[str, NDArray[np.float32]] = field(default_factory=dict)


def hash_sample(texts: Sequence[str]) -> str:
    """SHA-256 of a sample: its sentences in UTF-8, or features in base64, each ended by a line feed."""
    return hashlib.sha256("".join(f"{text}\n" for text in texts).encode()).hexdigest()


def calibrate(
    encoder: onnx.ModelProto,
    decoder: onnx.ModelProto,
    sources: Sequence[Source],
    method: Method,
    *,
    start_id: int,
    eos_id: int,
    pad_id: int,
    threads: int = 1,
    suppressed_ids: Sequence[int] = (),
    max_positions: int | None = None,
    prefixes: Sequence[Tokens] = (),
    folder: Path | None = None,
) -> CalibratedRanges:
    """Translate a sample greedily with the fp32 graphs and choose a range for the input of every product.

    Args:
        encoder: fp32 encoder graph.
        decoder: fp32 decoder graph for beam width 1.
        sources: ids of each sentence, prefix and suffix included; or its features.
        method: ``minmax`` covers every value seen, ``percentile`` all but the outermost 0.001 % a side,
            ``mse`` takes the interval with the least squared rounding and clipping error.
        start_id: decoding starts with it.
        eos_id: ends a sentence.
        pad_id: fills up a batch.
        threads: intra-op threads.
        suppressed_ids: tokens that are never written.
        max_positions: of the model; None if no sentence can come near.
        prefixes: what each sentence's target begins with; empty for nothing.
        folder: of the files that large weights of the graphs are kept in, if they are.

    Returns:
        Ranges for both graphs; padding and finished sentences do not count.
    """
    encoder_names, decoder_names = _watched(encoder, folder), _watched(decoder, folder)
    packed = packed_projections(decoder.graph)
    runner = GraphRunner(
        _with_outputs(encoder, encoder_names, folder, "watched.encoder.onnx"),
        _with_outputs(decoder, [*decoder_names, *packed], folder, "watched.decoder.onnx"),
        start_id=start_id,
        eos_id=eos_id,
        pad_id=pad_id,
        threads=threads,
        suppressed_ids=suppressed_ids,
        max_positions=max_positions,
    )
    seen_encoder, seen_decoder = _Recorder(encoder_names), _Recorder(decoder_names)
    channels = _Channels(packed)
    observe_encoder = _both(seen_encoder.observe, channels.observe_memory)
    observe_decoder = _both(seen_decoder.observe, channels.observe_packed)
    for _ in runner.greedy(sources, prefixes=prefixes, observe=(observe_encoder, observe_decoder)):
        pass
    return CalibratedRanges(seen_encoder.ranges(method), seen_decoder.ranges(method), channels.largest)


def _both(first: Observer, second: Observer) -> Observer:
    def observe(name: str, values: NDArray[np.float32], real: NDArray[np.bool_]) -> None:
        first(name, values, real)
        second(name, values, real)

    return observe


def choose_range(values: NDArray[np.float32], low: float, high: float, method: Method) -> ActivationRange:
    """Pick the interval that 8 unsigned bits cover.

    Args:
        values: float32 [M], a sample of the activations.
        low: smallest value seen, in the sample or not.
        high: largest value seen.
        method: see ``calibrate``.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if method == "minmax" or values.size == 0:
        return ActivationRange(low, high)
    if method == "percentile":
        below, above = np.percentile(values, (100 - _PERCENTILE, _PERCENTILE))
        return ActivationRange(max(low, min(float(below), 0.0)), min(high, max(float(above), 0.0)))
    stride = max(1, values.size // _SEARCH_VALUES)
    return _least_squares(values[::stride].astype(np.float32), low, high)


def _least_squares(values: NDArray[np.float32], low: float, high: float) -> ActivationRange:
    def error(interval: ActivationRange) -> float:
        scale, zero = interval.scale, np.float32(interval.zero_point)
        steps = np.clip(np.rint(values / scale) + zero, 0, 255)
        return float(np.square((steps - zero) * scale - values).mean())

    best = ActivationRange(low, high)
    # Halving four times covers any outlier; then ever finer around the best. Both ends move on their own.
    for factors in (
        2.0 ** -np.arange(0, 4.5, 0.5),
        2.0 ** np.array([-0.25, 0, 0.25]),
        2.0 ** np.array([-0.1, 0, 0.1]),
    ):
        lows = np.maximum(low, best.low * factors) if low < 0 else np.zeros(1)
        highs = np.minimum(high, best.high * factors) if high > 0 else np.zeros(1)
        best = min((ActivationRange(float(a), float(b)) for a in lows for b in highs), key=error)
    return best


class _Recorder:
    """Extremes and a sample of every watched tensor."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._low = dict.fromkeys(names, 0.0)
        self._high = dict.fromkeys(names, 0.0)
        self._kept: Mapping[str, list[NDArray[np.float32]]] = {name: [] for name in names}
        self._random = np.random.default_rng(0)

    def observe(self, name: str, values: NDArray[np.float32], real: NDArray[np.bool_]) -> None:
        if name not in self._kept:
            return
        if values.ndim > real.ndim + 1:
            values = values.reshape(*real.shape, -1)
        unpadded = values.shape[: real.ndim] != real.shape  # [T, E]: real tokens alone
        rows = values if unpadded else values[real]
        if rows.size == 0:
            return
        self._low[name] = min(self._low[name], float(rows.min()))
        self._high[name] = max(self._high[name], float(rows.max()))
        self._kept[name].append(rows[self._random.random(len(rows)) < _KEPT_ROWS].ravel())

    def ranges(self, method: Method) -> list[ActivationRange]:
        nothing = np.zeros(0, np.float32)
        return [
            choose_range(
                np.concatenate([nothing, *self._kept[name]]), self._low[name], self._high[name], method
            )
            for name in self._names
        ]


class _Channels:
    """Largest magnitude of every channel of what the caches will hold."""

    def __init__(self, packed: Mapping[str, int]) -> None:
        self._packed = packed
        self.largest: dict[str, NDArray[np.float32]] = {}

    def observe_memory(self, name: str, values: NDArray[np.float32], real: NDArray[np.bool_]) -> None:
        """Look at keys or values for cross-attention, [N, H, S, D]; ``real`` is [N, S]."""
        if name.startswith("cross_"):
            self._note(name, values.transpose(0, 2, 1, 3)[real].reshape(int(real.sum()), -1))

    def observe_packed(self, name: str, values: NDArray[np.float32], real: NDArray[np.bool_]) -> None:
        """Look at packed queries, keys and values of one layer, [R, 1, 3*E]; ``real`` is [R]."""
        if name in self._packed:
            _, key, value = np.split(values[real].reshape(int(real.sum()), -1), 3, axis=1)
            self._note(f"self_key_{self._packed[name]}", key)
            self._note(f"self_value_{self._packed[name]}", value)

    def _note(self, cache: str, values: NDArray[np.float32]) -> None:
        if len(values):
            largest = np.abs(values).max(axis=0)
            self.largest[cache] = np.maximum(self.largest.get(cache, largest), largest)


def packed_projections(graph: onnx.GraphProto) -> dict[str, int]:
    """Names of the packed queries, keys and values [R, 1, 3*E] of a decoder graph, with their layer."""
    return {
        node.input[0]: int(node.input[3].rpartition("_")[2])
        for node in graph.node
        if node.op_type == "GroupQueryAttention" and node.input[3].startswith("self_key_")
    }


def _watched(model: onnx.ModelProto, folder: Path | None) -> list[str]:
    return [product.input for product in find_products(model.graph, GraphIndex(model.graph, folder))]


def _with_outputs(
    model: onnx.ModelProto, names: Sequence[str], folder: Path | None, file: str
) -> bytes | Path:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    for name in dict.fromkeys(names):
        watched.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    if folder is not None:
        return write_graph(watched, folder / file)
    content: bytes = watched.SerializeToString()
    return content
