"""Which worker starts what, by the policy alone; test_worker.py sees it done."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.engine.scheduling.placement import (
    DEVICE_GATHERED_ROWS,
    DEVICE_PATIENCE_STEPS,
    FEW_ROWS,
    GATHERED_ROWS,
    PATIENCE_STEPS,
    Shares,
)
from server.engine.scheduling.priority import LANES, Lane


def busy(rows: dict[Lane, list[int]], max_rows: int = 32) -> Shares:
    shares = Shares(len(rows["short"]), max_rows)
    for lane in LANES:
        for worker, count in enumerate(rows[lane]):
            shares.note(worker, lane, count)
    return shares


@pytest.mark.parametrize(
    ("short", "waiting", "called"),
    [
        ([0, 0, 0], 0, []),
        ([0, 0, 0], 1, [0]),
        ([0, 2, 0], 1, [1]),
        ([0, 2, 3], FEW_ROWS - 5, [2]),
        ([0, 2, 3], FEW_ROWS - 4, [2, 1]),
        ([0, 0, 0], 2 * FEW_ROWS + 1, [0, 1, 2]),
        ([9, 9, 9], 1, [0, 1, 2]),
    ],
)
def test_few_rows_stay_together_and_many_are_spread(
    short: list[int], waiting: int, called: list[int]
) -> None:
    assert busy({"short": short, "long": [0] * 3}).called("short", waiting) == called


def test_a_worker_whose_other_lane_is_busy_comes_last() -> None:
    shares = busy({"short": [2, 0], "long": [9, 0]})
    assert shares.called("short", 1) == [1]
    assert shares.share(0, "short", 1) == 0
    assert shares.share(1, "short", 1) == 1


@pytest.mark.parametrize(("short", "waiting", "shares"), [([0, 0], 8, [4, 4]), ([6, 2], 4, [0, 4])])
def test_workers_that_are_called_have_as_many_in_the_end(
    short: list[int], waiting: int, shares: list[int]
) -> None:
    policy = busy({"short": short, "long": [0, 0]})
    assert [policy.share(worker, "short", waiting) for worker in (0, 1)] == shares


def test_everyone_is_called_where_memory_is_lacking() -> None:
    shares = busy({"short": [1, 0, 0], "long": [0, 0, 0]})
    assert shares.called("short", 1, everyone=True) == [0, 1, 2]
    assert [shares.share(worker, "short", 1, everyone=True) for worker in range(3)] == [0, 1, 1]
    assert shares.called("short", 0, everyone=True) == []


def test_a_change_is_news_once() -> None:
    shares = Shares(2, 8)
    assert shares.note(1, "short", 3)
    assert not shares.note(1, "short", 3)
    assert shares.rows == 3


@given(
    rows=st.lists(st.integers(0, 8), min_size=1, max_size=5),
    beside=st.lists(st.integers(0, 8), min_size=5, max_size=5),
    waiting=st.integers(1, 40),
)
def test_what_waits_is_started_if_there_is_a_free_row(
    rows: list[int], beside: list[int], waiting: int
) -> None:
    shares = busy({"short": rows, "long": beside[: len(rows)]}, max_rows=8)
    called = shares.called("short", waiting)
    assert called
    could = [
        min(shares.share(worker, "short", waiting), 8 - rows[worker])
        for _ in range(PATIENCE_STEPS + 1)
        for worker in called
    ]
    if any(count < 8 for count in rows):
        assert max(could) > 0


def asked(shares: Shares, waiting: int, times: int) -> list[int]:
    return [shares.share(0, "short", waiting) for _ in range(times)]


@pytest.mark.parametrize(
    ("rows", "waiting", "started"),
    [
        (0, 1, [1, 1, 1, 1]),
        (3, 1, [1, 1, 1, 1]),
        (4, 1, [0, 0, 1, 0]),
        (4, 2, [2, 2, 2, 2]),
        (12, 5, [0, 0, 5, 0]),
        (12, 6, [6, 6, 6, 6]),
        (30, GATHERED_ROWS - 1, [0, 0, GATHERED_ROWS - 1, 0]),
        (30, GATHERED_ROWS, [GATHERED_ROWS] * 4),
    ],
)
def test_a_busy_worker_lets_a_few_gather_but_not_for_long(
    rows: int, waiting: int, started: list[int]
) -> None:
    assert PATIENCE_STEPS == 2
    assert asked(busy({"short": [rows], "long": [0]}), waiting, 4) == started


def test_what_has_gathered_starts_at_once_and_its_successors_wait_anew() -> None:
    shares = busy({"short": [16], "long": [0]})
    assert asked(shares, 3, 1) == [0]
    assert asked(shares, 8, 1) == [8]
    shares.note(0, "short", 24)
    assert asked(shares, 1, 3) == [0, 0, 1]


def test_what_is_left_of_a_document_starts_with_the_rest_of_it() -> None:
    shares = busy({"short": [0], "long": [16]})
    assert shares.share(0, "long", 8) == 8
    shares.note(0, "long", 24)
    assert shares.share(0, "long", 3) == 3  # asked again before decoding
    shares.note(0, "long", 27)
    assert shares.share(0, "long", 0) == 0  # nothing is left: it decodes
    shares.note(0, "long", 26)
    assert [shares.share(0, "long", 1) for _ in range(3)] == [0, 0, 1]


def test_nobody_waits_for_company_where_memory_is_lacking() -> None:
    shares = busy({"short": [30], "long": [0]})
    assert shares.share(0, "short", 1, everyone=True) == 1


def test_on_a_device_more_of_them_gather_and_wait_longer() -> None:
    shares = Shares(1, 256, on_device=True)
    shares.note(0, "short", 160)
    assert DEVICE_GATHERED_ROWS > 2 * GATHERED_ROWS
    started = asked(shares, 2 * GATHERED_ROWS, DEVICE_PATIENCE_STEPS + 1)
    assert started == [0] * DEVICE_PATIENCE_STEPS + [2 * GATHERED_ROWS]
    assert shares.share(0, "short", DEVICE_GATHERED_ROWS) == DEVICE_GATHERED_ROWS
