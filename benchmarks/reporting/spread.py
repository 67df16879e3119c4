"""Medians and the spread of ratios: what a table says of repeated measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A median with the smallest and the largest value behind it."""

    median: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    """Summarise repeated measurements of one thing.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError("no measurements")
    return Spread(statistics.median(values), min(values), max(values))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Compare two systems that took turns: the ratio of each round, then its spread.

    A machine that is shared changes its speed from minute to minute; within a round both have the same.

    Args:
        ours: one value a round.
        theirs: of the same rounds.

    Raises:
        ValueError: the rounds do not pair up, or there are none.
    """
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


def ratios_where_answered(ours: Sequence[float | None], theirs: Sequence[float | None]) -> Spread | None:
    """Compare as `ratios` does, in the rounds in which both have a value: None, 0 and NaN are none.

    Args:
        ours: one value a round.
        theirs: of the same rounds.

    Returns:
        None if there is no such round.
    """
    found = [a / b for a, b in zip(ours, theirs, strict=True) if a and b and not math.isnan(a + b)]
    return spread(found) if found else None
