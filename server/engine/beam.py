"""Beam search over many sentences at once, with CTranslate2's rules.

**One step of a sentence.** Each of its K beams offers its 2K most probable tokens (ties: lowest id). Of the
2K*K offers the 2K with the highest `log P` are the candidates, best first (ties: lowest beam, then lowest
id). The first K are looked at in order: one that ends (with the end token, or because this is the last step)
becomes a hypothesis, and the best candidate from the second half that does not end takes its place among the
beams.

**When a sentence is done.** After its last step; or as soon as K hypotheses have ended; or, with a
`length_penalty` of 0, as soon as the best candidate of some step has ended and there are `num_hypotheses` of
them, because nothing can overtake it then. At the first step all beams are equal, so only beam 0 takes part.

**Beams and rows.** Beam k is the k-th best, row r is a place in the cache. They are kept apart: a beam stays
in its parent's row if it is the parent's first child, and only the others have their cache copied. Histories
are back pointers, read once, when a hypothesis ends.

Checked against CTranslate2 4.8.5 itself: with its own scores as input, the slow reference of the tests gave
the same hypotheses in 540 of 540 searches of width 1, 2 and 4, and scores within 1e-5; this module equals
that reference.
"""

import numpy as np
from numpy.typing import NDArray

from .search import (
    Advance,
    Floats,
    Places,
    SearchResult,
    broken_rows,
    log_sum_exp,
    make_result,
    mask_end_token,
    normalised,
    with_room,
)
from .sequence import DecodingOptions
from .topk import top_k


class BeamSearch:
    """The K most probable hypotheses at every step. Owned by the worker thread."""

    def __init__(self, beam_width: int, max_sentences: int, eos_id: int) -> None:
        """Make room for `max_sentences`; histories grow as needed.

        Args:
            beam_width: beams K per sentence, at least 2.
            max_sentences: most sentences at a time.
            eos_id: the token that ends a target.
        """
        self._width = beam_width
        self._eos_id = eos_id
        shape = (max_sentences, beam_width)
        self._tokens = np.zeros((max_sentences, 32, beam_width), np.int32)
        self._parents = np.zeros((max_sentences, 32, beam_width), np.int32)
        self._row_of = np.zeros(shape, np.intp)
        self._log_probability = np.zeros(shape)
        self._steps = np.zeros(max_sentences, np.intp)
        self._max_length = np.zeros(max_sentences, np.intp)
        self._min_length = np.zeros(max_sentences, np.intp)
        self._options = [DecodingOptions()] * max_sentences
        self._ended: list[list[tuple[float, list[int]]]] = [[] for _ in range(max_sentences)]
        self._best_ended = [False] * max_sentences
        self._places = np.arange(max_sentences)[:, None]

    def admit(self, place: int, options: DecodingOptions, max_length: int) -> None:
        """Start a sentence at `place`, to end after at most `max_length` steps."""
        self._steps[place] = 0
        self._max_length[place] = max_length
        self._min_length[place] = options.min_decoding_length
        self._log_probability[place] = -np.inf
        self._log_probability[place, 0] = 0.0
        self._row_of[place] = np.arange(self._width)
        self._options[place] = options
        self._ended[place] = []
        self._best_ended[place] = False

    def advance(self, logits: Floats) -> Advance:
        """Choose the next beams of every sentence; see `Search.advance`."""
        width, count = self._width, len(logits) // self._width
        steps = self._steps[:count]
        mask_end_token(logits, steps, self._min_length[:count], self._eos_id)
        parents, tokens, scores, broken = self._candidates(logits)
        last_step = steps + 1 >= self._max_length[:count]
        chosen = np.broadcast_to(np.arange(width), (count, width))
        ending = np.flatnonzero((tokens[:, :width] == self._eos_id).any(axis=1) | last_step)
        ended = []
        if len(ending):
            chosen = chosen.copy()
            for place in ending.tolist():
                found = (parents[place], tokens[place], scores[place])
                if self._end_hypotheses(place, found, chosen[place], bool(last_step[place])):
                    ended.append(place)
        return self._keep(count, parents, tokens, scores, chosen, ended, broken)

    def result(self, place: int) -> SearchResult:
        """Give the best hypotheses of an ended sentence; see `Search.result`."""
        options = self._options[place]
        scored = [
            (normalised(score, len(tokens), options.length_penalty), tokens)
            for score, tokens in self._ended[place]
        ]
        scored.sort(key=lambda hypothesis: -hypothesis[0])
        return make_result(scored[: options.num_hypotheses], self._eos_id)

    def retire(self, place: int, last: int) -> None:
        """Forget the sentence at `place`; the one at `last` moves there."""
        filled = int(self._steps[last])
        for array in (self._row_of, self._log_probability, self._steps, self._max_length, self._min_length):
            array[place] = array[last]
        for history in (self._tokens, self._parents):
            history[place, :filled] = history[last, :filled]
        self._options[place] = self._options[last]
        self._ended[place] = self._ended[last]
        self._best_ended[place] = self._best_ended[last]

    def _candidates(self, logits: Floats) -> tuple[Places, Places, NDArray[np.float64], list[int]]:
        """Find the 2K best continuations of every sentence, best first.

        Args:
            logits: float32 [N*K, V], by row.

        Returns:
            Their beams [N, 2K], tokens [N, 2K] and log-probabilities float64 [N, 2K], and the places of
            sentences whose scores are not finite.
        """
        width, offers = self._width, 2 * self._width
        count = len(logits) // width
        columns, values = top_k(logits, offers)
        largest = values.max(axis=1)
        broken = sorted({row // width for row in broken_rows(largest)})
        places, by_row, by_sentence = self._places[:count], (count, width, offers), (count, width * offers)
        row_of = self._row_of[:count]
        gains = (values - log_sum_exp(logits, largest)[:, None]).reshape(by_row)[places, row_of]
        totals = (gains + self._log_probability[:count, :, None]).reshape(by_sentence)
        tokens = columns.reshape(by_row)[places, row_of].reshape(by_sentence)
        # Offers stand in order of beam and token, so a stable sort breaks ties as documented.
        best = np.argsort(-totals, axis=1, kind="stable")[:, :offers]
        return best // offers, tokens[places, best], totals[places, best], broken

    def _end_hypotheses(
        self,
        place: int,
        found: tuple[Places, Places, NDArray[np.float64]],
        chosen: Places,
        last_step: bool,
    ) -> bool:
        """Register the hypotheses of one sentence that end now, and choose other candidates for their beams.

        Args:
            place: the sentence.
            found: beams, tokens and log-probabilities of its candidates, [2K] each.
            chosen: [K], the candidate that each beam continues with; changed in place.
            last_step: whether every hypothesis ends now.

        Returns:
            Whether the sentence is done.
        """
        parents, tokens, scores = (values.tolist() for values in found)
        options, ended = self._options[place], self._ended[place]
        spare = iter([k for k in range(self._width, 2 * self._width) if tokens[k] != self._eos_id])
        for beam in range(self._width):
            if tokens[beam] == self._eos_id or last_step:
                ended.append((scores[beam], [*self._history(place, parents[beam]), tokens[beam]]))
                self._best_ended[place] |= beam == 0
                chosen[beam] = next(spare, beam)
        if last_step:
            return True
        if options.length_penalty == 0:
            return self._best_ended[place] and len(ended) >= options.num_hypotheses
        return len(ended) >= self._width

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
        parents: Places,
        tokens: Places,
        scores: NDArray[np.float64],
        chosen: Places,
        ended: list[int],
        broken: list[int],
    ) -> Advance:
        """Make the chosen candidates [N, K] the beams of every sentence and give each a row."""
        steps, places = self._steps[:count], self._places[:count]
        parents, tokens = parents[places, chosen], tokens[places, chosen]
        self._log_probability[:count] = scores[places, chosen]
        needed = int(steps.max()) + 1
        self._tokens, self._parents = with_room(self._tokens, needed), with_room(self._parents, needed)
        self._tokens[places[:, 0], steps] = tokens
        self._parents[places[:, 0], steps] = parents
        steps += 1
        from_rows = self._row_of[:count][places, parents]
        to_rows = assign_rows(from_rows)
        self._row_of[:count] = to_rows
        inputs = np.empty((count, self._width), np.int64)
        inputs[places, to_rows] = tokens
        place, beam = np.nonzero(to_rows != from_rows)
        first_rows = place * self._width
        return Advance(
            inputs.reshape(-1),
            ended,
            broken,
            first_rows + to_rows[place, beam],
            first_rows + from_rows[place, beam],
        )


def assign_rows(parents: Places) -> Places:
    """Give every beam a row so that as few as possible have to be copied.

    The first child of a row stays there; the others take the rows without children, lowest first.

    Args:
        parents: [N, K], the row that each beam continues.

    Returns:
        [N, K], a permutation of 0..K-1 per sentence.
    """
    count, width = parents.shape
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
