"""One worker's engine: schedule, run, update.

Sentences enter and leave at every step, so that a batch is never held up by its longest member. Sentences of
different beam widths cannot share a decoder run (a sentence's beams are folded into its attention heads), so
there is one batch per width, and each of them makes one step in turn.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from server.engine.limits import EngineLimits
from server.engine.observer import EngineObserver
from server.engine.sequence import Outcome, Sequence, end_of_unwanted
from server.engine.shortlist.lexical_table import Shortlist
from server.engine.worker.batch import Batch, BatchSessions
from server.engine.worker.encoder_batching import CALL_COST_TOKENS, encoder_batches
from server.errors import InferenceError
from server.runtime.model_spec import ModelSpec
from server.runtime.sessions import EncoderSession, Runtime

BURST_S = 0.05
"""What the steps that sentences make in one run may take: none is ended by its deadline meanwhile. Whoever
comes waits for one of them."""

ENCODER_TOKENS = 256
"""Positions of one encoder run on a processor, padding included: what it computes stays in the second-level
cache. A thread, int8, 6 layers of 512: 3.9 ms a sentence of 25 tokens in runs of 800, 3.4 in those of 200."""

DEVICE_CALL_COST_TOKENS = 3500
"""What one more encoder run costs on a GPU, in positions of padding: 64 sentences of 25 take 0.83 ms with 6
layers of 512, 256 take 1.94 (H200), so a position 0.23 us and a run 0.8 ms besides."""


class Engine:
    """Decodes sentences, step by step. Owned by the worker thread."""

    def __init__(
        self,
        runtime: Runtime,
        limits: EngineLimits,
        schedule: Callable[[int], list[Sequence]],
        observer: EngineObserver,
        clock: Callable[[], float],
        shortlist: Shortlist | None = None,
        *,
        starts_first: bool = False,
        stop: NDArray[np.int64] | None = None,
    ) -> None:
        """Start with no sentence and no arena.

        Args:
            runtime: the model.
            limits: rows and encoder tokens of this worker.
            schedule: given the number of free rows, hands over the sentences to start now.
            observer: told what happens.
            clock: monotonic seconds.
            shortlist: candidates of sentences, for decoders that take their columns as inputs.
            starts_first: whether a step that starts sentences leaves decoding to the next one, so that all
                who may start are there when decoding goes on.
            stop: int64 []; whoever wants the worker to look up soon sets it to another number than 0.
        """
        self._shortlist = shortlist
        self._starts_first = starts_first
        self._encoder: EncoderSession = runtime.encoder
        self._runtime = runtime
        self._spec: ModelSpec = runtime.spec
        self._limits = limits
        self._schedule = schedule
        self._observer = observer
        self._clock = clock
        self._encoder_tokens = encoder_tokens(runtime, limits)
        self._call_cost_tokens = CALL_COST_TOKENS if runtime.device is None else DEVICE_CALL_COST_TOKENS
        self._stop = np.zeros((), np.int64) if stop is None else stop
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

    def step(self, *, bursts: bool = False) -> list[Outcome]:
        """Start waiting sentences, decode one target position of every sentence, and let the ended ones go.

        What starts while nothing was decoded is decoded from the next step on: whoever came while the encoder
        ran starts then, too, and few sentences may make all their steps in a burst.

        Args:
            bursts: see `decode`.

        Returns:
            The sentences that left in this step.
        """
        outcomes = self._drop_unwanted()
        was_idle = not self.rows
        admitted = self._schedule(self._limits.max_rows - self.rows)
        runs = encoder_batches(admitted, self._encoder_tokens, self._call_cost_tokens)
        for run in runs:
            outcomes += self._start(run)
        if runs and (self._starts_first or was_idle):
            return outcomes
        return outcomes + self.decode(bursts=bursts)

    def decode(self, *, bursts: bool = False) -> list[Outcome]:
        """Do the last part of `step` alone; enough while nobody waits, was aborted or has run out of time.

        Args:
            bursts: whether sentences may make several steps in one run, if they are few.

        Returns:
            The sentences that left in this step.
        """
        started_s, busy_rows = self._clock(), self.rows
        busy = [batch for batch in self._batches.values() if batch.sequences]
        most = self._steps_at_once() if bursts and len(busy) == 1 else 1
        outcomes: list[Outcome] = []
        steps = 0
        for batch in busy:
            outcomes += batch.step(most)
            steps = batch.steps
        now_s = self._clock()
        if busy_rows:
            self._step_s = (now_s - started_s) / steps
            for _ in range(steps):
                self._observer.step(busy_rows, self._limits.max_rows - busy_rows, self._step_s)
        return outcomes

    @property
    def next_deadline_s(self) -> float:
        """When the first of its sentences runs out of time, on the clock; infinity if none does."""
        deadlines = (s.deadline_s for batch in self._batches.values() for s in batch.sequences)
        return min(deadlines, default=math.inf)

    def free_idle(self) -> set[int]:
        """Give back the arenas of beam widths that have no sentence.

        Returns:
            The beam widths whose arenas stay.
        """
        self._batches = {width: batch for width, batch in self._batches.items() if batch.sequences}
        return set(self._batches)

    def _drop_unwanted(self) -> list[Outcome]:
        """Free the rows of sentences that were aborted or whose deadline has passed."""
        outcomes, now_s = [], self._clock()
        for batch in self._batches.values():
            unwanted = [s for s in batch.sequences if s.aborted or now_s >= s.deadline_s]
            if unwanted:
                batch.drop(unwanted)
                outcomes += [Outcome(sequence, end_of_unwanted(sequence)) for sequence in unwanted]
        return outcomes

    def _start(self, run: list[Sequence]) -> list[Outcome]:
        """Encode sentences of one beam width and put them into their batch.

        When the encoder fails, each half is tried alone, so that one bad sentence does not fail its
        neighbours.

        Returns:
            Sentences on which the encoder fails even when they are alone.
        """
        lengths = np.array([len(sequence.source) for sequence in run], np.int32)
        input_ids = np.full((len(run), int(lengths.max())), self._spec.pad_id, np.int64)
        for row, sequence in enumerate(run):
            input_ids[row, : len(sequence.source)] = sequence.source
        started_s = self._clock()
        try:
            batch = self._batch(run[0].beam_size)
            cross = self._encoder.encode(input_ids, lengths)
            now_s = self._clock()
            batch.admit(run, cross, lengths)
        except InferenceError as error:
            self._observer.error("run_failed" if len(run) > 1 else "poison")
            if len(run) == 1:
                return [Outcome(run[0], error)]
            half = len(run) // 2
            return self._start(run[:half]) + self._start(run[half:])
        real_tokens = int(lengths.sum())
        self._observer.encode(len(run), real_tokens, input_ids.size - real_tokens, now_s - started_s)
        for sequence in run:
            sequence.queue_s = started_s - sequence.submitted_s
            sequence.encode_s = now_s - started_s
            sequence.decoding_since_s = now_s
        return []

    def _steps_at_once(self) -> int:
        """How many steps take no longer than `BURST_S`, as the last one went."""
        return max(1, int(BURST_S / max(self._step_s, BURST_S / 1000)))

    def _batch(self, beam_width: int) -> Batch:
        """Give the batch of a beam width; made when it is first needed."""
        if beam_width not in self._batches:
            self._batches[beam_width] = Batch(
                BatchSessions.of(self._runtime, beam_width, self._stop),
                self._spec,
                beam_width,
                self._limits,
                self._observer,
                self._clock,
                self._shortlist,
            )
        return self._batches[beam_width]


def encoder_tokens(runtime: Runtime, limits: EngineLimits) -> int:
    """Positions of one encoder run, padding included."""
    most = limits.max_batch_tokens
    return min(most, ENCODER_TOKENS) if runtime.device is None else most
