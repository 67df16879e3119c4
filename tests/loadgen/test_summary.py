"""Figures of a run, against counting."""

import random

import pytest

from loadgen.generator import Plan
from loadgen.samples import ANSWERED, Samples
from loadgen.summary import describe, percentile, summarise


@pytest.mark.parametrize("percent", [1, 50, 95, 99, 99.5, 100])
@pytest.mark.parametrize("count", [1, 2, 7, 100, 333])
def test_percentile_by_counting(percent: float, count: int) -> None:
    draw = random.Random(count)
    values = [draw.random() for _ in range(count)]
    found = percentile(values, percent)
    assert sum(value <= found for value in values) >= percent / 100 * count
    assert sum(value < found for value in values) < percent / 100 * count


@pytest.mark.parametrize("percent", [0, -1, 101])
def test_a_percentile_is_between_0_and_100(percent: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile([1.0], percent)
    with pytest.raises(ValueError, match="percentile"):
        percentile([], 50)


def samples(*entries: tuple[str, float, float]) -> Samples:
    """Of kind, time meant and time finished; each was sent a millisecond late and has ten words."""
    found = Samples()
    for kind, meant_s, finished_s in entries:
        found.add(kind, meant_s, 0.001, finished_s, words=10 if kind == ANSWERED else 0)
    return found


def test_an_open_loop_counts_what_was_meant_to_be_sent_in_the_window() -> None:
    run = samples(
        (ANSWERED, 0.5, 0.6),  # in the warm-up
        (ANSWERED, 0.9, 1.5),  # finished in the window: throughput, and no latency
        (ANSWERED, 1.2, 1.3),
        ("429 queue_full", 1.4, 1.41),
        (ANSWERED, 2.9, 5.9),  # late, and counted
    )
    found = summarise(run, Plan(seconds=2.0, warm_s=1.0, rate=3.0))
    assert (found["requests"], found["answered"], found["errors"]) == (3, 2, {"429 queue_full": 1})
    assert found["answered_per_s"] == pytest.approx(2 / 2.0)
    assert found["words_per_s"] == pytest.approx(20 / 2.0)
    assert found["latency_ms"]["p50"] == pytest.approx(100)
    assert found["latency_ms"]["p99.9"] == found["latency_ms"]["max"] == pytest.approx(3000)
    assert "1 x 429 queue_full" in describe(found)


def test_a_closed_loop_counts_what_was_answered_in_the_window() -> None:
    run = samples((ANSWERED, 0.9, 1.5), (ANSWERED, 1.5, 2.0), (ANSWERED, 2.9, 3.4))
    found = summarise(run, Plan(seconds=2.0, warm_s=1.0, clients=1))
    assert found["answered"] == 2
    assert found["latency_ms"]["max"] == pytest.approx(600)


def test_an_interrupted_run_is_as_long_as_it_was() -> None:
    run = samples((ANSWERED, 1.1, 1.2), (ANSWERED, 1.3, 1.4))
    found = summarise(run, Plan(seconds=100.0, warm_s=1.0, clients=1), interrupted_s=1.5)
    assert found["answered_per_s"] == pytest.approx(2 / 0.5)


def test_a_run_that_ended_is_as_long_as_its_plan() -> None:
    """An open loop ends with its last answer, before the time at which it would send the next request."""
    found = summarise(samples((ANSWERED, 0.0, 0.006)), Plan(seconds=1.0, rate=1.0, arrivals="fixed"))
    assert (found["seconds"], found["answered_per_s"], found["words_per_s"]) == (1, 1, 10)


def test_nothing_is_described_too() -> None:
    found = summarise(Samples(), Plan(seconds=1.0, rate=5.0), interrupted_s=0.0)
    assert "nothing was translated" in describe(found)
