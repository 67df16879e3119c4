"""Greedy search and sampling over many sentences at once: the most probable token, or one drawn at random."""

from collections.abc import Callable, Sequence

import numpy as np

from server.engine.options import DecodingOptions
from server.engine.search.candidate_ids import WHOLE_VOCABULARY, CandidateIds
from server.engine.search.log_sum_exp import log_sum_exp
from server.engine.search.search import NO_ROWS, Advance, Search, SearchResult, broken_rows, make_result
from server.engine.search.stopping import normalised
from server.runtime.memory import Floats, Places, Tokens


class GreedySearch(Search):
    """The most probable token at every step, or one drawn at random. Owned by the worker thread.

    Without options a sentence needs one `argmax`; a log-sum-exp is computed only for those that ask for
    scores.
    """

    def __init__(
        self, max_sentences: int, eos_id: int, suppressed_ids: Sequence[int] = (), forced_end: bool = False
    ) -> None:
        """Make room for `max_sentences`; see `Search`."""
        super().__init__(1, max_sentences, eos_id, suppressed_ids, forced_end, histories=1)
        arrays = self._arrays
        self._length_penalty = arrays.array(np.float64)
        self._scored = arrays.array(np.bool_)
        self._some_scored = False
        self._token_scored = arrays.array(np.bool_)
        self._log_probability = arrays.array(np.float64)
        self._places = np.arange(max_sentences)

    def _admit(self, place: int, options: DecodingOptions, changes: bool) -> None:
        self._length_penalty[place] = options.length_penalty
        scored = options.return_scores or options.return_token_scores
        self._scored[place] = scored
        self._token_scored[place] = options.return_token_scores
        self._log_probability[place] = 0.0
        self._some_scored |= scored
        if options.return_token_scores:
            self._keep_token_scores()

    def advance(self, logits: Floats, columns: CandidateIds = WHOLE_VOCABULARY) -> Advance:
        """Choose the token of every row; see `Search.advance`."""
        count = len(logits)
        places, steps = self._places[:count], self._steps[:count]
        self._constraints.apply(logits, steps, columns)
        chosen = logits.argmax(axis=1)
        best = logits[places, chosen]
        taken = best
        if self._sampler is not None and self._sampler.draws(count):
            drawing, samples = self._sampler.rows(count)
            chosen[drawing] = self._sampler.draw(logits, drawing, drawing, samples, steps[drawing])
            taken = logits[places, chosen]

        def gained(rows: Places) -> Floats:
            some = logits if len(rows) == count else logits[rows]
            found: Floats = taken[rows] - log_sum_exp(some, best[rows])
            return found

        return self._take(columns.tokens(places, chosen), gained, broken_rows(best))

    def choose(self, tokens: Tokens, log_probabilities: Floats) -> Advance:
        """Take the token of every row; see `Search.choose`."""
        best = log_probabilities[:, 0]
        return self._take(tokens[:, 0].copy(), best.__getitem__, broken_rows(best))

    def _take(self, tokens: Tokens, gained: Callable[[Places], Floats], broken: list[int]) -> Advance:
        """Let every sentence have its token, unless another is forced upon it.

        Args:
            tokens: int64 [N], changed in place.
            gained: gives the log-probabilities of the tokens of some rows.
            broken: places of sentences whose scores are not finite.
        """
        count = len(tokens)
        places, steps = self._places[:count], self._steps[:count]
        forced = self._constraints.forced(steps)
        scored = self._scored[:count]
        if forced:
            without_choice, their_tokens = np.array(forced).T
            tokens[without_choice] = their_tokens
            scored = scored.copy()
            scored[without_choice] = False
        token_scores = None
        if len(self._histories) > self._token_scores_at:
            token_scores = self._histories[self._token_scores_at]
            token_scores[places, steps, 0] = 0  # forced tokens cost nothing
        if self._some_scored:
            self._some_scored = bool(self._scored[:count].any())
        if self._some_scored and scored.any():
            rows = np.flatnonzero(scored)
            found = gained(rows)
            self._log_probability[rows] += found
            if token_scores is not None:
                token_scores[rows, steps[rows], 0] = np.asarray(found, np.float32).view(np.int32)
        self._constraints.record(steps, tokens, NO_ROWS, NO_ROWS)
        self._histories[0][places, steps, 0] = tokens
        steps += 1
        ended = np.flatnonzero((tokens == self._eos_id) | (steps >= self._max_length[:count]))
        return Advance(tokens, ended.tolist(), broken, NO_ROWS, NO_ROWS)

    def max_unconstrained_steps(self, count: int) -> tuple[int, bool]:
        """Give the steps and whether they may take the end token; see `Search.max_unconstrained_steps`."""
        steps = self._steps[:count]
        most, may_end = self._constraints.max_unconstrained_steps(steps)
        if self._scored[:count].any() or self._draws(count):
            return 0, may_end
        return min(most, int((self._max_length[:count] - steps).min()) - self._forced_end), may_end

    def apply_steps(self, made: Tokens) -> Advance:
        """Take over tokens [M, N], the end token in none but the last of them; see `Search.apply_steps`."""
        number, count = made.shape
        steps, last = self._steps[:count], made[-1]
        for place, start in enumerate(steps.tolist()):
            self._histories[0][place, start : start + number, 0] = made[:, place]
        steps += number
        ended = np.flatnonzero((last == self._eos_id) | (steps >= self._max_length[:count]))
        return Advance(last, ended.tolist(), [], NO_ROWS, NO_ROWS)

    def result(self, place: int) -> SearchResult:
        """Give the one hypothesis of an ended sentence; see `Search.result`."""
        length = int(self._steps[place])
        tokens = self._histories[0][place, :length, 0].tolist()
        score = 0.0
        if self._scored[place]:
            score = normalised(
                float(self._log_probability[place]), length, float(self._length_penalty[place])
            )
        cut = self._forced_end and length == self._max_length[place]
        token_scores = []
        if self._token_scored[place]:
            kept = self._histories[self._token_scores_at][place, :length, 0].copy()
            token_scores = [kept.view(np.float32).tolist()]
        return make_result([(score, tokens)], self._eos_id, is_cut=cut, token_scores=token_scores)
