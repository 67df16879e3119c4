"""What a decoding step tells the host: of every row the best columns, not the whole row.

For greedy search that is one column, for K beams 2K: 1,000 times fewer numbers than a vocabulary has. The
graph is that of `onnx.top_k_ranker`; its runs are recorded, as a decoder's are.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from server.runtime.device.cuda_graphs import Recorder, ReplayedRun, StagingBuffer
from server.runtime.device.device import DeviceRun, DeviceTensor, OnnxDevice, bucket_size
from server.runtime.memory import Floats
from server.runtime.model_spec import ModelSpec
from server.runtime.onnx.graph_writer import GraphWriter
from server.runtime.onnx.top_k_ranker import ranking_graph

_FLOAT = np.dtype(np.float32)

FEW_COLUMNS = 1024
"""Up to which CUDA has other kernels; see `onnx.top_k_ranker`."""


class DeviceRanker:
    """Ranks scores on a device; see `memory.DeviceRanker`. Owned by the worker thread."""

    def __init__(self, device: OnnxDevice, spec: ModelSpec, rows: int, best: int) -> None:
        """Load the graph, which finds the `best` best columns of up to `rows` rows."""
        self._device = device
        self._vocabulary = spec.vocabulary_size
        self._rows = rows
        self._best = min(best, spec.vocabulary_size)
        graph = ranking_graph(
            spec.vocabulary_size,
            self._best,
            spec.suppressed_ids,
            doubts_softmax=spec.vocabulary_size <= FEW_COLUMNS,
        )
        self._recorder = Recorder(device, device.session_for_replays(graph), device.run_options)
        self._runs: dict[int, _Ranking] = {}

    def best(self, logits: DeviceTensor) -> tuple[NDArray[np.int64], Floats]:
        """Rank the columns of every row; see `memory.Ranker`. Raises MemoryError if the run failed."""
        rows = logits.shape[0]
        # The rows behind them are of the same memory, and what is found there is not looked at.
        padded = min(self._rows, bucket_size(rows))
        run = self._runs.get(padded)
        try:
            if run is None or run.address != logits.address:
                scores = logits.view((padded, self._vocabulary), _FLOAT)
                run = self._runs[padded] = _Ranking(self._recorder, scores, self._best)
            columns, log_probabilities = run()
        except Exception as error:  # on a device that works, there is only one reason
            raise MemoryError(f"scores cannot be ranked: {error}") from error
        return columns[:rows], log_probabilities[:rows]

    def whole(self, logits: DeviceTensor) -> Floats:
        """Copy the scores to the host; see `memory.DeviceRanker`. Raises MemoryError if the run failed."""
        copy, host = self._whole
        scores = host[: logits.shape[0]]
        copy.bind_inputs({"logits": logits})
        copy.bind_outputs({"copy": scores})
        try:
            copy.run()
        except Exception as error:  # as above
            raise MemoryError(f"scores cannot be copied: {error}") from error
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


class _Ranking:
    """Runs over so many rows at one address."""

    def __init__(self, recorder: Recorder, scores: DeviceTensor, best: int) -> None:
        rows = scores.shape[0]
        self.address = scores.address
        self._found = StagingBuffer(
            recorder.device,
            {
                "columns": np.zeros((rows, best), np.int64),
                "log_probabilities": np.zeros((rows, best), np.float32),
            },
        )
        self._run = ReplayedRun(recorder, {}, {}, {"logits": scores}, self._found.tensors)

    def __call__(self) -> tuple[NDArray[np.int64], Floats]:
        self._run.replay()
        found = self._found.fetch()
        return found["columns"], found["log_probabilities"]
