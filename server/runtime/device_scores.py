"""What a decoding step tells the host: of every row the best columns and a normaliser, not the whole row.

For greedy search that is one column, for K beams 2K: 1,000 times fewer numbers than a vocabulary has.

**Ties.** By ONNX's definition the lower of two equal columns is the better one, and ONNX Runtime's CPU kernel
keeps to it. Of its CUDA kernels not all do: where more than k columns reach the k-th score, which of the
equal ones are found depends on the kernel that is chosen for the size.

**Broken rows.** `TopK` may overlook a NaN; the sum of exponentials does not, so that a row which holds one,
or an infinity, has a normaliser that is not finite.
"""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .device import DeviceRun, DeviceTensor, OnnxDevice
from .memory import Floats, Reduced
from .onnx_writer import GraphWriter
from .session import ModelSpec

_FLOAT, _INT64 = np.dtype(np.float32), np.dtype(np.int64)


class DeviceReducer:
    """Reduces scores on a device; see `memory.Reducer`. Owned by the worker thread."""

    def __init__(self, device: OnnxDevice, spec: ModelSpec, rows: int, best: int) -> None:
        """Load the graph.

        Args:
            device: where the scores are.
            spec: with the vocabulary and the tokens that are never written.
            rows: most rows at a time.
            best: columns k of every row that are wanted; not more than the vocabulary has.
        """
        self._device = device
        self._vocabulary = spec.vocabulary_size
        self._rows = rows
        best = min(best, spec.vocabulary_size)
        graph = reducing_graph(spec.vocabulary_size, best, spec.suppressed_ids)
        self._reduce = DeviceRun(device.session(graph), device.run_options)
        # The tensor that the runs are bound to: the same one, until the batch has another size.
        self._bound: dict[DeviceRun, tuple[int, int]] = {}
        self._results: dict[str, NDArray[Any]] = {
            "values": np.empty((rows, best), np.float32),
            "columns": np.empty((rows, best), np.int64),
            "normalisers": np.empty(rows, np.float32),
            "all_normalisers": np.empty(rows, np.float32),
        }

    def best(self, logits: DeviceTensor) -> Reduced:
        """Find the best columns of every row; see `memory.Reducer`.

        Raises:
            MemoryError: the run failed.
        """
        rows = logits.shape[0]
        self._run(self._reduce, logits, {name: array[:rows] for name, array in self._results.items()})
        values, columns, normalisers, all_normalisers = (array[:rows] for array in self._results.values())
        by_row = np.arange(rows)[:, None]
        order = np.argsort(columns, axis=1)
        return Reduced(columns[by_row, order], values[by_row, order], normalisers, all_normalisers)

    def whole(self, logits: DeviceTensor) -> Floats:
        """Copy the scores to the host; see `memory.Reducer`.

        Raises:
            MemoryError: the run failed.
        """
        copy, host = self._whole
        scores = host[: logits.shape[0]]
        self._run(copy, logits, {"copy": scores})
        return scores

    @functools.cached_property
    def _whole(self) -> tuple[DeviceRun, Floats]:
        """The graph that copies, and room for all rows; most batches never need it."""
        graph = GraphWriter()
        graph.input("logits", _FLOAT, ["R", self._vocabulary])
        graph.node("Identity", ["logits"], ["copy"])
        graph.output("copy", _FLOAT, ["R", self._vocabulary])
        run = DeviceRun(self._device.session(graph.serialise()), self._device.run_options)
        return run, np.empty((self._rows, self._vocabulary), np.float32)

    def _run(self, run: DeviceRun, logits: DeviceTensor, outputs: dict[str, NDArray[Any]]) -> None:
        where = (logits.address, logits.shape[0])
        if self._bound.get(run) != where:
            run.bind_inputs({"logits": logits})
            run.bind_outputs(outputs)
            self._bound[run] = where
        try:
            run.run()
        except Exception as error:  # on a device that works, there is only one reason
            raise MemoryError(f"scores cannot be reduced: {error}") from error


def reducing_graph(vocabulary: int, best: int, suppressed_ids: tuple[int, ...]) -> bytes:
    """Write the graph that finds the best columns and the normalisers of rows.

    Args:
        vocabulary: columns V.
        best: columns k of each row to find.
        suppressed_ids: columns that do not count.
    """
    graph = GraphWriter()
    scores = graph.input("logits", _FLOAT, ["R", vocabulary])
    _log_sum_exp(graph, scores, "all_normalisers")
    if suppressed_ids:
        never = np.zeros(vocabulary, np.float32)
        never[list(suppressed_ids)] = -np.inf
        scores = graph.node("Add", [scores, graph.weight(never)])
        _log_sum_exp(graph, scores, "normalisers")
    else:
        graph.node("Identity", ["all_normalisers"], ["normalisers"])
    graph.node("TopK", [scores, graph.weight(np.array([best], np.int64))], ["values", "columns"])
    graph.output("values", _FLOAT, ["R", best])
    graph.output("columns", _INT64, ["R", best])
    graph.output("normalisers", _FLOAT, ["R"])
    graph.output("all_normalisers", _FLOAT, ["R"])
    return graph.serialise()


def _log_sum_exp(graph: GraphWriter, scores: str, name: str) -> None:
    """Add the log-sum-exp of every row, in float32 and shifted by the largest."""
    axis = graph.weight(np.array([1], np.int64))
    graph.node("TopK", [scores, graph.weight(np.array([1], np.int64))], [f"largest_{name}", f"where_{name}"])
    largest = f"largest_{name}"
    exponentials = graph.node("Exp", [graph.node("Sub", [scores, largest])])
    total = graph.node("Log", [graph.node("ReduceSum", [exponentials, axis])])
    graph.node("Squeeze", [graph.node("Add", [total, largest]), axis], [name])
