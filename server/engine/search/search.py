"""What every search over many sentences does: numpy only, no session and no clock.

A search keeps what has been chosen for the sentences of one arena, in the same places. `advance` takes the
scores of one step and says which sentences have ended, which tokens come next and which rows continue another
row.

**Scores.** Semantics are CTranslate2's. `log P` is the sum of natural-log probabilities of the chosen tokens,
the end token included and forced tokens (probability 1) too; what `constraints` forbids or penalises is
changed before normalisation. The score of a hypothesis is `log P / length**length_penalty`, where length
counts the end token if the hypothesis ended with it. Hypotheses are ranked by score, equal scores by the
order in which they ended.

**When a sentence is done.** Greedy and sampling: at its end token or after `max_decoding_length` steps. Beam
search, see `server.engine.search.stopping`.

**Ties.** Between equal scores the lowest token id wins, always, so that a result does not depend on the
library's choice of algorithm. Every row is reduced on its own, bit by bit the same alone and in any batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server.engine.options import DecodingOptions
from server.engine.search.candidate_ids import WHOLE_VOCABULARY, CandidateIds
from server.engine.search.constraints import Constraints
from server.engine.search.sampling import Sampler
from server.engine.sentence_arrays import SentenceArrays
from server.engine.sequence import FinishReason, Hypothesis
from server.runtime.memory import Floats, Places, Tokens


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


NO_ROWS: Places = np.empty(0, np.intp)


class Search(ABC):
    """Chooses tokens for the sentences of one batch. Owned by the worker thread."""

    def __init__(
        self,
        beam_width: int,
        max_sentences: int,
        eos_id: int,
        suppressed_ids: Sequence[int],
        forced_end: bool,
        histories: int,
    ) -> None:
        """Make room for `max_sentences`; histories grow as needed.

        Args:
            beam_width: rows K per sentence.
            max_sentences: most sentences at a time.
            eos_id: the token that ends a target.
            suppressed_ids: tokens that are never written.
            forced_end: whether the last step of every sentence yields the end token.
            histories: numbers that are kept of each step of a row.
        """
        self._eos_id = eos_id
        self._forced_end = forced_end
        self._histories = [np.zeros((max_sentences, 32, beam_width), np.int32) for _ in range(histories)]
        self._token_scores_at = histories  # index of the history that has the bits of float32
        self._arrays = arrays = SentenceArrays(max_sentences)
        self._steps = arrays.array(np.intp)
        self._max_length = arrays.array(np.intp)
        self._constraints = Constraints(beam_width, max_sentences, eos_id, suppressed_ids, forced_end)
        self._sampler: Sampler | None = None  # made for the first sentence that draws

    def admit(
        self, place: int, options: DecodingOptions, max_length: int, source: Sequence[int | bytes] = ()
    ) -> None:
        """Start a sentence at `place` of the arena, to end after at most `max_length` steps.

        Those are at least 1 and at least the length of its `target_prefix`. Only draws depend on its source.
        """
        self._steps[place] = 0
        self._max_length[place] = max_length
        while self._histories[0].shape[1] < max_length:
            self._histories = [np.concatenate([old, np.zeros_like(old)], axis=1) for old in self._histories]
        changes = self._constraints.admit(place, options, max_length)
        if options.samples and self._sampler is None:
            self._sampler = Sampler(len(self._steps))
        if self._sampler is not None:
            self._sampler.admit(place, options, source, max_length)
        self._admit(place, options, changes)

    def needs_all(self, count: int) -> bool:
        """Whether the next step of the first `count` sentences needs more than each row's 2K best columns."""
        return self._constraints.need_all(self._steps[:count]) or self._draws(count)

    @abstractmethod
    def advance(self, logits: Floats, columns: CandidateIds = WHOLE_VOCABULARY) -> Advance:
        """Choose the next tokens of the sentences in the first places.

        Args:
            logits: float32 [N*K, C], unnormalised scores; may be overwritten.
            columns: the tokens that the C columns stand for; C is at least 2K.

        Returns:
            What was decided.
        """

    @abstractmethod
    def choose(self, tokens: Tokens, log_probabilities: Floats) -> Advance:
        """Do the same where somebody else has looked for the best of every row; not if `needs_all`.

        Args:
            tokens: int64 [N*K, k], most probable first, of equal ones the lowest; none that is never written.
            log_probabilities: float32 [N*K, k]; of a row whose scores are not finite, no numbers.

        Returns:
            What was decided.
        """

    @abstractmethod
    def max_unconstrained_steps(self, count: int) -> tuple[int, Any]:
        """Tell what the sentences in the first `count` places can do without this search.

        Returns:
            For how many steps they want nothing but the most probable tokens, and what `MultiStepSession.run`
            must know of them.
        """

    @abstractmethod
    def apply_steps(self, made: Any) -> Advance:
        """Take over what `MultiStepSession.run` found in at most `max_unconstrained_steps`."""

    @abstractmethod
    def result(self, place: int) -> SearchResult:
        """Give the hypotheses of an ended sentence; valid until the next `advance`."""

    def move(self, last: int, to: int) -> None:
        """Forget the sentence at `to`; the one at `last` moves there."""
        filled = int(self._steps[last])
        for history in self._histories:
            history[to, :filled] = history[last, :filled]
        for part in (self._arrays, self._constraints, self._sampler):
            if part is not None:
                part.move(last, to)

    def _draws(self, count: int) -> bool:
        """Whether any of the first `count` sentences draws its tokens."""
        return self._sampler is not None and self._sampler.draws(count)

    def _keep_token_scores(self) -> None:
        """Make room for a score of each step of a row, once the first sentence asks for it."""
        if len(self._histories) == self._token_scores_at:
            self._histories.append(np.zeros_like(self._histories[0]))

    @abstractmethod
    def _admit(self, place: int, options: DecodingOptions, changes: bool) -> None:
        """Do the rest of `admit`; `changes` says whether anything will ever change the sentence's scores."""


def make_result(
    ranked: list[tuple[float, list[int]]],
    eos_id: int,
    *,
    is_cut: bool,
    token_scores: Sequence[Sequence[float]] = (),
) -> SearchResult:
    """Turn ranked hypotheses into a result without end tokens.

    Args:
        ranked: scores and tokens, with the end token if there is one, best first; at least one.
        eos_id: the end token.
        is_cut: whether the end token of the best one was forced upon it.
        token_scores: of each hypothesis, for each of its tokens; empty if nobody asked.
    """
    ends = [tokens[-1] == eos_id for _, tokens in ranked]
    hypotheses = tuple(
        Hypothesis(
            tuple(tokens[:-1] if end else tokens), score, tuple(token_scores[place]) if token_scores else ()
        )
        for place, ((score, tokens), end) in enumerate(zip(ranked, ends, strict=True))
    )
    return SearchResult(hypotheses, "eos" if ends[0] and not is_cut else "length")


def broken_rows(best: Floats) -> list[int]:
    """Find rows whose best score [R] is not finite, NaN included, as happens when a graph overflows."""
    finite = np.isfinite(best)
    return [] if finite.all() else np.flatnonzero(~finite).tolist()
