"""The seam between the engine and a model: Protocols, and what passes through them.

Tensor names and shapes are those of a bundle's graphs. The engine owns every buffer; an implementation only
binds them, so the same engine runs over ONNX Runtime, over a fake in tests and over memory on a device
(`memory`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from server.runtime.model_spec import Array, ModelSpec

if TYPE_CHECKING:
    from server.runtime.memory import Device, Ranker


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class StepBuffers:
    """The arrays of one decoder run by tensor name; C-contiguous, compared by identity.

    On a device the caches and `logits` are its tensors, the others numpy arrays as everywhere.

    As long as the same object is passed, addresses and shapes are the same and nothing has to be bound again.
    The caches are among the inputs and the outputs, as the same memory: the decoder updates them in place.

    Attributes:
        inputs: `input_ids` int64 [R, 1], `positions` int64 [R, 1], `self_lengths` int32 [R], `self_total`
            int32 [], `cross_lengths` int32 [N], `cross_total` int32 [], and per layer i `self_key_i`,
            `self_value_i` [R, H, P, D], or `self_state_i` [R, 1, 1, E] in their place, `cross_key_i`,
            `cross_value_i` [N, H, S, D], and if it
            appends them `cross_last_key_i`, `cross_last_value_i` [N, 1, H*D]. With a shortlist also
            `column_weights` int8 [E, C], `column_scales` and `column_biases` float32 [C].
        outputs: `logits` float32 [R, V], with a shortlist [R, C], and per layer `self_key_out_i`,
            `self_value_out_i` or `self_state_out_i`, `cross_key_out_i`, `cross_value_out_i`.
    """

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]


class EncoderSession(Protocol):
    """Runs the encoder. Thread-safe."""

    def encode(self, source: NDArray[Any], lengths: NDArray[np.int32]) -> Sequence[Any]:
        """Compute the cross-attention keys and values of N sentences.

        Args:
            source: ids int64 [N, S], or features float32 [N, S, F], padded on the right.
            lengths: int32 [N], true lengths, at least 1.

        Returns:
            `cross_key_0`, `cross_value_0`, `cross_key_1`, ...: [N, H, S, D] each, a pair for every decoder
            layer; positions past a sentence's length hold anything. On a device they are its tensors.

        Raises:
            InferenceError: the run failed; the session stays usable.
        """


class DecoderSession(Protocol):
    """Runs the decoder of one beam width. Owned by one worker thread."""

    def step(self, buffers: StepBuffers) -> None:
        """Run the decoder for one target position of every row.

        Reads `buffers.inputs`, writes `logits` and one position of every row's cache. Running it again with
        the same inputs writes the same values, so a failed run may be repeated for a part of the rows.

        Args:
            buffers: the arrays to run on.

        Raises:
            InferenceError: the run failed; what it wrote is undefined, the session stays usable.
        """


@dataclass(frozen=True, slots=True)
class Beams:
    """What a search knows of N sentences of K beams; the best beam comes first.

    Attributes:
        order: int64 [N, K], the row of each beam, counted over all sentences.
        scores: float64 [N, K], log-probability of each beam; minus infinity where there is none yet.
        remaining: int64 [N], how many hypotheses of each sentence may end before it may be done.
        may_end: whether the end token may be chosen.
    """

    order: NDArray[np.int64]
    scores: NDArray[np.float64]
    remaining: NDArray[np.int64]
    may_end: bool


@dataclass(frozen=True, slots=True)
class BeamSteps:
    """What M steps of a beam search found for N sentences of K beams.

    Attributes:
        parents: int64 [M, N, 2K], the beam that each candidate continues; the best candidate comes first.
        tokens: int64 [M, N, 2K], how.
        scores: float64 [M, N, 2K], log-probabilities.
        chosen: int64 [M, N, K], the candidates that became beams: the first K that do not end.
        broken: bool [M, N], whether a sentence's scores were not finite numbers.
    """

    parents: NDArray[np.int64]
    tokens: NDArray[np.int64]
    scores: NDArray[np.float64]
    chosen: NDArray[np.int64]
    broken: NDArray[np.bool_]

    def __len__(self) -> int:
        """Steps M."""
        return len(self.chosen)


class MultiStepSession(Protocol):
    """Runs the decoder for several target positions of a few sentences. Owned by one worker thread."""

    def run(self, buffers: StepBuffers, plan: Any, steps: int) -> Any | None:
        """Make steps: the same tokens and caches as single steps.

        Greedy search makes them up to the first end token, and running it again writes the same values; so
        does `DecoderSession.step`. Beam search makes them until a sentence may be done; the caches are
        afterwards in the order of the beams, so beam k of sentence n is in row n*K + k.

        Args:
            buffers: of the sentences; `logits` are not written.
            plan: for greedy search whether the end token may be taken; for beam search the beams.
            steps: how many at most, at least 1; none of a beam search is a sentence's last.

        Returns:
            What the M steps found: tokens int64 [M, N], or `BeamSteps`. None, and nothing is written, if it
            is better not done now.

        Raises:
            InferenceError: the run failed; the session stays usable, and beams can go on in single steps.
        """


class ColumnSource(Protocol):
    """Gives columns of the projection. Thread-safe."""

    @property
    def width(self) -> int:
        """Rows E of a column."""

    def columns(self, ids: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Read columns.

        Args:
            ids: int64 [C], tokens.

        Returns:
            Weights int8 [E, C], scales float32 [C] and biases float32 [C]; they belong to the caller.

        Raises:
            InferenceError: the run failed.
        """


class Runtime(Protocol):
    """A loaded model. Thread-safe."""

    @property
    def spec(self) -> ModelSpec:
        """What the engine must know of the model."""

    @property
    def device(self) -> "Device | None":
        """Where caches and scores lie; None for numpy arrays."""

    @property
    def encoder(self) -> EncoderSession:
        """The encoder, shared by all workers."""

    def decoder(self, beam_width: int) -> DecoderSession:
        """Give a decoder of this beam width: a new session object over shared weights, for one worker.

        Raises:
            InferenceError: the decoder cannot be loaded.
        """

    def multi_step(self, beam_width: int, stop: NDArray[np.int64]) -> "MultiStepSession | None":
        """Give what makes several steps of a few sentences, for one worker, if there is such a thing.

        Args:
            beam_width: 1 gives a session of greedy search.
            stop: int64 [], which another thread may set: other than 0 it ends a run after the next step.
        """

    def ranker(self, best: int) -> "Ranker | None":
        """Give what finds the `best` best columns of scores in numpy arrays, for one worker.

        None if numpy shall do it.
        """

    def terminate(self) -> None:
        """Make every run, now and later, end with InferenceError; for a shutdown that takes too long."""
