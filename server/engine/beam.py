"""Beam search over many sentences at once, with CTranslate2's rules or transformers'.

**One step of a sentence.** Each of its K beams offers its 2K most probable tokens (ties: lowest id). Of the
2K*K offers the 2K with the highest `log P` are the candidates, best first (ties: lowest beam, then lowest
id). The first K are looked at in order: one that ends (with the end token, or because this is the last step)
becomes a hypothesis, and the best candidate from the second half that does not end takes its place among the
beams. At the first step all beams are equal, so only beam 0 takes part. When a sentence is done and which
hypotheses count is a matter of `ending`.

**Forced tokens** (`constraints`): every beam continues itself with the token, at no cost.

**Sampling.** Beams do not compete: each continues itself with the token that was drawn for it until it ends.

**Transformers' rules** (`early_stopping`) differ in one more thing: probabilities are normalised first and
constrained afterwards, so that what is forbidden keeps its share.

**Beams and rows.** Beam k is the k-th best, row r is a place in the cache. They are kept apart: a beam stays
in its parent's row if it is the parent's first child, and only the others have their cache copied. Histories
are back pointers, read once, when a hypothesis ends.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from server.runtime.memory import Ranker

from .columns import WHOLE_VOCABULARY, Columns
from .constraints import Constraints
from .ending import Ending, ending_of
from .offers import best_offers, normalisers_of
from .sampling import Sampler
from .search import Advance, Floats, Places, SearchResult, broken_rows, make_result, with_room
from .sequence import DecodingOptions
from .topk import top_k

_FEW_SENTENCES = 16


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The 2K best continuations of N sentences, best first.

    Attributes:
        parents: [N, 2K], beams that are continued.
        tokens: int64 [N, 2K].
        scores: float64 [N, 2K], log-probabilities; minus infinity for those that do not count.
    """

    parents: Places
    tokens: NDArray[np.int64]
    scores: NDArray[np.float64]


class BeamSearch:
    """The K most probable hypotheses at every step, or K samples. Owned by the worker thread."""

    def __init__(
        self,
        beam_width: int,
        max_sentences: int,
        eos_id: int,
        suppressed_ids: Sequence[int] = (),
        forced_end: bool = False,
        ranker: Ranker | None = None,
    ) -> None:
        """Make room for `max_sentences`; histories grow as needed.

        Args:
            beam_width: beams K per sentence, at least 2.
            max_sentences: most sentences at a time.
            eos_id: the token that ends a target.
            suppressed_ids: tokens that are never written.
            forced_end: whether the last step of every sentence yields the end token.
            ranker: finds the 2K best columns of rows; numpy does it if None.
        """
        self._width = beam_width
        self._ranker = ranker
        self._eos_id = eos_id
        self._forced_end = forced_end
        shape = (max_sentences, beam_width)
        self._tokens = np.zeros((max_sentences, 32, beam_width), np.int32)
        self._parents = np.zeros((max_sentences, 32, beam_width), np.int32)
        self._row_of = np.zeros(shape, np.intp)
        self._log_probability = np.zeros(shape)
        self._steps = np.zeros(max_sentences, np.intp)
        self._max_length = np.zeros(max_sentences, np.intp)
        self._normalised_first = np.zeros(max_sentences, np.bool_)
        self._full = np.zeros(max_sentences, np.bool_)
        self._options = [DecodingOptions()] * max_sentences
        self._endings: list[Ending] = [ending_of(DecodingOptions(), 1)] * max_sentences
        self._places = np.arange(max_sentences)[:, None]
        self._identity = np.tile(np.arange(beam_width), (max_sentences, 1))
        self._some_first = False  # whether one of all sentences since the last look is normalised first
        self._constraints = Constraints(beam_width, max_sentences, eos_id, suppressed_ids, forced_end)
        self._sampler = Sampler(max_sentences)

    def admit(
        self, place: int, options: DecodingOptions, max_length: int, source: Sequence[int] = ()
    ) -> None:
        """Start a sentence at `place`; see `Search.admit`."""
        self._steps[place] = 0
        self._max_length[place] = max_length
        self._log_probability[place] = -np.inf
        self._log_probability[place, : options.num_hypotheses if options.samples else 1] = 0.0
        self._row_of[place] = np.arange(self._width)
        self._options[place] = options
        self._endings[place] = ending_of(options, max_length)
        self._full[place] = False
        changes = self._constraints.admit(place, options, max_length)
        self._normalised_first[place] = changes and options.follows_transformers
        self._some_first |= bool(self._normalised_first[place])
        self._tokens, self._parents = (
            with_room(array, max_length) for array in (self._tokens, self._parents)
        )
        self._sampler.admit(place, options, source, max_length)

    def needs_all(self, count: int) -> bool:
        """Whether a sentence draws or is constrained; see `Search.needs_all`."""
        if self._some_first and self._normalised_first[:count].any():
            return True
        return self._constraints.need_all(self._steps[:count]) or self._sampler.draws(count)

    def advance(
        self, logits: Floats, columns: Columns = WHOLE_VOCABULARY, *, normalised: bool = False
    ) -> Advance:
        """Choose the next beams of every sentence; see `Search.advance`."""
        width, count = self._width, len(logits) // self._width
        found, broken = self._candidates(logits, columns, normalised=normalised)
        last_step = self._steps[:count] + 1 >= self._max_length[:count]
        chosen = self._identity[:count]
        ends = found.tokens[:, :width] == self._eos_id
        looked_at = np.flatnonzero(ends.any(axis=1) | last_step | self._full[:count])
        ended = []
        if len(looked_at):
            chosen = chosen.copy()
            for place in looked_at.tolist():
                if self._end_hypotheses(place, found, chosen[place], bool(last_step[place])):
                    ended.append(place)
        return self._keep(count, found, chosen, ended, broken)

    def result(self, place: int) -> SearchResult:
        """Give the best hypotheses of an ended sentence; see `Search.result`."""
        ranked = self._endings[place].ranked()[: self._options[place].num_hypotheses]
        cut = self._forced_end and len(ranked[0][1]) == self._max_length[place]
        return make_result(ranked, self._eos_id, is_cut=cut)

    def retire(self, place: int, last: int) -> None:
        """Forget the sentence at `place`; the one at `last` moves there."""
        filled = int(self._steps[last])
        for array in (
            self._row_of,
            self._log_probability,
            self._steps,
            self._max_length,
            self._normalised_first,
            self._full,
        ):
            array[place] = array[last]
        self._tokens[place, :filled] = self._tokens[last, :filled]
        self._parents[place, :filled] = self._parents[last, :filled]
        self._options[place] = self._options[last]
        self._endings[place] = self._endings[last]
        self._constraints.retire(place, last)
        self._sampler.retire(place, last)

    def _candidates(
        self, logits: Floats, columns: Columns, *, normalised: bool
    ) -> tuple[_Candidates, list[int]]:
        """Find the 2K best continuations of every sentence, best first.

        Args:
            logits: float32 [N*K, C], by row; constraints are applied to it.
            columns: what the columns stand for.
            normalised: as in `Search.advance`.

        Returns:
            The candidates, and the places of sentences whose scores are not finite.
        """
        width, offers = self._width, 2 * self._width
        count = len(logits) // width
        steps = self._steps[:count]
        first = before = None
        if self._some_first:
            first = self._normalised_first[:count].repeat(width)
            self._some_first = bool(first.any())
        if normalised:
            found, gains = top_k(logits, offers)
        else:
            if first is not None:
                before = normalisers_of(logits, first)
            self._constraints.apply(logits, steps, columns, before)
            found, gains = best_offers(logits, offers, self._ranker, before, first)
        broken = sorted({row // width for row in broken_rows(gains.max(axis=1))})
        places, by_row, by_sentence = self._places[:count], (count, width, offers), (count, width * offers)
        row_of = self._row_of[:count]
        by_beam = gains.reshape(by_row)[places, row_of]
        totals = (by_beam + self._log_probability[:count, :, None]).reshape(by_sentence)
        chosen = found.reshape(by_row)[places, row_of].reshape(by_sentence)
        # In order of beam, equal ones in order of token: a stable sort breaks ties as documented.
        best = np.argsort(-totals, axis=1, kind="stable")[:, :offers]
        candidates = _Candidates(
            best // offers, columns.tokens(places, chosen[places, best]), totals[places, best]
        )
        self._replace(candidates, logits, found, gains, columns)
        return candidates, broken

    def _replace(
        self, found: _Candidates, logits: Floats, offered: Places, gains: Floats, columns: Columns
    ) -> None:
        """Put what was drawn or is forced in the place of the candidates: each beam continues itself."""
        width, steps = self._width, self._steps[: len(found.tokens)]
        places, samples = self._sampler.rows(len(steps))
        if len(places):
            self._continue(found, np.unique(places))
            rows = places * width + samples
            drawn = self._sampler.draw(logits, rows, places, samples, steps[places])
            found.tokens[places, samples] = columns.tokens(places, drawn)
            best = gains[rows].argmax(axis=1)
            normalisers = logits[rows, offered[rows, best]] - gains[rows, best]
            found.scores[places, samples] += logits[rows, drawn] - normalisers
        forced = self._constraints.forced(steps)
        if forced:
            without_choice, tokens = np.array(forced).T
            self._continue(found, without_choice)
            found.tokens[without_choice, :width] = tokens[:, None]

    def _continue(self, found: _Candidates, places: Places) -> None:
        """Let every beam of some sentences have one candidate, which continues it and is as probable."""
        width = self._width
        found.parents[places, :width] = np.arange(width)
        found.scores[places, :width] = self._log_probability[places]
        found.scores[places, width:] = -np.inf

    def _end_hypotheses(self, place: int, found: _Candidates, chosen: Places, last_step: bool) -> bool:
        """Register the hypotheses of one sentence that end now, and choose other candidates for their beams.

        Args:
            place: the sentence.
            found: the candidates of all; a beam that ends and is not replaced has no score any more.
            chosen: [K], the candidate that each beam continues with; changed in place.
            last_step: whether every hypothesis ends now.

        Returns:
            Whether the sentence is done.
        """
        width, ending = self._width, self._endings[place]
        parents, tokens = found.parents[place].tolist(), found.tokens[place].tolist()
        scores = found.scores[place].tolist()
        alive = [k for k in range(2 * width) if scores[k] > -math.inf]
        spare = iter([k for k in alive if k >= width and tokens[k] != self._eos_id])
        for beam in alive:
            if beam < width and (tokens[beam] == self._eos_id or last_step):
                hypothesis = [*self._history(place, parents[beam]), tokens[beam]]
                ending.add(scores[beam], hypothesis, is_best=beam == 0)
                chosen[beam] = next(spare, beam)
                if chosen[beam] == beam:
                    found.scores[place, beam] = -math.inf
        best = float(found.scores[place, chosen].max())
        self._full[place] = ending.full
        return last_step or best == -math.inf or ending.done(best, int(self._steps[place]) + 1)

    def _history(self, place: int, beam: int) -> list[int]:
        """Read the tokens of a beam, first to last, along the back pointers."""
        tokens, parents = self._tokens[place], self._parents[place]
        history = []
        for step in range(int(self._steps[place]) - 1, -1, -1):
            history.append(int(tokens[step, beam]))
            beam = int(parents[step, beam])
        return history[::-1]

    def _keep(
        self,
        count: int,
        found: _Candidates,
        chosen: Places,
        ended: list[int],
        broken: list[int],
    ) -> Advance:
        """Make the chosen candidates [N, K] the beams of every sentence and give each a row."""
        steps, places = self._steps[:count], self._places[:count]
        parents, tokens = found.parents[places, chosen], found.tokens[places, chosen]
        self._log_probability[:count] = found.scores[places, chosen]
        self._tokens[places[:, 0], steps] = tokens
        self._parents[places[:, 0], steps] = parents
        from_rows = self._row_of[:count][places, parents]
        to_rows = assign_rows(from_rows)
        self._row_of[:count] = to_rows
        inputs = np.empty((count, self._width), np.int64)
        inputs[places, to_rows] = tokens
        place, beam = np.nonzero(to_rows != from_rows)
        first_rows = place * self._width
        moved, parent_rows = first_rows + to_rows[place, beam], first_rows + from_rows[place, beam]
        self._constraints.follow(steps, inputs.reshape(-1), moved, parent_rows)
        steps += 1
        return Advance(inputs.reshape(-1), ended, broken, moved, parent_rows)


def assign_rows(parents: Places) -> Places:
    """Give every beam a row so that as few as possible have to be copied.

    The first child of a row stays there; the others take the rows without children, lowest first.

    Args:
        parents: [N, K], the row that each beam continues.

    Returns:
        [N, K], a permutation of 0..K-1 per sentence.
    """
    count, width = parents.shape
    if count <= _FEW_SENTENCES:
        return np.array([_assign(row) for row in parents.tolist()])
    places = np.arange(count)
    taken = np.zeros((count, width), np.bool_)
    stays = np.empty((count, width), np.bool_)
    for beam in range(width):
        parent = parents[:, beam]
        stays[:, beam] = ~taken[places, parent]
        taken[places, parent] = True
    free = np.argsort(taken, axis=1, kind="stable")
    nth = np.cumsum(~stays, axis=1) - 1
    return np.where(stays, parents, free[places[:, None], np.maximum(nth, 0)])


def _assign(parents: list[int]) -> list[int]:
    """Do for one sentence what `assign_rows` does; for few sentences numpy's calls take longer."""
    rows, free = [-1] * len(parents), set(range(len(parents)))
    for beam, parent in enumerate(parents):
        if parent in free:
            free.remove(parent)
            rows[beam] = parent
    others = iter(sorted(free))
    return [next(others) if row < 0 else row for row in rows]
