"""Token sequences that a target must contain exactly once each, such as masks that stand for names.

At every step, for each hypothesis that is not at a token of `target_prefix`:

1. A sequence that it has may not be completed again: its last token is forbidden after its other ones.
2. If sequences are missing, the end token is forbidden. When it would have been the best token, a missing
   sequence is written instead, as a block; likewise when the tokens of all missing ones take the steps that
   are left. The sequence whose beginning stands at the end of the hypothesis comes first, then the order of
   the option; what stands there is not written again.

The tokens of a block are forced: they cost nothing, so blocks compete with hypotheses that had a better place
for the sequence by the tokens that both chose. Blocks never complete another sequence than their own, because
`DecodingOptions.validate` refuses sequences that overlap or contain one another (a sequence may overlap
itself). So every target has every sequence exactly once, whatever the scores, if the longest length has room
for them. A row's scores change by its own hypothesis and its own scores alone.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from server.engine.search.candidate_ids import CandidateIds
from server.engine.sentence_arrays import SentenceArrays
from server.runtime.memory import Floats, Places

Tokens = tuple[int, ...]


class Progress(NamedTuple):
    """How far one hypothesis is.

    Attributes:
        tail: its last tokens, as many as the longest sequence has.
        missing: sequences that it does not have.
        block: the one of them that is being written; None if the next token is free.
    """

    tail: Tokens
    missing: tuple[Tokens, ...]
    block: Tokens | None = None

    def write(self, token: int, longest: int) -> Self:
        """Append a token; `longest` is the length of the longest sequence."""
        tail = (*self.tail, token)[-longest:]
        missing = tuple([one for one in self.missing if tail[-len(one) :] != one])
        return self.__class__(tail, missing, self.block if self.block in missing else None)

    def begun(self, sequence: Tokens) -> int:
        """How many tokens of the beginning of a sequence, but not all, stand at the end."""
        for length in range(min(len(sequence) - 1, len(self.tail)), 0, -1):
            if self.tail[-length:] == sequence[:length]:
                return length
        return 0


class RequiredSequences:
    """The required sequences of the sentences of one batch. Owned by the worker thread."""

    def __init__(self, width: int, max_sentences: int, eos_id: int) -> None:
        """Make room for `max_sentences`; the arguments are those of `Search`."""
        self._width = width
        self._eos_id = eos_id
        self._arrays = arrays = SentenceArrays(max_sentences)
        self._wants = arrays.array(np.bool_)
        self._first_free = arrays.array(np.intp)
        self._end = arrays.array(np.intp)
        self._sequences: list[tuple[Tokens, ...]] = arrays.values(())
        self._progress: list[list[Progress]] = arrays.values([])

    def admit(self, place: int, sequences: tuple[Tokens, ...], first_free: int, end: int) -> None:
        """Take the sequences of a sentence that starts at `place`.

        Args:
            place: where it is in the arena.
            sequences: what it must contain; nothing if empty.
            first_free: steps whose tokens are forced upon it first.
            end: steps until a token is forced upon it again, or until it ends.
        """
        self._wants[place] = len(sequences) > 0
        self._first_free[place] = first_free
        self._end[place] = end
        self._sequences[place] = sequences
        self._progress[place] = [Progress((), sequences)] * self._width

    def move(self, last: int, to: int) -> None:
        """Forget the sentence at `to`; the one at `last` moves there."""
        self._arrays.move(last, to)

    def apply(self, logits: Floats, steps: Places, columns: CandidateIds, normalisers: Floats | None) -> None:
        """Change the scores of one step, in place; begins blocks, so once a step.

        Args:
            logits: float32 [N*K, C], with all other constraints applied.
            steps: [N], tokens chosen so far.
            columns: what the C columns stand for; every token of a sentence's sequences has one.
            normalisers: float32 [N*K], what is subtracted from the scores afterwards to make them
                log-probabilities; None if that is their own log-sum-exp.
        """
        count = len(steps)
        left = self._end[:count] - steps
        free = self._wants[:count] & (steps >= self._first_free[:count]) & (left > 0)
        for place in np.flatnonzero(free).tolist():
            for row in range(place * self._width, (place + 1) * self._width):
                normaliser = 0.0 if normalisers is None else float(normalisers[row])
                self._apply_to_row(logits[row], row, int(left[place]), columns, normaliser)

    def record(self, count: int, tokens: NDArray[np.int64], rows: Places, parents: Places) -> None:
        """Remember what was chosen for the sentences in the first `count` places.

        Args:
            count: of sentences.
            tokens: int64 [N*K], the token of every row.
            rows: [M], rows that continue another row.
            parents: [M], the row that each of `rows` continues, of the same sentence.
        """
        wanting = np.flatnonzero(self._wants[:count]).tolist()
        if not wanting:
            return
        width = self._width
        parent_of = np.arange(count * width)
        parent_of[rows] = parents
        for place in wanting:
            longest = max(map(len, self._sequences[place]))
            mine = slice(place * width, (place + 1) * width)
            before = self._progress[place]
            continued = zip((parent_of[mine] - place * width).tolist(), tokens[mine].tolist(), strict=True)
            self._progress[place] = [before[parent].write(token, longest) for parent, token in continued]

    def _apply_to_row(
        self, scores: Floats, row: int, left: int, columns: CandidateIds, normaliser: float
    ) -> None:
        """Change the scores [C] of one row, which has so many steps left."""
        place, beam = divmod(row, self._width)
        progress = self._progress[place][beam]
        again = [
            one[-1]
            for one in self._sequences[place]
            if one not in progress.missing and progress.begun(one) == len(one) - 1
        ]
        if again:
            found = _find(columns, place, again)
            scores[found[found >= 0]] = -np.inf
        if not progress.missing:
            return
        (end_column,) = _find(columns, place, [self._eos_id])
        best = scores.argmax()
        block = progress.block
        if block is None and (best == end_column or left <= sum(map(len, progress.missing))):
            block = max(progress.missing, key=progress.begun)  # the first of equal ones
            self._progress[place][beam] = progress._replace(block=block)
        if block is None:
            scores[end_column] = -np.inf
            return
        (column,) = _find(columns, place, [block[progress.begun(block)]])
        assert column >= 0, "the columns lack a token of a required sequence"
        # Of scores that are not finite this makes NaN, by which broken rows are known.
        gain = scores[best] * 0
        scores[:] = -np.inf
        scores[column] = gain + normaliser


def _find(columns: CandidateIds, place: int, tokens: Sequence[int]) -> Places:
    """Give the columns of some tokens for one sentence."""
    return columns.find(np.full(len(tokens), place), np.array(tokens))
