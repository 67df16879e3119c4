"""What makes several steps in one run, of one bundle: for greedy search and for each beam width."""

import threading
from collections.abc import Callable

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from export.bundle import Graphs
from server.runtime.model_spec import ModelSpec
from server.runtime.multi_step import beam, greedy
from server.runtime.multi_step.beam import OnnxBeamMultiStep
from server.runtime.multi_step.greedy import MultiStepGraph, OnnxGreedyMultiStep, Tensors
from server.runtime.onnx.concurrency import Traffic


class MultiStepGraphs:
    """The graphs, each loaded when a sentence first could need it. Thread-safe."""

    def __init__(
        self,
        graphs: Graphs,
        loader: Callable[[str], Callable[[int], ort.InferenceSession]],
        threads: int,
        solo_threads: int,
        traffic: Traffic,
        is_unchanged: Callable[[], bool],
    ) -> None:
        """Load nothing yet.

        Args:
            graphs: of the bundle.
            loader: given a file, gives what makes a session of it with so many threads.
            threads: of a run beside others.
            solo_threads: of a run that has the machine to itself.
            traffic: knows who runs.
            is_unchanged: as for `graph.Graph`.
        """
        self._files = graphs.beam_multi_step
        self._loader = loader
        self._threads, self._solo_threads = threads, solo_threads
        self._traffic, self._is_unchanged = traffic, is_unchanged
        self._lock = threading.Lock()
        self._greedy: MultiStepGraph | None = None
        if graphs.multi_step is not None:
            alone = max(threads, solo_threads)
            self._greedy = self._graph(graphs.multi_step, alone, greedy.TENSORS, alone > 1)
        self._beams: dict[int, list[MultiStepGraph]] = {}

    def load(self, beam_width: int) -> None:
        """Load the graphs for greedy search and for a beam width now."""
        graphs = [] if self._greedy is None else [self._greedy]
        for graph in graphs + self._beam_graphs(beam_width):
            graph.session(alone=True)

    def greedy(
        self, spec: ModelSpec, run_options: ort.RunOptions, stop: NDArray[np.int64]
    ) -> OnnxGreedyMultiStep | None:
        """Give what makes several greedy steps of a few sentences; see `Runtime.greedy_multi_step`."""
        if self._greedy is None:
            return None
        return OnnxGreedyMultiStep(self._greedy, run_options, stop, spec)

    def beams(
        self, beam_width: int, spec: ModelSpec, run_options: ort.RunOptions, stop: NDArray[np.int64]
    ) -> OnnxBeamMultiStep | None:
        """Give what makes several steps of a few sentences; see `Runtime.beam_multi_step`.

        Loaded now, with the first sentence of this width, though it may be long until there are few: memory
        that comes much later looks like a leak.
        """
        graphs = self._beam_graphs(beam_width)
        if not graphs:
            return None
        for graph in graphs:
            graph.session(alone=True)
        return OnnxBeamMultiStep(graphs, run_options, stop, spec)

    def _beam_graphs(self, beam_width: int) -> list[MultiStepGraph]:
        """Give a graph for who is alone, if that has more threads, and one for who is not, if any."""
        file = self._files.get(str(beam_width))
        with self._lock:
            if file is not None and beam_width not in self._beams:
                graphs = [self._graph(file, self._threads, beam.TENSORS, needs_machine=False)]
                if self._solo_threads > self._threads:
                    graphs.insert(0, self._graph(file, self._solo_threads, beam.TENSORS, needs_machine=True))
                self._beams[beam_width] = graphs
            return self._beams.get(beam_width, [])

    def _graph(self, file: str, threads: int, tensors: Tensors, needs_machine: bool) -> MultiStepGraph:
        return MultiStepGraph(
            file,
            self._loader(file),
            threads,
            self._traffic,
            self._is_unchanged,
            tensors=tensors,
            needs_machine=needs_machine,
        )
