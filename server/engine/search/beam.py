"""Beam search over many sentences at once, with CTranslate2's rules or transformers'.

**One step of a sentence.** Each of its K beams proposes its 2K most probable tokens (ties: lowest id). Of
these 2K*K the 2K with the highest `log P` are the candidates, best first (ties: lowest beam, then lowest
id). Those of the first K that end (with the end token, or because this is the last step) become hypotheses.
The first K that do not end become the beams. At the first step all beams are equal, so only beam 0 takes
part. When a sentence is done and which hypotheses count is a matter of `stopping`.

**Multi-step decoding** makes these steps inside ONNX Runtime (`MultiStepSession`), as long as the sentences
want nothing else and none can be done; the search is told what was found.

**Forced tokens** (`constraints`): every beam continues itself with the token, at no cost.

**Sampling.** Beams do not compete: each continues itself with the token that was drawn for it until it ends.

**Transformers' rules** (`early_stopping`) differ in one more thing: probabilities are normalised first and
constrained afterwards, so that what is forbidden keeps its share.

**Beams and rows.** Beam k is the k-th best, row r is a place in the cache. They are kept apart: a beam stays
in its parent's row if it is the parent's first child, and only the others have their cache copied. Histories
are back pointers, read once, for the hypotheses that are asked for.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from server.engine.options import DecodingOptions
from server.engine.search.cache_rows import assign_rows
from server.engine.search.candidate_ids import WHOLE_VOCABULARY, CandidateIds
from server.engine.search.candidates import Candidates, normalisers_of, top_2k
from server.engine.search.search import NO_ROWS, Advance, Search, SearchResult, broken_rows, make_result
from server.engine.search.stopping import Criterion, Ended, criterion_of
from server.runtime.memory import Floats, Places, Ranker, Tokens
from server.runtime.sessions import Beams, BeamSteps


class BeamSearch(Search):
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
        """Make room for `max_sentences`; see `Search`.

        Args:
            beam_width: beams K per sentence, at least 2.
            max_sentences: as of `Search`.
            eos_id: as of `Search`.
            suppressed_ids: as of `Search`.
            forced_end: as of `Search`.
            ranker: finds the 2K best columns of rows; numpy does it if None.
        """
        super().__init__(beam_width, max_sentences, eos_id, suppressed_ids, forced_end, histories=2)
        self._width = beam_width
        self._ranker = ranker
        arrays = self._arrays
        self._row_of = arrays.array(np.intp, beam_width)
        self._log_probability = arrays.array(np.float64, beam_width)
        self._normalised_first = arrays.array(np.bool_)
        self._always_checked = arrays.array(np.bool_)
        self._options = arrays.values(DecodingOptions())
        self._criteria: list[Criterion] = arrays.values(criterion_of(DecodingOptions(), 1))
        self._places = np.arange(max_sentences)[:, None]
        self._identity = np.tile(np.arange(beam_width), (max_sentences, 1))
        self._some_first = False  # whether one of all sentences since the last look is normalised first

    def _admit(self, place: int, options: DecodingOptions, changes: bool) -> None:
        self._log_probability[place] = -np.inf
        self._log_probability[place, : options.num_hypotheses if options.samples else 1] = 0.0
        self._row_of[place] = np.arange(self._width)
        self._options[place] = options
        self._criteria[place] = criterion_of(options, int(self._max_length[place]))
        self._always_checked[place] = False
        self._normalised_first[place] = changes and options.follows_transformers
        self._some_first |= bool(self._normalised_first[place])
        if options.return_token_scores:
            self._keep_token_scores()

    def needs_all(self, count: int) -> bool:
        """Whether a sentence draws or is constrained; see `Search.needs_all`."""
        if self._some_first and self._normalised_first[:count].any():
            return True
        return super().needs_all(count)

    def advance(self, logits: Floats, columns: CandidateIds = WHOLE_VOCABULARY) -> Advance:
        """Choose the next beams of every sentence; see `Search.advance`."""
        found, gains = self._top_2k(logits, columns)
        candidates = self._candidates(found, gains, columns)
        self._draw(candidates, logits, found, gains, columns)
        return self._choose(candidates, gains)

    def choose(self, tokens: Tokens, log_probabilities: Floats) -> Advance:
        """Choose them of these; see `Search.choose`."""
        candidates = self._candidates(tokens, log_probabilities, WHOLE_VOCABULARY)
        return self._choose(candidates, log_probabilities)

    def _choose(self, found: Candidates, gains: Floats) -> Advance:
        """Choose the next beams of every sentence, and end those that are done.

        Args:
            found: the candidates.
            gains: float32 [N*K, k], log-probabilities of the best of each row.
        """
        self._force(found)
        width, count = self._width, len(found.tokens)
        broken = sorted({row // width for row in broken_rows(gains.max(axis=1))})
        last_step = self._steps[:count] + 1 >= self._max_length[:count]
        chosen = self._identity[:count]
        ends = found.tokens[:, :width] == self._eos_id
        looked_at = np.flatnonzero(ends.any(axis=1) | last_step | self._always_checked[:count])
        ended = []
        if len(looked_at):
            chosen = chosen.copy()
            for place in looked_at.tolist():
                if self._end_hypotheses(place, found, chosen[place], bool(last_step[place])):
                    ended.append(place)
        return self._keep(count, found, chosen, ended, broken)

    def max_unconstrained_steps(self, count: int) -> tuple[int, Beams]:
        """Give the steps and the beams; see `Search.max_unconstrained_steps`. None is a sentence's last."""
        steps = self._steps[:count]
        most, may_end = self._constraints.max_unconstrained_steps(steps)
        beams = Beams(
            order=self._row_of[:count] + self._places[:count] * self._width,
            scores=self._log_probability[:count],
            remaining=np.array([criterion.remaining for criterion in self._criteria[:count]], np.int64),
            may_end=may_end,
        )
        if self._draws(count):
            return 0, beams
        if self._always_checked[:count].any() or (self._some_first and self._normalised_first[:count].any()):
            return 0, beams
        left = int((self._max_length[:count] - steps).min()) - 1
        return min(left, most), beams

    def apply_steps(self, made: BeamSteps) -> Advance:
        """Take over steps, only in the last of which nothing remains; see `Search.apply_steps`."""
        steps_made, count, width = made.chosen.shape
        places, nth = self._places[:count], np.arange(steps_made)
        steps = self._steps[:count, None] + nth
        chosen = nth[:, None, None], places, made.chosen
        tokens = made.tokens[chosen]
        for history, written in zip(self._histories, (tokens, made.parents[chosen]), strict=False):
            history[places, steps] = written.swapaxes(0, 1)
        if len(self._histories) > self._token_scores_at:
            bits = made.scores[chosen].astype(np.float32).view(np.int32)
            self._histories[self._token_scores_at][places, steps] = bits.swapaxes(0, 1)
        self._log_probability[:count] = made.scores[-1][places, made.chosen[-1]]
        self._row_of[:count] = np.arange(width)
        ends = (made.tokens[:, :, :width] == self._eos_id).any(axis=2)
        ended = []
        for step, place in np.argwhere(ends).tolist():
            before = int(steps[place, step])
            found = made.parents[step, place], made.tokens[step, place], made.scores[step, place]
            self._add_ended(place, before, *(of_one.tolist() for of_one in found))
            if step == steps_made - 1:
                best = float(self._log_probability[place].max())
                if self._criteria[place].done(best, before + 1):
                    ended.append(place)
        self._steps[:count] += steps_made
        broken = np.flatnonzero(made.broken.any(axis=0)).tolist()
        return Advance(tokens[-1].reshape(-1), ended, broken, NO_ROWS, NO_ROWS)

    def result(self, place: int) -> SearchResult:
        """Give the best hypotheses of an ended sentence; see `Search.result`."""
        ranked = self._criteria[place].ranked()[: self._options[place].num_hypotheses]
        cut = self._forced_end and ranked[0][1].length == self._max_length[place]
        found = [(score, self._tokens_of(place, ended)) for score, ended in ranked]
        token_scores = []
        if self._options[place].return_token_scores:
            token_scores = [self._token_scores_of(place, ended) for _, ended in ranked]
        return make_result(found, self._eos_id, is_cut=cut, token_scores=token_scores)

    def _top_2k(self, logits: Floats, columns: CandidateIds) -> tuple[Places, Floats]:
        """Constrain the scores [N*K, C] and find the 2K best of every row; see `top_2k`."""
        count = len(logits) // self._width
        first = before = None
        if self._some_first:
            first = self._normalised_first[:count].repeat(self._width)
            self._some_first = bool(first.any())
            before = normalisers_of(logits, first)
        self._constraints.apply(logits, self._steps[:count], columns, before)
        return top_2k(logits, 2 * self._width, self._ranker, before, first)

    def _candidates(self, found: Places, gains: Floats, columns: CandidateIds) -> Candidates:
        """Find the 2K best continuations of every sentence, best first.

        Args:
            found: [N*K, k], the best columns of the rows, of equally probable ones the lowest first.
            gains: float32 [N*K, k], their log-probabilities.
            columns: what the columns stand for.
        """
        width, each = self._width, found.shape[1]
        count = len(found) // width
        places, by_row, by_sentence = self._places[:count], (count, width, each), (count, width * each)
        row_of = self._row_of[:count]
        by_beam = gains.reshape(by_row)[places, row_of]
        totals = (by_beam + self._log_probability[:count, :, None]).reshape(by_sentence)
        chosen = found.reshape(by_row)[places, row_of].reshape(by_sentence)
        # In order of beam, equal ones in order of token: a stable sort breaks ties as documented.
        best = np.argsort(-totals, axis=1, kind="stable")[:, : 2 * width]
        return Candidates(best // each, columns.tokens(places, chosen[places, best]), totals[places, best])

    def _draw(
        self, found: Candidates, logits: Floats, best_columns: Places, gains: Floats, columns: CandidateIds
    ) -> None:
        """Put what was drawn in the place of the candidates: each beam continues itself."""
        width, steps = self._width, self._steps[: len(found.tokens)]
        if self._sampler is not None and self._sampler.draws(len(steps)):
            places, samples = self._sampler.rows(len(steps))
            self._continue(found, np.unique(places))
            rows = places * width + samples
            drawn = self._sampler.draw(logits, rows, places, samples, steps[places])
            found.tokens[places, samples] = columns.tokens(places, drawn)
            best = gains[rows].argmax(axis=1)
            normalisers = logits[rows, best_columns[rows, best]] - gains[rows, best]
            found.scores[places, samples] += logits[rows, drawn] - normalisers

    def _force(self, found: Candidates) -> None:
        """Put what is forced in the place of the candidates: each beam continues itself."""
        width, steps = self._width, self._steps[: len(found.tokens)]
        forced = self._constraints.forced(steps)
        if forced:
            without_choice, tokens = np.array(forced).T
            self._continue(found, without_choice)
            found.tokens[without_choice, :width] = tokens[:, None]

    def _continue(self, found: Candidates, places: Places) -> None:
        """Let every beam of some sentences have one candidate, which continues it and is as probable."""
        width = self._width
        found.parents[places, :width] = np.arange(width)
        found.scores[places, :width] = self._log_probability[places]
        found.scores[places, width:] = -np.inf

    def _end_hypotheses(self, place: int, found: Candidates, chosen: Places, last_step: bool) -> bool:
        """Register the hypotheses of one sentence that end now, and choose other candidates for their beams.

        Args:
            place: the sentence.
            found: the candidates of all; a beam that ends and is not replaced has no score any more.
            chosen: [K], the candidate that each beam continues with; changed in place.
            last_step: whether every hypothesis ends now.

        Returns:
            Whether the sentence is done.
        """
        steps = int(self._steps[place])
        # Of so few numbers numpy's calls take longer than lists do, and there are a dozen of them.
        parents, tokens, scores = (
            of_all[place].tolist() for of_all in (found.parents, found.tokens, found.scores)
        )
        ended = self._add_ended(place, steps, parents, tokens, scores, last_step=last_step)
        if not self._options[place].samples:
            goes_on = [tokens[k] != self._eos_id and scores[k] > -math.inf for k in range(len(tokens))]
            # Those that go on, best first; then those that do not, which a stable sort leaves behind.
            chosen[:] = sorted(range(len(tokens)), key=goes_on.__getitem__, reverse=True)[: self._width]
        for k in ended:
            scores[k] = found.scores[place, k] = -math.inf
        best = max(scores[k] for k in chosen.tolist())
        return last_step or best == -math.inf or self._criteria[place].done(best, steps + 1)

    def _add_ended(
        self,
        place: int,
        steps: int,
        parents: list[int],
        tokens: list[int],
        scores: list[float],
        *,
        last_step: bool = False,
    ) -> list[int]:
        """Register the hypotheses of one sentence that end after so many steps; gives which candidates did.

        Parents, tokens and scores have the 2K candidates; in the last step every hypothesis ends.
        """
        ended = [
            k
            for k in range(self._width)
            if scores[k] > -math.inf and (last_step or tokens[k] == self._eos_id)
        ]
        criterion = self._criteria[place]
        for k in ended:
            criterion.add(scores[k], Ended(steps, parents[k], tokens[k], scores[k]), is_best=k == 0)
        self._always_checked[place] = criterion.checks_always
        return ended

    def _tokens_of(self, place: int, ended: Ended) -> list[int]:
        """Read the tokens of a hypothesis, first to last, along the back pointers."""
        tokens, parents = (history[place, : ended.steps].tolist() for history in self._histories[:2])
        found, beam = [ended.token], ended.beam
        for step in range(ended.steps - 1, -1, -1):
            found.append(tokens[step][beam])
            beam = parents[step][beam]
        return found[::-1]

    def _token_scores_of(self, place: int, ended: Ended) -> list[float]:
        """Read the log-probability of each token: what the sum of its beam grew by at its step."""
        kept = self._histories[self._token_scores_at][place, : ended.steps]
        sums = kept.view(np.float32).tolist()
        parents = self._histories[1][place, : ended.steps].tolist()
        along, beam = [ended.log_probability], ended.beam
        for step in range(ended.steps - 1, -1, -1):
            along.append(sums[step][beam])
            beam = parents[step][beam]
        along.append(0.0)
        return [min(0.0, after - before) for after, before in itertools.pairwise(along)][::-1]

    def _keep(
        self,
        count: int,
        found: Candidates,
        chosen: Places,
        ended: list[int],
        broken: list[int],
    ) -> Advance:
        """Make the chosen candidates [N, K] the beams of every sentence and give each a row."""
        steps, places = self._steps[:count], self._places[:count]
        parents, tokens = found.parents[places, chosen], found.tokens[places, chosen]
        self._log_probability[:count] = found.scores[places, chosen]
        for history, written in zip(self._histories, (tokens, parents), strict=False):
            history[places[:, 0], steps] = written
        if len(self._histories) > self._token_scores_at:
            bits = self._log_probability[:count].astype(np.float32).view(np.int32)
            self._histories[self._token_scores_at][places[:, 0], steps] = bits
        from_rows = self._row_of[:count][places, parents]
        to_rows = assign_rows(from_rows)
        self._row_of[:count] = to_rows
        inputs = np.empty((count, self._width), np.int64)
        inputs[places, to_rows] = tokens
        place, beam = np.nonzero(to_rows != from_rows)
        first_rows = place * self._width
        moved, parent_rows = first_rows + to_rows[place, beam], first_rows + from_rows[place, beam]
        self._constraints.record(steps, inputs.reshape(-1), moved, parent_rows)
        steps += 1
        return Advance(inputs.reshape(-1), ended, broken, moved, parent_rows)
