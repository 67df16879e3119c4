"""Limits for translations: few dev sentences are beyond them, and what is odd is."""

from __future__ import annotations

import random

import numpy as np
import pytest

from export.bundle import OutputChecks
from export.lexicon import UNCOVERED, Lexicon, Table, coverage
from export.text_measures.output_checks import MAX_FALSE_ALARMS, measure_checks

PIECES = 200


def dictionary() -> Lexicon:
    """Piece n becomes n + PIECES."""
    own = np.arange(PIECES)
    likely = np.full(PIECES, 0.9)
    return Lexicon(
        Table.from_cells(own, own + PIECES, likely, 2 * PIECES),
        Table.from_cells(own + PIECES, own, likely, 2 * PIECES),
    )


def translations(count: int, seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    """Draw sentences of up to 30 pieces; a tenth of each translation is something else."""
    draw = random.Random(seed)
    sources = [draw.choices(range(PIECES), k=draw.randint(1, 30)) for _ in range(count)]
    targets = [
        [piece + PIECES if draw.random() < 0.9 else draw.randrange(2 * PIECES) for piece in source]
        + draw.choices(range(PIECES, 2 * PIECES), k=draw.randint(0, len(source) // 3))
        for source in sources
    ]
    return sources, targets


def is_odd(checks: OutputChecks, source: list[int], target: list[int]) -> bool:
    if len(source) < checks.from_source_tokens:
        return False
    usual = checks.min_length_ratio <= len(target) / len(source) <= checks.max_length_ratio
    return not usual or coverage(dictionary(), source, target) < checks.min_coverage


def test_alarms_are_rare_and_what_is_odd_raises_one() -> None:
    sources, targets = translations(2000)
    checks = measure_checks(dictionary(), sources, targets)
    assert checks.false_alarms <= MAX_FALSE_ALARMS
    alarms = sum(is_odd(checks, *pair) for pair in zip(sources, targets, strict=True))
    assert checks.false_alarms == pytest.approx(alarms / 2000)
    fresh = [is_odd(checks, *pair) for pair in zip(*translations(2000, seed=1), strict=True)]
    assert sum(fresh) / 2000 <= 2 * MAX_FALSE_ALARMS
    source = list(range(20))
    good = [piece + PIECES for piece in source]
    assert not is_odd(checks, source, good)
    assert is_odd(checks, source, good[:10])
    assert is_odd(checks, source, good * 2)
    assert is_odd(checks, source, [piece + PIECES + 100 for piece in source])


def test_a_few_sentences_are_enough_to_say_something() -> None:
    checks = measure_checks(dictionary(), [[1, 2]], [[201, 202]])
    assert (checks.min_length_ratio, checks.max_length_ratio) == (0.8, 1.25)
    assert UNCOVERED <= checks.min_coverage <= 0
    assert measure_checks(dictionary(), [], []).false_alarms == 0
