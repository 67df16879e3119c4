"""One worker's engine: schedule, run, update.

Sentences enter and leave at every step, so that a batch is never held up by its longest member. Sentences of
different beam widths cannot share a decoder run (a sentence's beams are folded into its attention heads), so
there is one batch per width, and each of them makes one step in turn.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from server.engine.limits import EngineLimits
from server.engine.observer import RunObserver
from server.engine.sequence import Outcome, Sequence, end_of_unwanted
from server.engine.shortlist.lexical_table import Shortlist
from server.engine.source import Source
from server.engine.worker.batch import Batch
from server.errors import InferenceError
from server.runtime.model_spec import Array, ModelSpec
from server.runtime.sessions import EncoderSession, Runtime

MULTI_STEP_S = 0.05
"""What the steps of one multi-step run may take together: no deadline ends a sentence meanwhile. A message
ends the run after the next step."""

ENCODER_TOKENS = 256
"""Positions of one encoder run on a processor, padding included: what it computes stays in the second-level
cache. A thread, int8, 6 layers of 512: 3.9 ms a sentence of 25 tokens in runs of 800, 3.4 in those of 200."""

CALL_COST_TOKENS = 40
"""What one more encoder run costs, in positions of padding, which is cut off only where it costs more.

Measured on one thread of an Intel Xeon, int8: 0.34 ms a run, 0.020 a token and 0.011 a position of padding
with 6 layers of 256; 0.9, 0.068 and 0.034 with 6 of 512. Padding is only in attention and in the queries,
keys and values that it computes (`export.int8.fused_attention`).
"""

DEVICE_CALL_COST_TOKENS = 3500
"""What one more encoder run costs on a GPU, in positions of padding: 64 sentences of 25 take 0.83 ms with 6
layers of 512, 256 take 1.94 (H200), so a position 0.23 us and a run 0.8 ms besides."""


class Engine:
    """Decodes sentences, step by step. Owned by the worker thread."""

    def __init__(
        self,
        runtime: Runtime,
        limits: EngineLimits,
        observer: RunObserver,
        clock: Callable[[], float],
        shortlist: Shortlist | None = None,
        interrupt: NDArray[np.int64] | None = None,
    ) -> None:
        """Start with no sentence and no arena.

        Args:
            runtime: the model.
            limits: rows and encoder tokens of this worker.
            observer: told what happens.
            clock: monotonic seconds.
            shortlist: candidates of sentences, for decoders that take their columns as inputs.
            interrupt: int64 []; other than 0 it ends a run of several steps after the next one.
        """
        self._shortlist = shortlist
        self._encoder: EncoderSession = runtime.encoder
        self._runtime = runtime
        self._spec: ModelSpec = runtime.spec
        self._limits = limits
        self._observer = observer
        self._clock = clock
        self._encoder_tokens = _encoder_tokens(runtime, limits)
        self._call_cost_tokens = CALL_COST_TOKENS if runtime.device is None else DEVICE_CALL_COST_TOKENS
        self._interrupt = np.zeros((), np.int64) if interrupt is None else interrupt
        self._batches: dict[int, Batch] = {}
        self._step_s = math.inf  # of the last step; few sentences may make several at once next time

    @property
    def rows(self) -> int:
        """Decoder rows in use, over all beam widths."""
        return sum(batch.rows for batch in self._batches.values())

    @property
    def cache_bytes(self) -> int:
        """Bytes of the caches of all its arenas."""
        return sum(batch.cache_bytes for batch in self._batches.values())

    @property
    def sequences(self) -> list[Sequence]:
        """The sentences that it decodes."""
        return [sequence for batch in self._batches.values() for sequence in batch.sequences]

    def start(self, sequences: list[Sequence], ended: list[Outcome]) -> None:
        """Encode sentences and give them their rows.

        Args:
            sequences: of any beam widths, no more than there are free rows.
            ended: gets those on which the encoder fails even when they are alone.

        Raises:
            MemoryError: there is no memory for them or their arena; `ended` has what ended before.
        """
        for run in encoder_batches(sequences, self._encoder_tokens, self._call_cost_tokens):
            ended += self._start(run)

    def decode(self, ended: list[Outcome], *, multi_step: bool = False) -> None:
        """Decode one target position of every sentence, and let the ended ones go.

        Args:
            ended: gets the sentences that leave in this step.
            multi_step: whether sentences may make several steps in one run, if they are few.

        Raises:
            MemoryError: there is no memory for a larger arena; `ended` has what left before.
        """
        started_s, busy_rows = self._clock(), self.rows
        busy = [batch for batch in self._batches.values() if batch.sequences]
        most = self._steps_at_once() if multi_step and len(busy) == 1 else 1
        steps = 0
        for batch in busy:
            ended += batch.step(most)
            steps = batch.steps
        now_s = self._clock()
        if busy_rows:
            self._step_s = (now_s - started_s) / steps
            for _ in range(steps):
                self._observer.step(busy_rows, self._limits.max_rows - busy_rows, self._step_s)

    def free_idle(self) -> set[int]:
        """Give back the arenas of beam widths that have no sentence; gives the widths whose arenas stay."""
        self._batches = {width: batch for width, batch in self._batches.items() if batch.sequences}
        return set(self._batches)

    def drop_unwanted(self, now_s: float) -> list[Outcome]:
        """Free the rows of sentences that were aborted or whose deadline has passed."""
        outcomes = []
        for batch in self._batches.values():
            unwanted = [s for s in batch.sequences if s.aborted or now_s >= s.deadline_s]
            if unwanted:
                batch.drop(unwanted)
                outcomes += [Outcome(sequence, end_of_unwanted(sequence)) for sequence in unwanted]
        return outcomes

    def drop_all(self) -> None:
        """Forget all sentences and give their arenas back."""
        self._batches.clear()

    def _start(self, run: list[Sequence]) -> list[Outcome]:
        """Encode sentences of one beam width and put them into their batch.

        When the encoder fails, each half is tried alone, so that one bad sentence does not fail its
        neighbors.

        Returns:
            Sentences on which the encoder fails even when they are alone.
        """
        lengths = np.array([len(sequence.source) for sequence in run], np.int32)
        source = encoder_input([sequence.source for sequence in run], lengths, self._spec)
        started_s = self._clock()
        try:
            batch = self._batch(run[0].beam_size)
            cross = self._encoder.encode(source, lengths)
            now_s = self._clock()
            batch.admit(run, cross, lengths)
        except InferenceError as error:
            self._observer.error("run_failed" if len(run) > 1 else "poison")
            if len(run) == 1:
                return [Outcome(run[0], error)]
            half = len(run) // 2
            return self._start(run[:half]) + self._start(run[half:])
        real_tokens = int(lengths.sum())
        padding = len(run) * source.shape[1] - real_tokens
        self._observer.encode(len(run), real_tokens, padding, now_s - started_s)
        for sequence in run:
            sequence.queue_s = started_s - sequence.submitted_s
            sequence.encode_s = now_s - started_s
            sequence.decoding_since_s = now_s
        return []

    def _steps_at_once(self) -> int:
        """How many steps take no longer than `MULTI_STEP_S`, as the last one went."""
        return max(1, int(MULTI_STEP_S / max(self._step_s, MULTI_STEP_S / 1000)))

    def _batch(self, beam_width: int) -> Batch:
        """Give the batch of a beam width; made when it is first needed."""
        if beam_width not in self._batches:
            self._batches[beam_width] = Batch(
                self._runtime,
                beam_width,
                self._limits,
                self._observer,
                self._clock,
                self._interrupt,
                self._shortlist,
            )
        return self._batches[beam_width]


def _encoder_tokens(runtime: Runtime, limits: EngineLimits) -> int:
    """Positions of one encoder run, padding included."""
    most = limits.max_batch_tokens
    return min(most, ENCODER_TOKENS) if runtime.device is None else most


def encoder_batches(
    sequences: list[Sequence], max_batch_tokens: int, call_cost_tokens: int = CALL_COST_TOKENS
) -> list[list[Sequence]]:
    """Cut an admission into encoder runs of one beam width each, with little padding.

    Args:
        sequences: sentences to start.
        max_batch_tokens: positions of one run, padding included; a single sentence may have more.
        call_cost_tokens: what one more run costs, in positions of padding.

    Returns:
        Runs, each with its longest sentence first.
    """
    runs: list[list[Sequence]] = []
    ordered = sorted(sequences, key=lambda s: (s.beam_size, -len(s.source)))
    for _, group in itertools.groupby(ordered, key=lambda s: s.beam_size):
        alike = list(group)
        run: list[Sequence] = []
        for index, sequence in enumerate(alike):
            if run:
                longest = len(run[0].source)
                padding_saved = (longest - len(sequence.source)) * (len(alike) - index)
                if padding_saved > call_cost_tokens or longest * (len(run) + 1) > max_batch_tokens:
                    runs.append(run)
                    run = []
            run.append(sequence)
        runs.append(run)
    return runs


def encoder_input(sources: list[Source], lengths: NDArray[np.int32], spec: ModelSpec) -> Array:
    """Lay N sources side by side, padded on the right: ids int64 [N, S], or features float32 [N, S, F]."""
    longest = int(lengths.max())
    if spec.source_features:
        features = np.zeros((len(sources), longest, spec.source_features), np.float32)
        for row, source in enumerate(sources):
            joined = np.frombuffer(b"".join(source), np.float32)  # type: ignore[arg-type]
            features[row, : len(source)] = joined.reshape(len(source), -1)
        return features
    ids = np.full((len(sources), longest), spec.pad_id, np.int64)
    for row, source in enumerate(sources):
        ids[row, : len(source)] = source
    return ids
