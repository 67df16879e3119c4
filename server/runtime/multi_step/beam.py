"""The multi-step graph of beam search: several steps of a few sentences in one run of ONNX Runtime."""

import weakref
from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from server.errors import InferenceError
from server.runtime.model_spec import Array, ModelSpec
from server.runtime.multi_step.greedy import MultiStepGraph, Tensors, bans_of
from server.runtime.onnx.io_binding import bind_arrays
from server.runtime.sessions import Beams, BeamSteps, StepBuffers

FOUND = ("offers", "tokens", "totals", "chosen", "sums")
"""The first outputs of the graph; the others are the caches."""

INPUTS = frozenset({"steps", "stop", "end_id", "order", "scores", "room", "first_rows", "bans"})
"""Its inputs but for the decoder's."""

TENSORS = Tensors(INPUTS, FOUND)


class OnnxBeamMultiStep:
    """The graph with one worker's bindings; see `BeamMultiStepSession`. Owned by the worker thread."""

    def __init__(
        self,
        graphs: Sequence[MultiStepGraph],
        run_options: ort.RunOptions,
        stop: NDArray[np.int64],
        spec: ModelSpec,
    ) -> None:
        """Bind nothing yet; as `OnnxGreedyMultiStep`, but the first graph with a session runs."""
        self._graphs = graphs
        self._run_options = run_options
        self._stop = stop
        self._eos_id = spec.eos_id
        self._bans = bans_of(spec)
        # By address: whoever lets the buffers go gets their memory back.
        self._bound: weakref.WeakKeyDictionary[StepBuffers, dict[ort.InferenceSession, _Bound]] = (
            weakref.WeakKeyDictionary()
        )

    def run(self, buffers: StepBuffers, beams: Beams, steps: int) -> BeamSteps | None:
        """Make up to `steps` steps; see `BeamMultiStepSession.run`."""
        try:
            with self._graphs[0].traffic.run() as alone:
                session = next((found for graph in self._graphs if (found := graph.session(alone))), None)
                if session is None:
                    return None
                bound = self._bound_to(session, buffers)
                values = bound.run(beams, steps, self._run_options)
        except Exception as error:
            raise InferenceError(f"the decoder failed: {type(error).__name__}") from error
        offers, tokens, scores, chosen, sums = (values.pop(name) for name in FOUND)
        made = len(tokens)
        if not 1 <= made <= steps or tokens.min() < 0 or tokens.max() >= len(self._bans):
            raise InferenceError("the decoder failed: its tokens are none")
        for name, cache in values.items():
            buffers.outputs[name][:, :, : cache.shape[2]] = cache
        broken = ~np.isfinite(sums.reshape(chosen.shape).sum(axis=2))
        return BeamSteps(offers // offers.shape[2], tokens, scores, chosen, broken)

    def _bound_to(self, session: ort.InferenceSession, buffers: StepBuffers) -> "_Bound":
        """Bind the arrays of some sentences, unless they are bound already."""
        bound = self._bound.setdefault(buffers, {})
        if session not in bound:
            bound[session] = _Bound(session, buffers, self._stop, self._eos_id, self._bans)
        return bound[session]


class _Bound:
    """The inputs of so many sentences, bound to a session."""

    def __init__(
        self,
        session: ort.InferenceSession,
        buffers: StepBuffers,
        stop: NDArray[np.int64],
        eos_id: int,
        bans: NDArray[np.float32],
    ) -> None:
        rows, count = len(buffers.inputs["input_ids"]), len(buffers.inputs["cross_lengths"])
        self._session = session
        self._own: dict[str, Array] = {
            "steps": np.zeros((), np.int64),
            "stop": stop,
            "end_id": np.array(eos_id, np.int64),
            "order": np.zeros(rows, np.int64),
            "scores": np.zeros((rows, 1)),
            "room": np.zeros(count, np.int64),
            "first_rows": (np.arange(count, dtype=np.int64) * (rows // count))[:, None],
            "bans": bans,
        }
        self._names = [node.name for node in session.get_outputs()]
        self._binding = bind_arrays(session, {**buffers.inputs, **self._own}, {})

    def run(self, beams: Beams, steps: int, run_options: ort.RunOptions) -> dict[str, Array]:
        """Make steps; returns the outputs by name."""
        own = self._own
        own["steps"][...] = steps
        own["order"][...], own["scores"][...] = beams.order.reshape(-1), beams.scores.reshape(-1, 1)
        own["room"][...] = beams.room
        own["bans"][own["end_id"]] = 0 if beams.may_end else -np.inf
        for name in self._names:
            self._binding.bind_output(name, "cpu")  # anew: their sizes differ
        self._session.run_with_iobinding(self._binding, run_options)
        return dict(zip(self._names, self._binding.copy_outputs_to_cpu(), strict=True))
