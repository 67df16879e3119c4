import threading

import pytest

from server.runtime.onnx.sessions import QUIET_S, Traffic


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def traffic(clock: Clock) -> Traffic:
    return Traffic(clock)


def run_elsewhere(traffic: Traffic) -> bool:
    """Run in another thread, to its end."""
    alone: list[bool] = []

    def run() -> None:
        with traffic.run() as quiet:
            alone.append(quiet)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return alone[0]


def test_one_thread_is_always_alone(traffic: Traffic) -> None:
    for _ in range(3):
        with traffic.run() as alone:
            assert alone


def test_nobody_is_alone_while_another_runs(traffic: Traffic) -> None:
    with traffic.run() as alone:
        assert alone
        assert not run_elsewhere(traffic)


def test_another_thread_is_forgotten_after_a_while(traffic: Traffic, clock: Clock) -> None:
    assert run_elsewhere(traffic)
    clock.now_s += QUIET_S / 2
    with traffic.run() as alone:
        assert not alone
    clock.now_s += QUIET_S
    with traffic.run() as alone:
        assert alone


def test_a_run_that_fails_has_ended_too(traffic: Traffic, clock: Clock) -> None:
    with pytest.raises(ZeroDivisionError), traffic.run():
        raise ZeroDivisionError
    clock.now_s += 2 * QUIET_S
    assert run_elsewhere(traffic)


def test_threads_that_ended_long_ago_are_forgotten(traffic: Traffic, clock: Clock) -> None:
    for _ in range(200):
        traffic._ended_s[-len(traffic._ended_s) - 1] = clock.now_s
    clock.now_s += 2 * QUIET_S
    assert run_elsewhere(traffic)
    assert len(traffic._ended_s) == 1
