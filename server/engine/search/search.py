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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from server.engine.options import DecodingOptions
from server.engine.search.candidate_ids import WHOLE_VOCABULARY, Columns
from server.engine.sequence import FinishReason, Hypothesis

Floats = NDArray[np.float32]
Places = NDArray[np.intp]
Tokens = NDArray[np.int64]


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

    def admit(
        self, place: int, options: DecodingOptions, max_length: int, source: Sequence[int] = ()
    ) -> None:
        """Start a sentence at `place`, to end after at most `max_length` steps.

        Args:
            place: where it is in the arena.
            options: how to decode it.
            max_length: at least 1 and at least the length of its `target_prefix`.
            source: its tokens; only draws depend on them.
        """

    def needs_all(self, count: int) -> bool:
        """Whether the next step of the first `count` sentences needs more than each row's 2K best columns."""

    def advance(self, logits: Floats, columns: Columns = WHOLE_VOCABULARY) -> Advance:
        """Choose the next tokens of the sentences in the first places.

        Args:
            logits: float32 [N*K, C], unnormalised scores; may be overwritten.
            columns: the tokens that the C columns stand for; C is at least 2K.

        Returns:
            What was decided.
        """

    def choose(self, tokens: Tokens, log_probabilities: Floats) -> Advance:
        """Do the same where somebody else has looked for the best of every row; not if `needs_all`.

        Args:
            tokens: int64 [N*K, k], most probable first, of equal ones the lowest; none that is never written.
            log_probabilities: float32 [N*K, k]; of a row whose scores are not finite, no numbers.

        Returns:
            What was decided.
        """

    def result(self, place: int) -> SearchResult:
        """Give the hypotheses of an ended sentence; valid until the next `advance`."""

    def move(self, last: int, to: int) -> None:
        """Forget the sentence at `to`; the one at `last` moves there."""


NO_ROWS: Places = np.empty(0, np.intp)


def make_result(ranked: list[tuple[float, list[int]]], eos_id: int, *, is_cut: bool) -> SearchResult:
    """Turn ranked hypotheses into a result without end tokens.

    Args:
        ranked: scores and tokens, with the end token if there is one, best first; at least one.
        eos_id: the end token.
        is_cut: whether the end token of the best one was forced upon it.
    """
    ends = [tokens[-1] == eos_id for _, tokens in ranked]
    hypotheses = tuple(
        Hypothesis(tuple(tokens[:-1] if end else tokens), score)
        for (score, tokens), end in zip(ranked, ends, strict=True)
    )
    return SearchResult(hypotheses, "eos" if ends[0] and not is_cut else "length")


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
    while history.shape[1] < steps:
        history = np.concatenate([history, np.zeros_like(history)], axis=1)
    return history
