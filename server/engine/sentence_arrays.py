"""Struct of arrays: what a batch keeps of each sentence, one entry a sentence in every array."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)
Value = TypeVar("Value")


class SentenceArrays:
    """Arrays and lists of one entry per sentence, which move together. Owned by the worker thread."""

    def __init__(self, max_sentences: int) -> None:
        """Have no arrays yet; each will have `max_sentences` entries."""
        self._size = max_sentences
        self._columns: list[NDArray[Any] | list[Any]] = []

    def array(self, dtype: type[Scalar], *shape: int) -> NDArray[Scalar]:
        """Add an array of zeros [max_sentences, *shape]."""
        column = np.zeros((self._size, *shape), dtype)
        self._columns.append(column)
        return column

    def values(self, value: Value) -> list[Value]:
        """Add a list that holds `value` for every sentence."""
        column = [value] * self._size
        self._columns.append(column)
        return column

    def move(self, last: int, to: int) -> None:
        """Copy the entries of the sentence in place `last` to place `to`."""
        for column in self._columns:
            column[to] = column[last]
