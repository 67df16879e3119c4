"""What a decoding step tells the host: of every row the best columns, not the whole row.

For greedy search that is one column, for K beams 2K: 1,000 times fewer numbers than a vocabulary has. The
graph is that of `ranking`.
"""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .device import DeviceRun, DeviceTensor, OnnxDevice
from .memory import Floats
from .onnx_writer import GraphWriter
from .ranking import ranking_graph
from .session import ModelSpec

_FLOAT = np.dtype(np.float32)


class DeviceRanker:
    """Ranks scores on a device; see `memory.DeviceRanker`. Owned by the worker thread."""

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
        graph = ranking_graph(spec.vocabulary_size, best, spec.suppressed_ids, doubts_softmax=True)
        self._rank = DeviceRun(device.session(graph), device.run_options)
        # The tensor that the runs are bound to: the same one, until the batch has another size.
        self._bound: dict[DeviceRun, tuple[int, int]] = {}
        self._columns = np.empty((rows, best), np.int64)
        self._log_probabilities = np.empty((rows, best), np.float32)

    def best(self, logits: DeviceTensor) -> tuple[NDArray[np.int64], Floats]:
        """Rank the columns of every row; see `memory.Ranker`.

        Raises:
            MemoryError: the run failed.
        """
        rows = logits.shape[0]
        columns, log_probabilities = self._columns[:rows], self._log_probabilities[:rows]
        self._run(self._rank, logits, {"columns": columns, "log_probabilities": log_probabilities})
        return columns, log_probabilities

    def whole(self, logits: DeviceTensor) -> Floats:
        """Copy the scores to the host; see `memory.DeviceRanker`.

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
            raise MemoryError(f"scores cannot be ranked: {error}") from error
