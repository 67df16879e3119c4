"""Rows of a corpus: token ids, or the feature vectors of one source."""

from collections.abc import Sequence

import numpy as np

Row = Sequence[int] | np.ndarray
"""A source or target: ids, as a list or an array; or a source's features, float32 [length, F]."""


def are_features(rows: Sequence[Row]) -> bool:
    """Tell whether sources are sequences of feature vectors."""
    return len(rows) > 0 and isinstance(rows[0], np.ndarray) and rows[0].ndim == 2
