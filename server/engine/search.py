"""Greedy and beam search over many sentences at once: numpy only, no session and no clock.

A search keeps what has been chosen for the sentences of one arena, in the same places. `advance` takes the
scores of one step and says which sentences have ended, which tokens come next and which rows continue another
row.

**Scores.** Semantics are CTranslate2's. `log P` is the sum of natural-log probabilities of the chosen tokens,
the end token included; the end token is masked out before normalisation while `min_decoding_length` is not
reached. The score of a hypothesis is `log P / length**length_penalty`, where length counts the end token if
the hypothesis ended with it. Hypotheses are ranked by score, equal scores by the order in which they ended.

**When a sentence is done.** Greedy: at its end token or after `max_decoding_length` steps. Beam search, see
`server.engine.beam`.

**Ties.** Between equal scores the lowest token id wins, always, so that a result does not depend on the
library's choice of algorithm. Every row is reduced on its own, bit by bit the same alone and in any batch.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .sequence import DecodingOptions, FinishReason, Hypothesis

Floats = NDArray[np.float32]
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Advance:
    """What one step decided.

    Attributes:
        tokens: int64 [N*K], the next input of every row; of ended sentences anything.
        ended: places of sentences that are done, ascending.
        broken: places of sentences whose scores are not numbers, ascending.
        rows: [M], rows that continue another row's target; empty for greedy search.
        parents: [M], the row that each of `rows` continues.
    """

    tokens: NDArray[np.int64]
    ended: list[int]
    broken: list[int]
    rows: Places
    parents: Places


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hypotheses of one sentence, best first, and why the best of them ended."""

    hypotheses: tuple[Hypothesis, ...]
    finish_reason: FinishReason


class Search(Protocol):
    """Chooses tokens for the sentences of one batch. Owned by the worker thread."""

    def admit(self, place: int, options: DecodingOptions, max_length: int) -> None:
        """Start a sentence at `place`, to end after at most `max_length` steps."""

    def advance(self, logits: Floats) -> Advance:
        """Choose the next tokens of the sentences in the first places.

        Args:
            logits: float32 [N*K, V], unnormalised scores; may be overwritten.

        Returns:
            What was decided.
        """

    def result(self, place: int) -> SearchResult:
        """Give the hypotheses of an ended sentence; valid until the next `advance`."""

    def retire(self, place: int, last: int) -> None:
        """Forget the sentence at `place`; the one at `last` moves there."""


_NO_ROWS: Places = np.empty(0, np.intp)


class GreedySearch:
    """The most probable token at every step. Owned by the worker thread.

    Without scores it needs one `argmax` per row; a log-sum-exp is computed only for rows whose options ask
    for one.
    """

    def __init__(self, max_sentences: int, eos_id: int) -> None:
        """Make room for `max_sentences`; histories grow as needed.

        Args:
            max_sentences: most sentences at a time.
            eos_id: the token that ends a target.
        """
        self._eos_id = eos_id
        self._history = np.zeros((max_sentences, 32), np.int32)
        self._steps = np.zeros(max_sentences, np.intp)
        self._max_length = np.zeros(max_sentences, np.intp)
        self._min_length = np.zeros(max_sentences, np.intp)
        self._length_penalty = np.zeros(max_sentences)
        self._scored = np.zeros(max_sentences, np.bool_)
        self._log_probability = np.zeros(max_sentences)
        self._places = np.arange(max_sentences)

    def admit(self, place: int, options: DecodingOptions, max_length: int) -> None:
        """Start a sentence at `place`, to end after at most `max_length` steps."""
        self._steps[place] = 0
        self._max_length[place] = max_length
        self._min_length[place] = options.min_decoding_length
        self._length_penalty[place] = options.length_penalty
        self._scored[place] = options.return_scores
        self._log_probability[place] = 0.0

    def advance(self, logits: Floats) -> Advance:
        """Choose the token of every row; see `Search.advance`."""
        count = len(logits)
        places, steps = self._places[:count], self._steps[:count]
        mask_end_token(logits, steps, self._min_length[:count], self._eos_id)
        tokens = logits.argmax(axis=1)
        best = logits[places, tokens]
        broken = broken_rows(best)
        scored = np.flatnonzero(self._scored[:count])
        if len(scored):
            rows = logits if len(scored) == count else logits[scored]
            self._log_probability[scored] += best[scored] - log_sum_exp(rows, best[scored])
        self._history = with_room(self._history, int(steps.max()) + 1)
        self._history[places, steps] = tokens
        steps += 1
        ended = np.flatnonzero((tokens == self._eos_id) | (steps >= self._max_length[:count]))
        return Advance(tokens, ended.tolist(), broken, _NO_ROWS, _NO_ROWS)

    def result(self, place: int) -> SearchResult:
        """Give the one hypothesis of an ended sentence; see `Search.result`."""
        length = int(self._steps[place])
        tokens = self._history[place, :length].tolist()
        score = 0.0
        if self._scored[place]:
            score = normalised(
                float(self._log_probability[place]), length, float(self._length_penalty[place])
            )
        return make_result([(score, tokens)], self._eos_id)

    def retire(self, place: int, last: int) -> None:
        """Forget the sentence at `place`; the one at `last` moves there."""
        for array in (self._steps, self._max_length, self._min_length, self._length_penalty, self._scored):
            array[place] = array[last]
        self._log_probability[place] = self._log_probability[last]
        self._history[place] = self._history[last]


def make_result(ranked: list[tuple[float, list[int]]], eos_id: int) -> SearchResult:
    """Turn ranked (score, tokens with the end token if there is one) into a result without end tokens."""
    ends = [tokens[-1] == eos_id for _, tokens in ranked]
    hypotheses = tuple(
        Hypothesis(tuple(tokens[:-1] if end else tokens), score)
        for (score, tokens), end in zip(ranked, ends, strict=True)
    )
    return SearchResult(hypotheses, "eos" if ends[0] else "length")


def normalised(log_probability: float, length: int, length_penalty: float) -> float:
    """CTranslate2's score: `log_probability / length**length_penalty`.

    Args:
        log_probability: sum over the tokens of a hypothesis.
        length: number of these tokens, the end token included.
        length_penalty: 0 leaves the sum as it is, 1 gives the mean per token.

    Returns:
        The score by which hypotheses are ranked.
    """
    return log_probability / math.pow(length, length_penalty)


def mask_end_token(logits: Floats, steps: Places, min_length: Places, eos_id: int) -> None:
    """Forbid the end token, in place, in the rows of sentences that are still too short.

    Args:
        logits: float32 [N*K, V].
        steps: [N], tokens chosen so far.
        min_length: [N], tokens before which the end token is not allowed.
        eos_id: column to forbid.
    """
    short = steps < min_length
    if short.any():
        logits[np.repeat(short, len(logits) // len(short)), eos_id] = -np.inf


def broken_rows(best: Floats) -> list[int]:
    """Find rows whose best score is not finite, as happens when a graph overflows.

    Args:
        best: float32 [R], the largest score of each row; NaN if the row holds one.

    Returns:
        Their indices, ascending.
    """
    finite = np.isfinite(best)
    return [] if finite.all() else np.flatnonzero(~finite).tolist()


def with_room(history: NDArray[np.int32], steps: int) -> NDArray[np.int32]:
    """Give a history [N, T, ...] with room for `steps` steps, doubled if it has to grow."""
    if history.shape[1] >= steps:
        return history
    return np.concatenate([history, np.zeros_like(history)], axis=1)


_EXP_BLOCK = 32768
"""Scores per pass of `log_sum_exp`: 128 KiB, so that the passes over them stay in the second-level cache."""


def log_sum_exp(logits: Floats, largest: Floats) -> Floats:
    """Logarithm of the sum of exponentials of every row.

    Args:
        logits: float32 [R, V].
        largest: float32 [R], the maximum of each row.

    Returns:
        float32 [R].
    """
    rows, width = logits.shape
    sums = np.empty(rows, np.float32)
    step = max(1, _EXP_BLOCK // width)
    scratch = np.empty((min(step, rows), width), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):  # rows that are not finite are found by `broken_rows`
        for first in range(0, rows, step):
            block = logits[first : first + step]
            out = scratch[: len(block)]
            np.subtract(block, largest[first : first + step, None], out=out)
            np.exp(out, out=out)
            out.sum(axis=1, out=sums[first : first + step])
        result: Floats = np.log(sums) + largest
    return result
