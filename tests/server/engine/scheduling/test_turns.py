import pytest

from server.engine.scheduling.priority import SHORT_TIME_RATIO, Turns


def test_who_is_alone_has_every_turn() -> None:
    for lane in ("short", "long"):
        turns = Turns()
        for _ in range(5):
            assert turns.next(short=lane == "short", long=lane == "long") == lane
            turns.took(lane, 1.0)


def test_a_short_request_waits_for_one_long_step_and_then_runs() -> None:
    turns = Turns()
    turns.took(turns.next(short=False, long=True), 0.010)
    order = []
    for _ in range(7):  # as long as the steps of a request of 5 tokens and more
        order.append(turns.next(short=True, long=True))
        turns.took(order[-1], 0.003 if order[-1] == "short" else 0.010)
    assert order == ["short"] * 7


def test_time_is_shared_by_the_ratio() -> None:
    turns, spent_s = Turns(), {"short": 0.0, "long": 0.0}
    for _ in range(3000):
        lane = turns.next(short=True, long=True)
        duration_s = 0.003 if lane == "short" else 0.010
        turns.took(lane, duration_s)
        spent_s[lane] += duration_s
    assert spent_s["short"] / spent_s["long"] == pytest.approx(SHORT_TIME_RATIO, rel=0.1)


def test_long_short_steps_do_not_run_up_a_debt() -> None:
    turns = Turns()
    turns.took("long", 0.010)
    turns.took("short", 10.0)
    assert turns.next(short=True, long=True) == "long"
    turns.took("long", 0.010)
    assert turns.next(short=True, long=True) == "short"
