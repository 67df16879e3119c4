"""Which target tokens a sentence may become: a lexical table, read from a bundle.

The candidates of a sentence follow from its own tokens alone, so that it gets the same ones whatever else is
being decoded. `export.shortlist.lexical_table` writes the file and says what is in it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from export.bundle import BundleError
from server.engine.options import MAX_REQUIRED_TOKENS
from server.engine.shortlist.projection_columns import most_bytes
from server.runtime.memory import Tokens
from server.runtime.model_spec import ModelSpec
from server.runtime.sessions import ColumnSource

_ARRAYS = {"always": 1, "keys": 2, "offsets": 1, "targets": 1}
"""Arrays of the file and how many axes they have."""


class Shortlist:
    """Looks up the candidates of sentences. Immutable; thread-safe.

    Attributes:
        columns: where the columns of candidates come from, for the decoders.
    """

    def __init__(
        self,
        always: Iterable[int],
        rows: Mapping[tuple[int, ...], NDArray[np.integer]],
        vocabulary_size: int,
        columns: ColumnSource,
    ) -> None:
        """Keep a table.

        Args:
            always: tokens that are candidates of every sentence; some at least, the end token among them.
            rows: source n-gram to the tokens that it may become.
            vocabulary_size: target tokens V.
            columns: of these tokens.
        """
        self.columns = columns
        self._always = np.zeros(vocabulary_size, np.bool_)
        self._always[list(always)] = True
        self._rows = rows
        self._longest = max(map(len, rows), default=0)
        self._largest = max(map(len, rows.values()), default=0)

    @classmethod
    def load(
        cls,
        path: Path,
        vocabulary_size: int,
        needed: Iterable[int],
        columns: ColumnSource,
    ) -> Self:
        """Read a table from a verified bundle.

        Args:
            path: an `.npz` file without pickled objects.
            vocabulary_size: target tokens V.
            needed: tokens that must always be candidates, as the end token.
            columns: of the vocabulary's tokens.

        Raises:
            BundleError: it is no such file or does not fit the model.
        """
        try:
            with np.load(path, allow_pickle=False) as stored:
                always, keys, offsets, targets = (
                    _integers(stored[name], axes) for name, axes in _ARRAYS.items()
                )
        except Exception as error:  # a damaged archive raises whatever its parser stumbles over
            raise BundleError(path.name, f"is not a lexical table: {error}") from error
        if len(offsets) != len(keys) + 1 or offsets[0] != 0 or offsets[-1] != len(targets):
            raise BundleError(path.name, "its offsets do not fit its keys and targets")
        if (np.diff(offsets) < 0).any():
            raise BundleError(path.name, "its offsets are not ascending")
        for ids in (always, targets):
            if len(ids) and (ids.min() < 0 or ids.max() >= vocabulary_size):
                raise BundleError(path.name, f"a token id lies outside the vocabulary of {vocabulary_size}")
        missing = sorted(set(needed) - set(always.tolist()))
        if missing:
            raise BundleError(path.name, f"token {missing[0]} must always be a candidate and is not")
        found = np.split(targets, offsets[1:-1]) if len(keys) else []
        grams = [tuple(piece for piece in key if piece >= 0) for key in keys.tolist()]
        return cls(always.tolist(), dict(zip(grams, found, strict=True)), vocabulary_size, columns)

    def most_candidates(self, source_tokens: int) -> int:
        """Upper bound of the candidates of a sentence of so many tokens."""
        most = int(self._always.sum()) + source_tokens * self._longest * self._largest + MAX_REQUIRED_TOKENS
        return min(most, len(self._always))

    def most_bytes(self, beam_width: int, max_sentences: int, source_tokens: int) -> int:
        """Bytes that columns, scores and candidates of one batch may grow to, whatever its sentences need.

        `source_tokens` are those of the longest sentence.
        """
        most = self.most_candidates(source_tokens)
        return most_bytes(self.columns.width, len(self._always), beam_width, max_sentences, most)

    def candidates(self, source: Sequence[int | bytes], required: Iterable[tuple[int, ...]] = ()) -> Tokens:
        """Give the candidates of a sentence; 25 tokens take some 18 microseconds.

        Args:
            source: its tokens, prefix and suffix included.
            required: token sequences that its target must contain.

        Returns:
            int64 [C], ascending.
        """
        chosen = self._always.copy()
        tokens: tuple[Any, ...] = tuple(source)
        rows = self._rows
        found = [
            rows[gram]
            for length in range(1, self._longest + 1)
            for first in range(len(tokens) - length + 1)
            if (gram := tokens[first : first + length]) in rows
        ]
        if found:
            chosen[np.concatenate(found)] = True
        for sequence in required:
            chosen[list(sequence)] = True
        return np.flatnonzero(chosen)


def extra_bytes_of(shortlist: Shortlist | None, spec: ModelSpec) -> Callable[[int, int], int]:
    """Tell what a batch may take beside its caches: given its beam width and most sentences, bytes."""

    def extra_bytes(beam_width: int, max_sentences: int) -> int:
        if shortlist is None:
            return 0
        return shortlist.most_bytes(beam_width, max_sentences, spec.max_source_tokens)

    return extra_bytes


def _integers(array: NDArray[np.generic], axes: int) -> Tokens:
    """Check that an array holds integers and has so many axes."""
    if array.ndim != axes or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"an array has {array.ndim} axes of {array.dtype}")
    return array.astype(np.int64)
