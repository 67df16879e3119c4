"""Chooses the activation ranges of static int8 by watching the fp32 graphs translate a sample."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx
from numpy.typing import NDArray

from export.products import GraphIndex, find_products
from export.quantize import ActivationRange
from export.runner import GraphRunner, Tokens, longest_target

Method = Literal["minmax", "percentile", "mse"]

# With 99.9 the divergence from fp32 is 15 times that of 99.99; beyond 99.99 nothing is gained.
_PERCENTILE = 99.999
_KEPT_ROWS = 0.25
_SEARCH_VALUES = 50_000
_BATCH_ROWS = 64


@dataclass(frozen=True, slots=True)
class CalibratedRanges:
    """One range for each product of a graph, in the order of ``find_products``."""

    encoder: list[ActivationRange]
    decoder: list[ActivationRange]


def hash_sample(texts: Sequence[str]) -> str:
    """SHA-256 of a sample: its sentences in UTF-8, each ended by a line feed."""
    return hashlib.sha256("".join(f"{text}\n" for text in texts).encode()).hexdigest()


def calibrate(
    encoder: onnx.ModelProto,
    decoder: onnx.ModelProto,
    sources: Sequence[Tokens],
    method: Method,
    *,
    start_id: int,
    eos_id: int,
    pad_id: int,
    threads: int = 1,
) -> CalibratedRanges:
    """Translate a sample greedily with the fp32 graphs and choose a range for the input of every product.

    Args:
        encoder: fp32 encoder graph.
        decoder: fp32 decoder graph for beam width 1.
        sources: ids of each sentence, prefix and suffix included.
        method: ``minmax`` covers every value seen, ``percentile`` all but the outermost 0.001 % a side,
            ``mse`` takes the interval with the least squared rounding and clipping error.
        start_id: decoding starts with it.
        eos_id: ends a sentence.
        pad_id: fills up a batch.
        threads: intra-op threads.

    Returns:
        Ranges for both graphs; padding and finished sentences do not count.
    """
    encoder_names, decoder_names = _watched(encoder), _watched(decoder)
    runner = GraphRunner(
        _with_outputs(encoder, encoder_names),
        _with_outputs(decoder, decoder_names),
        start_id=start_id,
        eos_id=eos_id,
        pad_id=pad_id,
        threads=threads,
    )
    seen_encoder, seen_decoder = _Recorder(encoder_names), _Recorder(decoder_names)
    ordered = sorted(sources, key=len)
    for start in range(0, len(ordered), _BATCH_ROWS):
        batch = ordered[start : start + _BATCH_ROWS]
        steps = longest_target(batch)
        done = np.zeros(len(batch), bool)

        def choose(
            position: int, logits: NDArray[np.float32], done: NDArray[np.bool_] = done, steps: int = steps
        ) -> NDArray[np.int64] | None:
            chosen: NDArray[np.int64] = logits.argmax(axis=1)
            np.logical_or(done, chosen == eos_id, out=done)
            return None if done.all() or position + 1 == steps else chosen

        runner.run(batch, steps, choose, seen_encoder.observe, seen_decoder.observe)
    return CalibratedRanges(
        [seen_encoder.choose(name, method) for name in encoder_names],
        [seen_decoder.choose(name, method) for name in decoder_names],
    )


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
        self._low = dict.fromkeys(names, 0.0)
        self._high = dict.fromkeys(names, 0.0)
        self._kept: Mapping[str, list[NDArray[np.float32]]] = {name: [] for name in names}
        self._random = np.random.default_rng(0)

    def observe(self, name: str, values: NDArray[np.float32], real: NDArray[np.bool_]) -> None:
        if values.ndim > real.ndim + 1:
            values = values.reshape(*real.shape, -1)
        rows = values[real]
        if rows.size == 0:
            return
        self._low[name] = min(self._low[name], float(rows.min()))
        self._high[name] = max(self._high[name], float(rows.max()))
        self._kept[name].append(rows[self._random.random(len(rows)) < _KEPT_ROWS].ravel())

    def choose(self, name: str, method: Method) -> ActivationRange:
        values = np.concatenate([np.zeros(0, np.float32), *self._kept[name]])
        return choose_range(values, self._low[name], self._high[name], method)


def _watched(model: onnx.ModelProto) -> list[str]:
    return [product.input for product in find_products(model.graph, GraphIndex(model.graph))]


def _with_outputs(model: onnx.ModelProto, names: Sequence[str]) -> bytes:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    for name in dict.fromkeys(names):
        watched.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    content: bytes = watched.SerializeToString()
    return content
