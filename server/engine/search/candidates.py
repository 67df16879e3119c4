"""The candidates of a beam search: of each row its most probable columns.

ONNX Runtime (`memory.Ranker`) or numpy find them, for each row alone, bit by bit.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from server.engine.search.log_sum_exp import log_sum_exp
from server.engine.search.top_k import top_k
from server.runtime.memory import Floats, Places, Ranker

Rows = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The 2K best continuations of N sentences, best first.

    Attributes:
        parents: [N, 2K], beams that are continued.
        tokens: int64 [N, 2K].
        scores: float64 [N, 2K], log-probabilities; minus infinity for those that do not count.
    """

    parents: Places
    tokens: NDArray[np.int64]
    scores: NDArray[np.float64]


def top_2k(
    logits: Floats,
    best: int,
    ranker: Ranker | None,
    before: Floats | None,
    first: Rows | None,
) -> tuple[Places, Floats]:
    """Find the most probable columns of every row.

    Args:
        logits: float32 [R, C], constrained.
        best: how many columns, k.
        ranker: finds them; numpy does it if None.
        before: normalisers of the rows in `first` before they were constrained, float32 [R].
        first: rows [R] that are normalised first and constrained afterwards; None if there are none.

    Returns:
        Columns [R, k], equally probable ones ascending, and their log-probabilities float32 [R, k]: not
        finite numbers for a row whose scores are not.
    """
    if ranker is not None:
        found, log_probabilities = ranker.best(logits)
        if first is not None and before is not None:
            rows = np.flatnonzero(first)
            log_probabilities[rows] = logits[rows[:, None], found[rows]] - before[rows, None]
        return found, log_probabilities
    found, values = top_k(logits, best)
    return found, values - _normalisers(logits, values.max(axis=1), before, first)[:, None]


def normalisers_of(logits: Floats, first: Rows) -> Floats | None:
    """Log-sum-exp [R] of the rows in `first` [R], the others undefined; None if there are none."""
    rows = np.flatnonzero(first)
    if not len(rows):
        return None
    some = logits if len(rows) == len(logits) else logits[rows]
    normalisers = np.zeros(len(logits), np.float32)
    normalisers[rows] = log_sum_exp(some, some.max(axis=1))
    return normalisers


def _normalisers(logits: Floats, largest: Floats, before: Floats | None, first: Rows | None) -> Floats:
    """Log-sum-exp [R] of every row, of those in `first` as it was before."""
    if before is None or first is None:
        return log_sum_exp(logits, largest)
    rows = np.flatnonzero(~first)
    if len(rows):
        before[rows] = log_sum_exp(logits[rows], largest[rows])
    return before
