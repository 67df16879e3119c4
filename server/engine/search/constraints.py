"""What a sentence must not say, must not say again, and has to say: changes to the scores before a choice.

In this order, every step: `repetition_penalty`; `no_repeat_ngram_size`; the tokens that the model never
writes; the end token while `min_decoding_length` is not reached and there is anything else to write;
`required` (see `search.required`). Bans set a score to minus infinity. What is *forced* (`target_prefix`, and
the end token at the last step of models that want it) replaces the choice itself and costs nothing.

Sentences without options cost one look at an array of flags for all of them. Every row is changed on its own,
so a sentence gets the same bits alone and in any batch.
"""

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from server.engine.options import DecodingOptions
from server.engine.search.candidate_ids import CandidateIds
from server.engine.search.required import RequiredSequences
from server.engine.sentence_arrays import SentenceArrays
from server.runtime.memory import Floats, Places


class Constraints:
    """The constraints of the sentences of one batch. Owned by the worker thread."""

    def __init__(
        self,
        width: int,
        max_sentences: int,
        eos_id: int,
        suppressed_ids: Sequence[int] = (),
        forced_end: bool = False,
    ) -> None:
        """Make room for `max_sentences`; the arguments are those of `Search`."""
        self._width = width
        self._eos_id = eos_id
        self._never = np.array(sorted(set(suppressed_ids)), np.int64)
        self._forced_end = forced_end
        self._arrays = arrays = SentenceArrays(max_sentences)
        self._changes = arrays.array(np.bool_)
        self._remembers = arrays.array(np.bool_)
        self._min_length = arrays.array(np.intp)
        self._penalty = arrays.array(np.float32)
        self._ngram = arrays.array(np.intp)
        self._forces = arrays.array(np.bool_)
        self._prefix_length = arrays.array(np.intp)
        self._last_step = arrays.array(np.intp)
        self._prefix: list[tuple[int, ...]] = arrays.values(())
        self._written = np.zeros((max_sentences * width, 32), np.int32)
        self._end = np.array([eos_id])
        self._required: RequiredSequences | None = None  # made for the first sentence that has some
        self._looked_at = -1  # how many sentences the next three are about; -1 if they have changed
        self._some_change = self._some_remember = self._some_force = False

    def admit(self, place: int, options: DecodingOptions, max_length: int) -> bool:
        """Take the options of a sentence that starts at `place` and takes at most `max_length` steps.

        Returns:
            Whether anything will ever change its scores.
        """
        self._looked_at = -1
        self._remembers[place] = (
            options.repetition_penalty != 1 or options.no_repeat_ngram_size > 0 or len(options.required) > 0
        )
        self._changes[place] = self._remembers[place] or options.min_decoding_length > 0 or len(self._never)
        self._min_length[place] = options.min_decoding_length
        self._penalty[place] = options.repetition_penalty
        self._ngram[place] = options.no_repeat_ngram_size
        self._forces[place] = self._forced_end or len(options.target_prefix) > 0
        self._prefix[place] = options.target_prefix
        self._prefix_length[place] = len(options.target_prefix)
        self._last_step[place] = max_length - 1 if self._forced_end else -1
        if options.required and self._required is None:
            self._required = RequiredSequences(self._width, len(self._changes), self._eos_id)
        if self._required is not None:
            end = max_length - self._forced_end
            self._required.admit(place, options.required, len(options.target_prefix), end)
        return bool(self._changes[place])

    def max_unconstrained_steps(self, steps: Places) -> tuple[int, bool]:
        """Tell for how many steps sentences want nothing but that all or none of them may end.

        Tokens that the model never writes do not count as constraints, nor does an end token that is forced
        in the last step: the caller makes that step by itself.

        Args:
            steps: [N], tokens chosen so far.

        Returns:
            The number of steps, 0 if other options need each, and whether the end token is allowed in them.
        """
        count = len(steps)
        if self._remembers[:count].any() or (steps < self._prefix_length[:count]).any():
            return 0, True
        waits = self._min_length[:count] - steps
        soonest = int(waits.min())
        if soonest > 0:
            return soonest, False
        return (0 if waits.max() > 0 else sys.maxsize), True

    def move(self, last: int, to: int) -> None:
        """Forget the sentence at `to`; the one at `last` moves there."""
        self._looked_at = -1
        self._arrays.move(last, to)
        if self._required is not None:
            self._required.move(last, to)
        if self._remembers[to]:
            width = self._width
            self._written[to * width : (to + 1) * width] = self._written[last * width : (last + 1) * width]

    def apply(
        self, logits: Floats, steps: Places, columns: CandidateIds, normalisers: Floats | None = None
    ) -> None:
        """Change the scores of one step, in place.

        Args:
            logits: float32 [N*K, C].
            steps: [N], tokens chosen so far.
            columns: what the C columns stand for.
            normalisers: float32 [N*K], subtracted from a row's scores before a repetition penalty and added
                again after it; None penalises the scores as they are.
        """
        count = len(steps)
        self._look_at(count)
        if not self._some_change:
            return
        if self._some_remember:
            remembering = np.flatnonzero(self._remembers[:count] & (steps > 0))
            if len(remembering):
                self._look_back(logits, remembering, steps[remembering], columns, normalisers)
        if len(self._never):
            self._forbid(logits, np.arange(count), self._never, columns)
        short = np.flatnonzero(steps < self._min_length[:count])
        if len(short):
            self._forbid_end(logits, short, columns)
        if self._required is not None:
            self._required.apply(logits, steps, columns, normalisers)

    def need_all(self, steps: Places) -> bool:
        """Whether `apply` would need scores that may not be among a row's best, after `steps` [N] tokens."""
        count = len(steps)
        return bool(self._remembers[:count].any() or (steps < self._min_length[:count]).any())

    def forced(self, steps: Places) -> list[tuple[int, int]]:
        """Tell which sentences have no choice after `steps` [N] tokens: their places and tokens."""
        count = len(steps)
        self._look_at(count)
        if not self._some_force:
            return []
        begins = steps < self._prefix_length[:count]
        ends = steps == self._last_step[:count]
        prefixed = [(place, self._prefix[place][steps[place]]) for place in np.flatnonzero(begins).tolist()]
        return prefixed + [(place, self._eos_id) for place in np.flatnonzero(ends & ~begins).tolist()]

    def record(self, steps: Places, tokens: NDArray[np.int64], rows: Places, parents: Places) -> None:
        """Remember what was chosen.

        Args:
            steps: [N], tokens chosen before this step.
            tokens: int64 [N*K], the token of every row.
            rows: [M], rows that continue another row.
            parents: [M], the row that each of `rows` continues.
        """
        self._look_at(len(steps))
        if not self._some_remember:
            return
        remembers = self._remembers[: len(steps)]
        needed = int(steps[remembers].max()) + 1
        if self._written.shape[1] < needed:
            self._written = np.concatenate([self._written, np.zeros_like(self._written)], axis=1)
        if len(rows):
            self._written[rows] = self._written[parents]
        writing = np.flatnonzero(np.repeat(remembers, self._width))
        self._written[writing, np.repeat(steps, self._width)[writing]] = tokens[writing]
        if self._required is not None:
            self._required.record(len(steps), tokens, rows, parents)

    def _forbid(
        self, logits: Floats, places: Places, tokens: NDArray[np.int64], columns: CandidateIds
    ) -> None:
        """Forbid tokens [M] in all rows of sentences [S]."""
        by_sentence = logits.reshape(-1, self._width, logits.shape[1])
        if columns.are_tokens and len(places) == len(by_sentence):
            logits[:, tokens] = -np.inf  # by far the most usual case: every sentence, the whole vocabulary
            return
        column = columns.find(places[:, None], tokens)
        sentence, which = np.nonzero(column >= 0)
        by_sentence[places[sentence], :, column[sentence, which]] = -np.inf

    def _forbid_end(self, logits: Floats, short: Places, columns: CandidateIds) -> None:
        """Forbid the end token in sentences [S] that are too short, but for rows with no other token."""
        held = short[self._remembers[short]]
        rows = (held[:, None] * self._width + np.arange(self._width)).reshape(-1)
        column = np.repeat(columns.find(held, self._end), self._width)
        ends = logits[rows, column]
        self._forbid(logits, short, self._end, columns)
        if len(rows):
            stuck = logits[rows].max(axis=1) == -np.inf
            logits[rows[stuck], column[stuck]] = ends[stuck]

    def _look_at(self, count: int) -> None:
        """Find out what the sentences in the first places want, after others came or left."""
        if count == self._looked_at:
            return
        self._looked_at = count
        self._some_change = bool(self._changes[:count].any())
        self._some_remember = bool(self._remembers[:count].any())
        self._some_force = bool(self._forces[:count].any())

    def _look_back(
        self, logits: Floats, places: Places, steps: Places, columns: CandidateIds, normalisers: Floats | None
    ) -> None:
        """Penalise and forbid what sentences have already said.

        Args:
            logits: float32 [N*K, C], changed in place.
            places: [M], the sentences that have said something and must not repeat it.
            steps: [M], tokens chosen so far, at least 1.
            columns: what the columns stand for.
            normalisers: as for `apply`.
        """
        width = self._width
        rows = (places[:, None] * width + np.arange(width)).reshape(-1)
        lengths = np.repeat(steps, width)
        written = self._written[rows, : int(steps.max())]
        penalties = np.repeat(self._penalty[places], width)
        said = (np.arange(written.shape[1]) < lengths[:, None]) & (penalties != 1)[:, None]
        which, position = np.nonzero(said)
        column = columns.find(rows[which] // width, written[which, position])
        which, column = which[column >= 0], column[column >= 0]
        score, penalty = logits[rows[which], column], penalties[which]
        shift = 0 if normalisers is None else normalisers[rows[which]]
        score = score - shift
        # A token that was said twice gets the same new score twice.
        logits[rows[which], column] = np.where(score < 0, score * penalty, score / penalty) + shift
        sizes = np.repeat(self._ngram[places], width)
        for size in np.unique(sizes[sizes > 0]).tolist():
            some = np.flatnonzero((sizes == size) & (lengths >= size))
            if len(some):
                which, token = repeated(written[some], lengths[some], size)
                column = columns.find(rows[some[which]] // width, token)
                logits[rows[some[which[column >= 0]]], column[column >= 0]] = -np.inf


def repeated(written: NDArray[np.int32], lengths: Places, size: int) -> tuple[Places, NDArray[np.int32]]:
    """Find the tokens that would complete an n-gram which the row already holds.

    Args:
        written: int32 [R, T], tokens; of row r the first `lengths[r]` count.
        lengths: [R], at least `size`.
        size: n.

    Returns:
        Rows [M] and tokens int32 [M]; the same pair may come twice.
    """
    starts = written.shape[1] - size + 1
    matches = np.arange(size - 1, size - 1 + starts) < lengths[:, None]
    suffix = np.take_along_axis(written, (lengths - size + 1)[:, None] + np.arange(size - 1), axis=1)
    for offset in range(size - 1):
        matches &= written[:, offset : offset + starts] == suffix[:, offset, None]
    row, start = np.nonzero(matches)
    return row, written[row, start + size - 1]
