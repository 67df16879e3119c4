"""How often an epoch reads the pairs of each origin."""

from __future__ import annotations

import fnmatch

import numpy as np
from numpy.typing import NDArray

from model.data.token_table import TokenTable
from model.recipe import Sampling


def readings(table: TokenTable, sampling: Sampling) -> NDArray[np.float64] | None:
    """Compute how often an epoch reads a pair of each origin, on average; None if every pair is read once.

    Args:
        table: with the origins of its pairs.
        sampling: temperature and weights.

    Returns:
        float64 [origins]; an epoch reads as many pairs as there are, or fewer where ``most`` binds.
    """
    if not sampling.is_used:
        return None
    sizes = np.bincount(table.origins, minlength=len(table.names)).astype(np.float64)
    weights = np.array([_weight(name, sampling.weights) for name in table.names])
    shares = weights * sizes ** (1 / sampling.temperature)
    total = shares.sum()
    if not total:
        return np.zeros(len(sizes))
    # What the limit takes from small origins goes to the others, which may then reach it, too.
    result = np.zeros(len(sizes))
    free = shares > 0
    while free.any():
        left = sizes.sum() - (result * sizes).sum()
        wanted = shares / shares[free].sum() * left / np.maximum(sizes, 1)
        over = free & (wanted >= sampling.most)
        if not over.any():
            result[free] = wanted[free]
            break
        result[over] = sampling.most
        free &= ~over
    return result


def drawn(rows: NDArray[np.int64], often: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Repeat or leave out rows, int64 [N], so that each is there ``often`` times on average, float64 [N]."""
    return np.repeat(rows, np.floor(often + rng.random(len(rows))).astype(np.int64))


def _weight(name: str, weights: dict[str, float]) -> float:
    return next((weight for pattern, weight in weights.items() if fnmatch.fnmatch(name, pattern)), 1.0)
