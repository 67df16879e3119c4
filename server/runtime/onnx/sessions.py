"""Encoder and decoder as ONNX Runtime sessions on the processor."""

import weakref
from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from server.errors import InferenceError
from server.runtime.model_spec import Array, ModelSpec, cache_names
from server.runtime.onnx.graph import PROCESS_TRAFFIC, Graph
from server.runtime.onnx.io_binding import bind_step
from server.runtime.sessions import StepBuffers


class OnnxEncoder:
    """The encoder graph. Thread-safe."""

    def __init__(self, graph: Graph, run_options: ort.RunOptions, spec: ModelSpec) -> None:
        """Wrap a loaded graph.

        Args:
            graph: the encoder graph.
            run_options: options of every run.
            spec: of the model; each decoder layer has an output for keys and one for values.
        """
        self._graph = graph
        self._run_options = run_options
        self._source = spec.source_input
        self._outputs = list(cache_names(spec.decoder_layers, "cross"))

    def encode(self, source: Array, lengths: NDArray[np.int32]) -> Sequence[Array]:
        """Compute cross-attention keys and values; see `EncoderSession.encode`."""
        feeds = {self._source: source, "lengths": lengths}
        try:
            with PROCESS_TRAFFIC.run() as alone:
                session = self._graph.session(alone)
                outputs: Sequence[Array] = session.run(self._outputs, feeds, self._run_options)
        except Exception as error:
            raise InferenceError(f"the encoder failed: {type(error).__name__}") from error
        return outputs


class OnnxDecoder:
    """A decoder graph with this worker's bindings. Owned by one worker thread."""

    def __init__(self, graph: Graph, run_options: ort.RunOptions) -> None:
        """Wrap a loaded graph.

        Args:
            graph: the decoder graph of one beam width.
            run_options: options of every run.
        """
        self._graph = graph
        self._run_options = run_options
        self._bindings: weakref.WeakKeyDictionary[StepBuffers, dict[bool, ort.IOBinding]] = (
            weakref.WeakKeyDictionary()
        )

    def step(self, buffers: StepBuffers) -> None:
        """Run the decoder for one target position of every row; see `DecoderSession.step`."""
        try:
            with PROCESS_TRAFFIC.run() as alone:
                session = self._graph.session(alone)
                bindings = self._bindings.setdefault(buffers, {})
                if alone not in bindings:
                    bindings[alone] = bind_step(session, buffers)
                session.run_with_iobinding(bindings[alone], self._run_options)
        except Exception as error:
            raise InferenceError(f"the decoder failed: {type(error).__name__}") from error
