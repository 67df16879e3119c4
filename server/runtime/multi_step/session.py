"""Sessions of multi-step graphs: several steps of a few sentences in one run of ONNX Runtime."""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from server.errors import InferenceError
from server.runtime.model_spec import Array, ModelSpec
from server.runtime.multi_step.graphs import BEAM_OUTPUTS, TOKENS, MultiStepGraph
from server.runtime.onnx.sessions import PROCESS_TRAFFIC, bind_arrays
from server.runtime.sessions import Beams, BeamSteps, StepBuffers

Plan = TypeVar("Plan")
Made = TypeVar("Made")


class _OnnxMultiStep(ABC, Generic[Plan, Made]):
    """Graphs with one worker's bindings; see `MultiStepSession`. Owned by the worker thread."""

    def __init__(
        self,
        graphs: Sequence[MultiStepGraph],
        run_options: ort.RunOptions,
        stop: NDArray[np.int64],
        spec: ModelSpec,
    ) -> None:
        """Bind nothing yet.

        Args:
            graphs: at least one; the first that has a session for a run makes it.
            run_options: options of every run.
            stop: int64 []; bound where it is, so that a run sees what is written to it.
            spec: of the model.
        """
        self._graphs = graphs
        self._run_options = run_options
        self._eos_id = spec.eos_id
        self._bans = np.zeros(spec.vocabulary_size, np.float32)
        self._bans[list(spec.suppressed_ids)] = -np.inf
        self._own: dict[str, Array] = {
            "steps": np.zeros((), np.int64),
            "stop": stop,
            "end_id": np.array(spec.eos_id, np.int64),
            "bans": self._bans,
        }
        # Weak: memory is freed as soon as the caller drops the buffers.
        self._bound: weakref.WeakKeyDictionary[StepBuffers, dict[ort.InferenceSession, _Bound]] = (
            weakref.WeakKeyDictionary()
        )

    def run(self, buffers: StepBuffers, plan: Plan, steps: int) -> Made | None:
        """Make up to `steps` steps; see `MultiStepSession.run`."""
        try:
            with PROCESS_TRAFFIC.run() as alone:
                session = next((found for graph in self._graphs if (found := graph.session(alone))), None)
                if session is None:
                    return None
                bound = self._bound_to(session, buffers)
                self._own["steps"][...] = steps
                self._bans[self._eos_id] = 0 if self._state(plan, bound.state) else -np.inf
                found = bound.run(self._run_options)
        except Exception as error:
            raise InferenceError(f"the decoder failed: {type(error).__name__}") from error
        tokens = found[TOKENS]
        if not 1 <= len(tokens) <= steps or tokens.min() < 0 or tokens.max() >= len(self._bans):
            raise InferenceError("the decoder failed: its tokens are none")
        return self._made(found, buffers)

    @abstractmethod
    def _bind(self, session: ort.InferenceSession, buffers: StepBuffers) -> "_Bound":
        """Bind the arrays of some sentences."""

    @abstractmethod
    def _state(self, plan: Plan, state: Mapping[str, Array]) -> bool:
        """Write a plan into the inputs that hold it; gives whether the end token may be taken."""

    @abstractmethod
    def _made(self, found: dict[str, Array], buffers: StepBuffers) -> Made:
        """Read what a run found."""

    def _bound_to(self, session: ort.InferenceSession, buffers: StepBuffers) -> "_Bound":
        """Bind the arrays of some sentences, unless they are bound already."""
        bound = self._bound.setdefault(buffers, {})
        if session not in bound:
            bound[session] = self._bind(session, buffers)
        return bound[session]


class OnnxGreedyMultiStep(_OnnxMultiStep[bool, NDArray[np.int64]]):
    """Takes the best tokens and writes the caches in place. Owned by the worker thread."""

    def _bind(self, session: ort.InferenceSession, buffers: StepBuffers) -> "_Bound":
        return _Bound(session, {**buffers.inputs, **self._own}, {}, buffers.outputs)

    def _state(self, plan: bool, state: Mapping[str, Array]) -> bool:
        return plan

    def _made(self, found: dict[str, Array], buffers: StepBuffers) -> NDArray[np.int64]:
        tokens: NDArray[np.int64] = found[TOKENS][:, :, 0]
        return tokens


class OnnxBeamMultiStep(_OnnxMultiStep[Beams, BeamSteps]):
    """Makes the steps of a beam search; a failed run has written nothing. Owned by the worker thread."""

    def _bind(self, session: ort.InferenceSession, buffers: StepBuffers) -> "_Bound":
        rows, count = len(buffers.inputs["input_ids"]), len(buffers.inputs["cross_lengths"])
        first_rows = (np.arange(count, dtype=np.int64) * (rows // count))[:, None]
        state = {
            "order": np.zeros(rows, np.int64),
            "scores": np.zeros((rows, 1)),
            "room": np.zeros(count, np.int64),
        }
        return _Bound(session, {**buffers.inputs, **self._own, "first_rows": first_rows}, state, {})

    def _state(self, plan: Beams, state: Mapping[str, Array]) -> bool:
        state["order"][...] = plan.order.reshape(-1)
        state["scores"][...] = plan.scores.reshape(-1, 1)
        state["room"][...] = plan.remaining
        return plan.may_end

    def _made(self, found: dict[str, Array], buffers: StepBuffers) -> BeamSteps:
        candidates, tokens, scores, chosen, sums = (found.pop(name) for name in BEAM_OUTPUTS)
        for name, cache in found.items():
            buffers.outputs[name][:, :, : cache.shape[2]] = cache
        broken = ~np.isfinite(sums.reshape(chosen.shape).sum(axis=2))
        return BeamSteps(candidates // candidates.shape[2], tokens, scores, chosen, broken)


class _Bound:
    """The arrays of so many sentences, bound to a session."""

    def __init__(
        self,
        session: ort.InferenceSession,
        inputs: Mapping[str, Array],
        state: Mapping[str, Array],
        in_place: Mapping[str, Array],
    ) -> None:
        """Bind inputs, state that is written before every run, and outputs with a place of their own.

        The other outputs are allocated in every run.
        """
        self.state = state
        self._session = session
        names = [node.name for node in session.get_outputs()]
        self._allocated = [name for name in names if name not in in_place]
        self._inputs = {**inputs, **state}  # they must live as long as the binding
        self._binding = session.io_binding()
        self._bind_allocated()  # they come first, and results are read by their order
        bind_arrays(
            session,
            self._inputs,
            {name: in_place[name] for name in names if name in in_place},
            self._binding,
        )

    def run(self, run_options: ort.RunOptions) -> dict[str, Array]:
        """Make a run; gives the outputs that it allocated, by name."""
        self._bind_allocated()  # anew: their sizes differ
        self._session.run_with_iobinding(self._binding, run_options)
        found = self._binding.get_outputs()[: len(self._allocated)]
        return {name: value.numpy() for name, value in zip(self._allocated, found, strict=True)}

    def _bind_allocated(self) -> None:
        for name in self._allocated:
            self._binding.bind_output(name, "cpu")
