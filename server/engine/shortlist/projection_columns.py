"""The columns of the vocabulary projection that the sentences of one batch need, and what each row may see.

A decoder with a shortlist computes logits [R, C] over the C columns of the batch's candidates instead of V.
The columns are read anew whenever sentences are admitted, for those that are there then. Every row sees only
the candidates of its own sentence, gathered in ascending order into scores [R, W] with minus infinity behind
the shorter lists. So it gets the same numbers in the same order alone and in any batch. W is a multiple of
`log_sum_exp.LANES`, so that sums do not depend on it.

The last columns stand for no token: their bias is minus infinity. C is an odd multiple of 64: the decoder
packs the weights [E, C] at every step, and with a stride of a power of two that takes four times as long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from server.engine.search.candidate_ids import CandidateIds
from server.engine.search.log_sum_exp import LANES
from server.runtime.memory import Floats, Tokens
from server.runtime.model_spec import Array
from server.runtime.sessions import ColumnSource

_UNIT = 64


@dataclass(frozen=True, slots=True)
class _View:
    """How the rows of now are gathered: what columns stand for, places in the scores [N*K, W], the result."""

    columns: CandidateIds
    index: NDArray[np.intp]
    scores: Floats


class ProjectionColumns:
    """Columns of the candidates of one batch. Owned by the worker thread.

    Attributes:
        inputs: of the decoder: `column_weights` int8 [E, C], `column_scales` and `column_biases` float32 [C];
            others after `admit`.
        logits: its output, float32 [max_sentences*K, C]; the same.
    """

    def __init__(
        self, source: ColumnSource, vocabulary_size: int, beam_width: int, max_sentences: int
    ) -> None:
        """Hold no sentence."""
        self._source = source
        self._beam_width = beam_width
        self._rows = max_sentences * beam_width
        self._candidates: list[Tokens] = []
        self._column_of = np.zeros(vocabulary_size, np.intp)
        self._view: _View | None = None
        self.inputs: Mapping[str, Array] = {}
        self.logits = np.zeros((self._rows, 0), np.float32)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays; at most what `most_bytes` says."""
        arrays = [*self.inputs.values(), self.logits, self._column_of]
        if self._view is not None:
            arrays += [self._view.index, self._view.scores]
        return sum(array.nbytes for array in arrays)

    def admit(self, candidates: Sequence[Tokens]) -> None:
        """Add sentences behind those that are there.

        Args:
            candidates: the candidates of each, int64 [W], ascending.

        Raises:
            InferenceError: their columns cannot be read; nothing has changed.
        """
        everyone = [*self._candidates, *candidates]
        is_needed = np.zeros(len(self._column_of), np.bool_)
        is_needed[np.concatenate(everyone)] = True
        needed = np.flatnonzero(is_needed)
        ids = np.zeros(padded_columns(len(needed)), np.int64)
        ids[: len(needed)] = needed
        weights, scales, biases = self._source.columns(ids)
        biases[len(needed) :] = -np.inf
        self.inputs = {"column_weights": weights, "column_scales": scales, "column_biases": biases}
        if self.logits.shape[1] != len(ids):
            self.logits = np.zeros((self._rows, len(ids)), np.float32)
        self._column_of[needed] = np.arange(len(needed))
        self._candidates = everyone
        self._view = None

    def retire(self, place: int) -> None:
        """Drop the sentence at `place`; the last one, if it is another, moves there."""
        last = self._candidates.pop()
        if place < len(self._candidates):
            self._candidates[place] = last
        self._view = None

    def own_scores(self) -> tuple[Floats, CandidateIds]:
        """Gather what each row may see of the scores.

        Returns:
            float32 [N*K, W], which may be overwritten and is valid until the next call, and what its columns
            stand for.
        """
        if self._view is None:
            self._view = self._make_view()
        view = self._view
        # Indices are right by construction; "clip" lets numpy write to `out` without a copy.
        np.take(self.logits.reshape(-1), view.index, out=view.scores, mode="clip")
        return view.scores, view.columns

    def _make_view(self) -> _View:
        """Lay out the gathering for the sentences that are there now."""
        count, width, vocabulary_size = len(self._candidates), self._beam_width, len(self._column_of)
        stride = self.logits.shape[1]
        widest = _padded_list(max(map(len, self._candidates)))
        tokens = np.full((count, widest), vocabulary_size, np.int64)
        columns = np.full((count, widest), stride - 1, np.intp)
        for place, ids in enumerate(self._candidates):
            tokens[place, : len(ids)] = ids
            columns[place, : len(ids)] = self._column_of[ids]
        firsts = np.arange(count * width).reshape(count, width, 1) * stride
        index = (columns[:, None, :] + firsts).reshape(count * width, widest)
        return _View(CandidateIds(tokens, vocabulary_size), index, np.empty(index.shape, np.float32))


def padded_columns(tokens: int) -> int:
    """Columns C that are bound for some tokens: at least one more, an odd multiple of 64."""
    return _UNIT * (-(-(tokens + 1) // _UNIT) | 1)


def _padded_list(tokens: int) -> int:
    """Width W of rows that see so many tokens."""
    return -(-tokens // LANES) * LANES


def most_bytes(
    column_width: int, vocabulary_size: int, beam_width: int, max_sentences: int, most_candidates: int
) -> int:
    """Bytes that `ProjectionColumns` may grow to, with `column_width` rows E of a column."""
    rows = max_sentences * beam_width
    columns = padded_columns(min(vocabulary_size, max_sentences * most_candidates))
    column_bytes = columns * (column_width + 4 + 4 + 4 * rows)
    return column_bytes + (8 + 4) * rows * _padded_list(most_candidates) + 8 * vocabulary_size
