"""The multi-step graph: several greedy steps of a few sentences in one run of ONNX Runtime.

It is loaded when few sentences are first decoded, mostly golden ones at the start, and then stands in for the
decoder's own session of that kind (`graph.Graph`): with several threads if a step is worth them, and then
only while no other worker runs. That of beam search is run by `beam_multi_step`.
"""

import logging
import threading
import weakref
from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from export.bundle import BundleError
from server.errors import InferenceError
from server.runtime.model_spec import Array, ModelSpec
from server.runtime.onnx.concurrency import Traffic
from server.runtime.onnx.io_binding import bind_arrays
from server.runtime.sessions import StepBuffers

TOKENS = "tokens"
INPUTS = frozenset({"steps", "stop", "end_id", "bans"})
"""Its inputs but for the decoder's."""

_log = logging.getLogger("dragoman.runtime")


class Tensors(NamedTuple):
    """Inputs of a graph besides the decoder's, and its first outputs; behind them come the caches."""

    inputs: Set[str]
    outputs: Sequence[str]


TENSORS = Tensors(INPUTS, [TOKENS])


class MultiStepGraph:
    """A multi-step graph, loaded once. Thread-safe."""

    def __init__(
        self,
        file: str,
        load: Callable[[int], ort.InferenceSession],
        threads: int,
        traffic: Traffic,
        is_unchanged: Callable[[], bool],
        *,
        tensors: Tensors,
        needs_machine: bool = False,
    ) -> None:
        """Load nothing yet.

        Args:
            file: its name.
            load: makes a session with so many threads.
            threads: of a run.
            traffic: knows who runs.
            is_unchanged: as for `graph.Graph`.
            tensors: what it must have besides the decoder's.
            needs_machine: whether it is for a run that has the machine to itself.
        """
        self._file = file
        self._load = load
        self._threads = threads
        self._is_unchanged = is_unchanged
        self._inputs, self._outputs = tensors
        self._needs_machine = needs_machine
        self._lock = threading.Lock()
        self._session: ort.InferenceSession | None = None
        self._given_up = False
        self.traffic = traffic

    def session(self, alone: bool) -> ort.InferenceSession | None:
        """Give the session for a run; None if there is to be none."""
        if self._given_up or (self._needs_machine and not alone):
            return None
        with self._lock:
            if self._session is None and not self._given_up:
                try:
                    if not self._is_unchanged():
                        raise BundleError(self._file, "the bundle's files have changed since it was loaded")
                    self._session = self._checked(self._load(self._threads))
                except BundleError as error:
                    self._given_up = True
                    _log.warning("few sentences are decoded step by step: %s", error)
            return self._session

    def _checked(self, session: ort.InferenceSession) -> ort.InferenceSession:
        """Compare a graph's tensors with what is bound; those of the caches are the decoder's."""
        given = {node.name for node in session.get_inputs()}
        outputs = [node.name for node in session.get_outputs()]
        found, caches = outputs[: len(self._outputs)], outputs[len(self._outputs) :]
        missing = {"input_ids", *self._inputs} - given
        if missing or found != [*self._outputs] or not all(name.startswith("self_") for name in caches):
            raise BundleError(self._file, "the graph is none that makes several steps of a decoder")
        return session


class OnnxGreedyMultiStep:
    """The graph with one worker's bindings; see `GreedyMultiStepSession`. Owned by the worker thread."""

    def __init__(
        self,
        graph: MultiStepGraph,
        run_options: ort.RunOptions,
        stop: NDArray[np.int64],
        spec: ModelSpec,
    ) -> None:
        """Prepare what is the same in all runs.

        Args:
            graph: of the bundle.
            run_options: options of every run.
            stop: int64 []; bound where it is, so that a run sees what is written to it.
            spec: of the model.
        """
        self._graph = graph
        self._run_options = run_options
        self._eos_id = spec.eos_id
        self._own: dict[str, Array] = {
            "steps": np.zeros((), np.int64),
            "stop": stop,
            "end_id": np.array(spec.eos_id, np.int64),
            "bans": bans_of(spec),
        }
        # By address: whoever lets the buffers go gets their memory back.
        self._bindings: weakref.WeakKeyDictionary[StepBuffers, ort.IOBinding] = weakref.WeakKeyDictionary()

    def run(self, buffers: StepBuffers, steps: int, may_end: bool) -> NDArray[np.int64] | None:
        """Make up to `steps` steps; see `GreedyMultiStepSession.run`."""
        self._own["steps"][...] = steps
        self._own["bans"][self._eos_id] = 0 if may_end else -np.inf
        try:
            with self._graph.traffic.run() as alone:
                session = self._graph.session(alone)
                if session is None:
                    return None
                binding = self._binding(session, buffers)
                binding.bind_output(TOKENS, "cpu")  # anew: how many there are differs
                session.run_with_iobinding(binding, self._run_options)
                tokens: Array = binding.get_outputs()[0].numpy()
        except Exception as error:
            raise InferenceError(f"the decoder failed: {type(error).__name__}") from error
        made: NDArray[np.int64] = tokens[:, :, 0]
        if not 1 <= len(made) <= steps or made.min() < 0 or made.max() >= len(self._own["bans"]):
            raise InferenceError("the decoder failed: its tokens are none")
        return made

    def _binding(self, session: ort.InferenceSession, buffers: StepBuffers) -> ort.IOBinding:
        """Bind the arrays of some sentences, unless they are bound already."""
        if buffers not in self._bindings:
            wanted = {node.name for node in session.get_outputs()}
            caches = {name: array for name, array in buffers.outputs.items() if name in wanted}
            binding = session.io_binding()
            binding.bind_output(TOKENS, "cpu")  # the first of the outputs
            self._bindings[buffers] = bind_arrays(session, {**buffers.inputs, **self._own}, caches, binding)
        return self._bindings[buffers]


def bans_of(spec: ModelSpec) -> NDArray[np.float32]:
    """Give what is added to scores, float32 [V]: minus infinity for tokens that are never written, or 0."""
    bans = np.zeros(spec.vocabulary_size, np.float32)
    bans[list(spec.suppressed_ids)] = -np.inf
    return bans
