"""The columns of the vocabulary projection that the sentences of one batch need, and what each row may see.

A decoder with a shortlist computes logits [R, C] for C *slots* instead of V tokens. A slot holds the weights
of one token. Slots are shared: a token that several sentences may become has one. A token that nobody needs
any more keeps its slot until another needs the place, so that common words stay.

Every row looks only at the candidates of its own sentence, gathered in ascending order into scores [R, W]
with minus infinity behind the shorter lists. So it gets the same numbers in the same order alone and in any
batch: the slots, and who else is there, leave no trace. (W is a multiple of `logsumexp.LANES`, so that sums
do not depend on it.) Gathering 128 rows of 1,024 takes 0.1 ms.

Slot 0 is no token: its weights are 0 and its bias is minus infinity. It fills up the shorter lists.

C is an odd multiple of 64. The decoder packs the bound weights [E, C] anew at every step, and with a stride
of a power of two that takes four times as long (C = 4,096: 0.41 ms for one row, 4,160: 0.12 ms).

For the same reason a bound column costs twice as much as one of a product with constant weights. When the
sentences of a batch need more than a third of the vocabulary together, nothing is bound: the decoder gives
what it would multiply, one product scores all V tokens, and every row gathers its own candidates from these
scores [R, V]. They are the same bits (integers are summed, scale and bias applied element by element), so
neither a sentence nor its neighbours see which way was taken. Of 32,000 tokens of 512, 32 rows: 5.2 ms for
all, 6.0 ms for 19,776 slots, and 1.2 ms for every sentence that brings new columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from server.engine.search.candidate_ids import Columns
from server.engine.search.log_sum_exp import LANES
from server.errors import InferenceError
from server.runtime.model_spec import Array
from server.runtime.sessions import ColumnSource

Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]
Slots = NDArray[np.intp]

WHOLE_ABOVE = 1 / 3
"""Share of the vocabulary that the sentences of a batch need together above which all of it is scored. Below
half of that, columns are bound again."""

_UNIT = 64
_HEADROOM = 1.125
"""Slots made for every slot needed, so that the next sentences find room."""


@dataclass(frozen=True, slots=True)
class _View:
    """How the rows of now are gathered: what columns stand for, places in the scores [N*K, W], the result."""

    columns: Columns
    index: Slots
    scores: Floats


class BoundColumns:
    """Slots of the candidates of one batch. Owned by the worker thread.

    Attributes:
        weights: int8 [E, C], input of the decoder; another array after `generation` changed.
        scales: float32 [C], the same.
        biases: float32 [C], the same.
        logits: float32 [max_sentences*K, C], output of the decoder; the same.
        hidden: [max_sentences*K, E], a further output of the decoder while all V tokens are scored; else
            None; the same.
        generation: counts the changes of C and of the way.
    """

    def __init__(
        self,
        source: ColumnSource,
        vocabulary_size: int,
        beam_width: int,
        max_sentences: int,
        whole_above: float = WHOLE_ABOVE,
    ) -> None:
        """Hold no sentence.

        Args:
            source: where columns come from.
            vocabulary_size: tokens V.
            beam_width: rows K per sentence.
            max_sentences: most sentences at a time.
            whole_above: share of the vocabulary above which all of it is scored, if the source can do that.
        """
        self._source = source
        self._most_bound = _most_bound(source, vocabulary_size, whole_above)
        self._beam_width = beam_width
        self._rows = max_sentences * beam_width
        # Entry V stands for "no token": nobody needs it and its slot is 0.
        self._no_token = vocabulary_size
        self._users = np.zeros(vocabulary_size + 1, np.int32)
        self._slot_of = np.zeros(vocabulary_size + 1, np.intp)
        self._own = np.full((max_sentences, LANES), vocabulary_size, np.int64)
        self._own_sizes = np.zeros(max_sentences, np.intp)
        self._count = 0
        self._needed = 0  # tokens that some sentence needs
        self._view: _View | None = None
        self._index = np.empty(0, np.intp)
        self._scores = np.empty(0, np.float32)
        self.hidden: Array | None = None
        # Scores of all tokens for all rows, then minus infinity; None while columns are bound.
        self._whole: Floats | None = None
        self.generation = 0
        self._allocate(_slots_for(0))

    @property
    def capacity(self) -> int:
        """Slots C."""
        return len(self.scales)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays; at most what `most_bytes` says."""
        arrays: list[Array | None] = [self.weights, self.scales, self.biases, self.logits, self._token_of]
        arrays += [self.hidden, self._whole, self._users, self._slot_of, self._own, self._index, self._scores]
        return sum(array.nbytes for array in arrays if array is not None)

    def admit(self, candidates: Sequence[Tokens]) -> None:
        """Add sentences behind those that are there.

        Args:
            candidates: the candidates of each, int64 [W], ascending.

        Raises:
            InferenceError: their columns cannot be read; nothing has changed.
        """
        unused = []
        for ids in candidates:
            users = self._users[ids]
            unused.append(ids[users == 0])
            self._users[ids] = users + 1
        new = np.concatenate(unused)
        self._needed += len(new)
        try:
            if self._whole is None and self._needed > self._most_bound:
                self._score_all()
            if self._whole is None:
                self._load(new[self._slot_of[new] == 0])
        except BaseException:
            self._needed -= len(new)
            for ids in candidates:
                self._users[ids] -= 1
            raise
        widest = max(map(len, candidates))
        if widest > self._own.shape[1]:
            wider = np.full((len(self._own), -(-widest // LANES) * LANES), self._no_token, np.int64)
            wider[:, : self._own.shape[1]] = self._own
            self._own = wider
        for place, ids in enumerate(candidates, self._count):
            self._own[place, : len(ids)] = ids
            self._own[place, len(ids) :] = self._no_token
            self._own_sizes[place] = len(ids)
        self._count += len(candidates)
        self._view = None

    def retire(self, place: int) -> None:
        """Drop the sentence at `place`; the last one, if it is another, moves there."""
        last = self._count - 1
        ids = self._own[place, : self._own_sizes[place]]
        self._users[ids] -= 1
        self._needed -= len(ids) - int(np.count_nonzero(self._users[ids]))
        self._own[place] = self._own[last]
        self._own_sizes[place] = self._own_sizes[last]
        self._count = last
        self._view = None

    def project(self, first: int, count: int) -> None:
        """Score all tokens, where that is the way; call after a run of the decoder.

        Args:
            first: place of the first sentence that it was run for.
            count: of how many.

        Raises:
            InferenceError: the product failed.
        """
        if self._whole is not None and self.hidden is not None:
            rows = slice(first * self._beam_width, (first + count) * self._beam_width)
            self._source.project(self.hidden[rows], self._whole[:-1].reshape(self._rows, -1)[rows])

    def silence(self, rows: slice) -> None:
        """Set the scores of some rows to zero."""
        self.logits[rows] = 0
        if self._whole is not None:
            self._whole[:-1].reshape(self._rows, -1)[rows] = 0

    def own_scores(self) -> tuple[Floats, Columns]:
        """Gather what each row may see of the scores.

        Returns:
            float32 [N*K, W], which may be overwritten and is valid until the next call, and what its columns
            stand for.
        """
        if self._view is None:
            self._view = self._make_view()
        view = self._view
        # Indices are right by construction; "clip" lets numpy write to `out` without a copy.
        scores = self.logits.reshape(-1) if self._whole is None else self._whole
        np.take(scores, view.index, out=view.scores, mode="clip")
        return view.scores, view.columns

    def _make_view(self) -> _View:
        """Lay out the gathering for the sentences that are there now, in memory that is kept."""
        count, width = self._count, self._beam_width
        widest = -(-int(self._own_sizes[:count].max()) // LANES) * LANES
        tokens = self._own[:count, :widest]
        columns: NDArray[np.integer] = tokens
        stride = self._no_token
        if self._whole is None:
            columns, stride = self._slot_of.take(tokens), self.capacity
        shape = (count, width, widest)
        size = tokens.size * width
        if size > len(self._index):
            self._index, self._scores = np.empty(size, np.intp), np.empty(size, np.float32)
        index = self._index[:size].reshape(shape)
        firsts = np.arange(count * width).reshape(count, width, 1) * stride
        np.add(columns[:, None, :], firsts, out=index)
        if self._whole is not None:
            np.copyto(index, len(self._whole) - 1, where=(tokens == self._no_token)[:, None, :])
        rows = (count * width, -1)
        return _View(Columns(tokens, self._no_token), index.reshape(rows), self._scores[:size].reshape(rows))

    def shrink(self) -> None:
        """Give up slots if less than half are needed, or bind again if few are; call before a step."""
        if self._whole is not None:
            if 2 * self._needed < self._most_bound:
                self._bind(np.flatnonzero(self._users))
        elif 2 * _slots_for(self._needed) < self.capacity:
            self._move(np.flatnonzero(self._users), _slots_for(self._needed))

    def _score_all(self) -> None:
        """Score all tokens from now on; the decoder goes on with slots that nobody looks at."""
        self._allocate(_slots_for(0))
        self._slot_of[:] = 0
        self._whole = np.zeros(self._rows * self._no_token + 1, np.float32)
        self._whole[-1] = -np.inf
        self.hidden = np.zeros((self._rows, self._source.width), self._source.hidden_dtype)
        self._view = None

    def _bind(self, needed: Tokens) -> None:
        """Bind the columns of some tokens instead of scoring all; that goes on if they cannot be read."""
        try:
            columns = self._source.columns(needed)
        except InferenceError:
            return  # the next step tries again
        self._allocate(_slots_for(len(needed)))
        self._put(needed, np.arange(1, len(needed) + 1, dtype=np.intp), columns)
        self._whole = self.hidden = self._view = None

    def _load(self, missing: Tokens) -> None:
        """Give tokens a slot that are needed and have none."""
        if not len(missing):
            return
        columns = self._source.columns(missing)
        free = self._free()
        if len(free) < len(missing):
            kept = np.flatnonzero((self._users > 0) & (self._slot_of > 0))
            self._move(kept, _slots_for(len(kept) + len(missing)))
            free = self._free()
        slots = free[: len(missing)]
        self._slot_of[self._token_of[slots]] = 0
        self._put(missing, slots, columns)

    def _put(self, tokens: Tokens, slots: Slots, columns: tuple[Array, Array, Array]) -> None:
        """Put the columns of tokens into slots."""
        weights, scales, biases = columns
        self._token_of[slots] = tokens
        self._slot_of[tokens] = slots
        self.weights[:, slots] = weights.T
        self.scales[slots] = scales
        self.biases[slots] = biases

    def _free(self) -> Slots:
        """List the slots whose token nobody needs."""
        return np.flatnonzero(self._users[self._token_of[1:]] == 0) + 1

    def _move(self, tokens: Tokens, capacity: int) -> None:
        """Change the number of slots, keeping those of some tokens."""
        slots = self._slot_of[tokens]
        weights, scales, biases = self.weights[:, slots], self.scales[slots], self.biases[slots]
        self._allocate(capacity)
        places = slice(1, len(tokens) + 1)
        self.weights[:, places], self.scales[places], self.biases[places] = weights, scales, biases
        self._token_of[places] = tokens
        self._slot_of[:] = 0
        self._slot_of[tokens] = np.arange(1, len(tokens) + 1)
        self._view = None

    def _allocate(self, capacity: int) -> None:
        """Make empty slots."""
        self.weights = np.zeros((self._source.width, capacity), np.int8)
        self.scales = np.ones(capacity, np.float32)
        self.biases = np.zeros(capacity, np.float32)
        self.biases[0] = -np.inf
        self.logits = np.zeros((self._rows, capacity), np.float32)
        self._token_of = np.full(capacity, self._no_token, np.int64)
        self.generation += 1


def _slots_for(tokens: int) -> int:
    """Slots C to make when `tokens` are needed: room for them and slot 0, an odd multiple of 64."""
    units = -(-int(tokens * _HEADROOM + 1) // _UNIT)
    return _UNIT * (units | 1)


def _most_bound(source: ColumnSource, vocabulary_size: int, whole_above: float) -> int:
    """Most tokens whose columns are bound at a time."""
    return vocabulary_size if source.hidden_dtype is None else int(whole_above * vocabulary_size)


def most_bytes(
    source: ColumnSource,
    vocabulary_size: int,
    beam_width: int,
    max_sentences: int,
    whole_above: float,
    most_candidates: int,
) -> int:
    """Bytes that `BoundColumns` may grow to.

    Args:
        source: see there, as for the other arguments.
        vocabulary_size: tokens V.
        beam_width: rows K per sentence.
        max_sentences: most sentences at a time.
        whole_above: share of the vocabulary above which all of it is scored.
        most_candidates: of one sentence.
    """
    rows, width = max_sentences * beam_width, source.width

    def slots_bytes(slots: int) -> int:
        return slots * (width + 4 + 4 + 4 * rows + 8)

    bound_bytes = slots_bytes(_slots_for(_most_bound(source, vocabulary_size, whole_above)))
    whole_bytes = 0
    if source.hidden_dtype is not None:
        whole_bytes = slots_bytes(_slots_for(0)) + 4 * (rows * vocabulary_size + 1) + rows * width
    widest = -(-most_candidates // LANES) * LANES
    lists_bytes = 8 * max_sentences * widest + (8 + 4) * rows * widest
    return max(bound_bytes, whole_bytes) + lists_bytes + (vocabulary_size + 1) * (4 + 8)
