import math

import pytest

from benchmarks.reporting.spread import Spread, ratios, ratios_where_answered, spread


def test_ratios_are_of_each_round_not_of_the_medians() -> None:
    """The machine was half as fast in the second round: both systems were, and the ratio is the same."""
    assert ratios([1.0, 2.0, 1.5], [2.0, 4.0, 3.0]) == Spread(0.5, 0.5, 0.5)
    assert ratios([1.0, 4.0, 9.0], [1.0, 2.0, 3.0]) == Spread(2.0, 1.0, 3.0)


def test_spread_is_median_least_and_most() -> None:
    assert spread([3.0, 1.0, 10.0, 2.0]) == Spread(2.5, 1.0, 10.0)


def test_rounds_without_an_answer_are_left_out() -> None:
    assert ratios_where_answered([1.0, 2.0, None], [2.0, 0.0, 3.0]) == Spread(0.5, 0.5, 0.5)
    assert ratios_where_answered([1.0, math.nan], [math.nan, 1.0]) is None
    assert ratios_where_answered([1.0, 4.0], [1.0, 2.0]) == ratios([1.0, 4.0], [1.0, 2.0])


def test_nothing_has_no_summary() -> None:
    with pytest.raises(ValueError, match="no measurements"):
        spread([])
    with pytest.raises(ValueError):
        ratios([1.0], [1.0, 2.0])
