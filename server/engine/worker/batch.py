"""The sentences of one worker that decode together: one beam width, one arena, one search, one decoder."""

import sys
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from server.engine.kv_cache.arena import Arena
from server.engine.limits import EngineLimits
from server.engine.observer import RunObserver
from server.engine.search.beam import BeamSearch
from server.engine.search.greedy import GreedySearch
from server.engine.search.search import Advance, Search, SearchResult
from server.engine.sequence import Outcome, Sequence, SequenceResult
from server.engine.shortlist.lexical_table import Shortlist
from server.engine.shortlist.projection_columns import ProjectionColumns
from server.errors import InferenceError
from server.runtime.memory import Tensor
from server.runtime.sessions import Runtime

GREEDY_MULTI_STEP_BYTES = 1024 * 1024
"""Bytes of caches, with all their positions, and scores up to which several greedy steps are made in one run:
a step of it saves Python, but copies the caches and looks at the scores once more than a single one. See
docs/experiments/multi-step.md."""

BEAM_MULTI_STEP_BYTES = 2 * 1024 * 1024
"""Bytes that the self-attention caches of all rows are filled with up to which several steps of beam search
are made in one run, each of which copies what is in them."""


class Batch:
    """Sentences of one beam width. Owned by the worker thread.

    Attributes:
        sequences: the sentences, in the order of their places in the arena.
        steps: target positions that the last `step` decoded.
    """

    def __init__(
        self,
        runtime: Runtime,
        beam_width: int,
        limits: EngineLimits,
        observer: RunObserver,
        clock: Callable[[], float],
        stop: NDArray[np.int64],
        shortlist: Shortlist | None = None,
    ) -> None:
        """Allocate the arena and the search, and ask the model for sessions that nobody else uses.

        Args:
            runtime: the model.
            beam_width: rows per sentence.
            limits: rows of the worker, all of which this batch may get.
            observer: told of failed runs.
            clock: monotonic seconds.
            stop: int64 []; other than 0 it ends a run of several steps after the next one.
            shortlist: gives every sentence its candidates; None if the decoder scores the whole vocabulary.

        Raises:
            InferenceError: the decoder cannot be loaded.
        """
        spec, device = runtime.spec, runtime.device
        max_sentences = limits.max_rows // beam_width
        self._decoder = runtime.decoder(beam_width)
        self._multi_step = runtime.multi_step(beam_width, stop)
        self._max_length = spec.max_target_tokens
        self._observer = observer
        self._clock = clock
        self._shortlist = shortlist
        self._columns: ProjectionColumns | None = None
        if shortlist is not None:
            self._columns = ProjectionColumns(
                shortlist.columns, spec.vocabulary_size, beam_width, max_sentences
            )
        caches = None if device is None else device.caches(spec, beam_width, max_sentences)
        self._arena = Arena(spec, beam_width, max_sentences, caches, has_own_logits=shortlist is None)
        best = 1 if beam_width == 1 else 2 * beam_width
        # Of the scores on a device only the best columns are fetched, unless a sentence needs the whole row.
        self._ranker = None if device is None else device.ranker(spec, max_sentences * beam_width, best)
        ids = spec.eos_id, spec.suppressed_ids, spec.forced_end
        self._search: Search
        if beam_width == 1:
            self._search = GreedySearch(max_sentences, *ids)
        else:
            ranker = None if device else runtime.ranker(min(best, spec.vocabulary_size))
            self._search = BeamSearch(beam_width, max_sentences, *ids, ranker)
        self._position_bytes = 2 * spec.decoder_layers * spec.decoder_heads * spec.head_size
        self._position_bytes *= spec.cache_dtype.itemsize
        self._score_bytes = spec.vocabulary_size * np.dtype(np.float32).itemsize
        # Several steps of a beam search need 2K words besides the end token.
        self._allows_beam_steps = spec.vocabulary_size - len(spec.suppressed_ids) > 2 * beam_width
        self.sequences: list[Sequence] = []
        self.steps = 1

    @property
    def rows(self) -> int:
        """Rows in use."""
        return self._arena.rows

    @property
    def cache_bytes(self) -> int:
        """Bytes of the arena's caches and of what a shortlist has beside them."""
        return self._arena.cache_bytes + (0 if self._columns is None else self._columns.nbytes)

    def admit(self, sequences: list[Sequence], cross: Iterable[Tensor], lengths: NDArray[np.int32]) -> None:
        """Add encoded sentences of this beam width.

        Args:
            sequences: n sentences.
            cross: their cross-attention keys and values as the encoder returned them, [n, H, S, D] each.
            lengths: int32 [n], source lengths.

        Raises:
            InferenceError: the columns of their candidates cannot be read; nothing has changed.
        """
        if self._shortlist is not None and self._columns is not None:
            self._columns.admit([self._shortlist.candidates(s.source, s.options.required) for s in sequences])
            self._arena.bind_projection(self._columns.inputs, self._columns.logits)
        first = self._arena.admit(list(cross), lengths)
        for place, sequence in enumerate(sequences, first):
            longest = min(sequence.options.max_decoding_length, self._max_length)
            self._search.admit(place, sequence.options, longest, sequence.source)
        self.sequences.extend(sequences)

    def step(self, most: int = 1) -> list[Outcome]:
        """Decode one target position of every sentence, or up to `most` if they are few.

        Returns:
            The sentences that left: ended, or failed because the decoder fails on them even when they are
            alone.
        """
        arena = self._arena
        failed: dict[int, InferenceError] = {}
        advance = self._several_steps(most) if most > 1 else None
        if advance is None:
            advance = self._advance(failed)
        arena.finish_step(self.steps)
        for place in advance.broken:
            failed.setdefault(place, InferenceError("the model's scores are not finite numbers"))
        leaving: dict[int, SearchResult | InferenceError] = {
            place: self._search.result(place) for place in advance.ended if place not in failed
        }
        leaving.update(failed)
        if len(leaving) == arena.count:
            return self._retire(leaving)
        rows, parents = advance.rows, advance.parents
        if leaving and len(rows):
            stays = ~np.isin(rows // arena.beam_width, list(leaving))
            rows, parents = rows[stays], parents[stays]
        if len(rows):
            arena.reorder(rows, parents)
        arena.input_ids[: arena.rows, 0] = advance.tokens
        return self._retire(leaving) if leaving else []

    def _advance(self, failed: dict[int, InferenceError]) -> Advance:
        """Run the decoder and choose the next tokens; sentences on which it fails are added to `failed`."""
        arena = self._arena
        self.steps = 1
        arena.prepare_step()
        failed.update(self._run(0, arena.count))
        if self._columns is not None:
            return self._search.advance(*self._columns.own_scores())
        logits = arena.logits[: arena.rows]
        if self._ranker is None:
            return self._search.advance(logits)
        if self._search.needs_all(arena.count):
            return self._search.advance(self._ranker.whole(logits))
        return self._search.choose(*self._ranker.best(logits))

    def _several_steps(self, most: int) -> Advance | None:
        """Make several steps of few sentences in one run; None if that cannot be done now."""
        multi_step, arena = self._multi_step, self._arena
        # Caches that grow before they must would be copied for nothing.
        most = min(most, arena.free_positions, self._most_steps())
        if multi_step is None or most < 2:
            return None
        unconstrained, plan = self._search.max_unconstrained_steps(arena.count)
        steps = min(most, unconstrained)
        if steps < 2:
            return None
        arena.prepare_step()
        try:
            made = multi_step.run(arena.buffers(0, arena.count), plan, steps)
        except InferenceError:
            return None  # a single step says what to make of it
        if made is None:
            return None
        self.steps = len(made)
        return self._search.apply_steps(made)

    def _most_steps(self) -> int:
        """Tell up to how many steps one run pays for as many sentences as there are."""
        arena = self._arena
        if arena.beam_width > 1:
            filled = BEAM_MULTI_STEP_BYTES // (arena.rows * self._position_bytes)
            return filled - arena.longest_target if self._allows_beam_steps else 0
        positions = arena.target_capacity + arena.source_capacity
        row_bytes = positions * self._position_bytes + self._score_bytes
        return sys.maxsize if arena.count == 1 or arena.count * row_bytes <= GREEDY_MULTI_STEP_BYTES else 0

    def drop(self, leaving: Iterable[Sequence]) -> None:
        """Free the rows of sentences that nobody waits for; those that are not here are ignored."""
        gone = set(leaving)
        for place in range(len(self.sequences) - 1, -1, -1):
            if self.sequences[place] in gone:
                self._free(place)
        self._arena.flush_moves()

    def _run(self, first: int, count: int) -> dict[int, InferenceError]:
        """Run the decoder for some sentences; when that fails, run each half alone.

        Halving finds one bad sentence among N with 2 log2 N runs, and every other sentence gets its scores.
        The scores of a sentence that fails alone are set to zero, so that the search stays in finite numbers.

        Returns:
            The places of sentences that fail alone, and how.
        """
        try:
            self._decoder.step(self._arena.buffers(first, count))
        except InferenceError as error:
            self._observer.error("run_failed" if count > 1 else "poison")
            if count == 1:
                self._arena.zero_logits(first)
                return {first: error}
            half = count // 2
            return self._run(first, half) | self._run(first + half, count - half)
        return {}

    def _retire(self, leaving: dict[int, SearchResult | InferenceError]) -> list[Outcome]:
        """Free the places of sentences that leave, the last first so that no place moves before its turn."""
        now_s = self._clock()
        outcomes = [_outcome(self.sequences[place], found, now_s) for place, found in leaving.items()]
        for place in sorted(leaving, reverse=True):
            self._free(place)
        self._arena.flush_moves()
        return outcomes

    def _free(self, place: int) -> None:
        """Free one place in the arena, the search and the list; the last sentence moves there."""
        last = len(self.sequences) - 1
        self._arena.retire(place)
        if self._columns is not None:
            self._columns.retire(place)
        if place != last:
            self._search.move(last, place)
            self.sequences[place] = self.sequences[last]
        self.sequences.pop()


def _outcome(sequence: Sequence, found: SearchResult | InferenceError, now_s: float) -> Outcome:
    """Say how a sentence that left its batch at `now_s` ended."""
    if isinstance(found, InferenceError):
        return Outcome(sequence, found)
    result = SequenceResult(
        hypotheses=found.hypotheses,
        finish_reason=found.finish_reason,
        source_tokens=len(sequence.source),
        target_tokens=len(found.hypotheses[0].tokens),
        queue_s=sequence.queue_s,
        encode_s=sequence.encode_s,
        decode_s=now_s - sequence.decoding_since_s,
    )
    return Outcome(sequence, result)
