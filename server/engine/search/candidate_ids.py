"""Which token every column of the scores stands for: the one place where the two are translated.

A decoder may score the whole vocabulary, or only the candidates of each sentence. Searches choose columns;
histories, constraints and results hold tokens.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from server.runtime.memory import Places, Tokens


class CandidateIds:
    """Columns of the scores of one step and the tokens they stand for. Owned by the worker thread."""

    def __init__(self, ids: Tokens | None = None, vocabulary_size: int = 0) -> None:
        """Name the columns.

        Args:
            ids: int64 [N, C], the tokens of every sentence's columns, ascending, so that the lowest column
                is the lowest token; `vocabulary_size` and above behind shorter lists, where all scores are
                minus infinity. None if column c is token c for every sentence.
            vocabulary_size: tokens that there are; not needed without `ids`.
        """
        self._ids = ids
        self._last = vocabulary_size - 1

    @property
    def are_tokens(self) -> bool:
        """Whether column c is token c for every sentence."""
        return self._ids is None

    def tokens(self, places: Places, columns: Places) -> Tokens:
        """Give the tokens of columns, int64 in their shape; always some token, even behind shorter lists.

        `places` are those of the sentences and must broadcast with `columns`.
        """
        if self._ids is None:
            return columns.astype(np.int64, copy=False)
        return np.minimum(self._ids[places, columns], self._last)

    def find(self, places: Places, tokens: NDArray[np.integer]) -> Places:
        """Give the columns of tokens; -1 where a sentence has none for it.

        `places` are those of the sentences and must broadcast with `tokens`.
        """
        if self._ids is None:
            return np.broadcast_to(tokens, np.broadcast_shapes(places.shape, tokens.shape)).astype(np.intp)
        width, step = self._ids.shape[1], self._last + 2
        keys = places * step + tokens
        found = np.searchsorted(self._keys, keys)
        known = self._keys[np.minimum(found, len(self._keys) - 1)] == keys
        return np.where(known, found - places * width, -1)

    @functools.cached_property
    def _keys(self) -> Tokens:
        """All (sentence, token) pairs as ascending numbers."""
        assert self._ids is not None
        capped = np.minimum(self._ids, self._last + 1)
        return (capped + np.arange(len(capped))[:, None] * (self._last + 2)).reshape(-1)


WHOLE_VOCABULARY = CandidateIds()
"""Column c is token c."""
