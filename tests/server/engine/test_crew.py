"""How many workers are worth having, by the policy alone, with processor times of threads that are real."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.engine.crew import LEAST_LOAD, WINDOW_S, Crew


class Machine:
    """A clock, and threads that use processor time as told. The test's own thread is the one that submits."""

    def __init__(self, workers: int) -> None:
        self.now_s = 100.0
        self.used_s: dict[int, float] = {}
        self.crew = Crew(workers, lambda: self.now_s, self.thread_time)

    def thread_time(self) -> float:
        return self.used_s.get(threading.get_ident(), 0.0)

    def use(self, cores: float) -> None:
        """Let the calling thread have used a share of a core for a window."""
        self.used_s[threading.get_ident()] = self.thread_time() + cores * WINDOW_S

    def window(self, submitting: float, working: float) -> int:
        """Pass a window in which this thread submits and then works; returns the crew's size afterwards."""
        self.use(submitting)
        self.crew.submitted()
        self.now_s += WINDOW_S
        self.use(working)
        self.crew.worked()
        return self.crew.size

    def run(self, submitting: float, working: list[float]) -> int:
        """Pass a window with threads that use so many cores, after one in which they are first seen.

        Returns:
            The crew's size afterwards.
        """
        gates = [threading.Semaphore(0) for _ in working]
        done = threading.Semaphore(0)

        def work(gate: threading.Semaphore, cores: float) -> None:
            for _ in range(2):
                gate.acquire()
                self.use(cores)
                self.crew.worked()
                done.release()

        threads = [threading.Thread(target=work, args=pair) for pair in zip(gates, working, strict=True)]
        for thread in threads:
            thread.start()
        for _ in range(2):
            self.use(submitting)
            self.crew.submitted()
            for gate in gates[1:]:
                gate.release()
                done.acquire()
            self.now_s += WINDOW_S  # so that the last to work ends the window
            gates[0].release()
            done.acquire()
        for thread in threads:
            thread.join()
        return self.crew.size


@pytest.mark.parametrize(
    ("submitting", "working", "size"),
    [
        (0.45, [0.56, 0.54], 1),  # the shipped model, 64 clients
        (0.30, [0.60, 0.55], 1),  # 8 clients
        (0.43, [0.95, 0.0], 1),  # 64 clients and one worker: it stays so
        (0.30, [0.80, 0.80], 2),  # 6+2 layers of 256, 32,000 words
        (0.07, [0.95, 0.95], 2),  # base
        (0.00, [1.00, 1.00], 2),  # a document
        (0.05, [0.05, 0.05], 2),  # next to nothing
        (1.00, [0.05, 0.00], 1),  # answers from the cache
        (0.90, [0.13] * 16, 2),  # a small model on 16 cores: the submitting thread is what is slow
        (0.20, [0.90] * 16, 10),
    ],
)
def test_workers_are_as_many_as_their_cores_are_worth(
    submitting: float, working: list[float], size: int
) -> None:
    assert Machine(len(working)).run(submitting, working) == size


def test_all_are_there_again_when_nothing_or_something_else_happens() -> None:
    machine = Machine(2)
    assert machine.run(0.45, [0.56, 0.54]) == 1
    assert machine.run(0.2 * LEAST_LOAD, [0.3 * LEAST_LOAD] * 2) == 2
    assert machine.run(0.45, [0.56, 0.54]) == 1
    assert machine.run(0.02, [0.98, 0.0]) == 2


def test_within_a_window_nothing_changes() -> None:
    machine = Machine(2)
    for _ in range(20):
        machine.use(1.0)
        machine.crew.submitted()
        machine.crew.worked()
    assert machine.crew.size == 2


def test_a_thread_that_submits_once_is_not_charged_for_its_past() -> None:
    machine = Machine(2)
    machine.run(0.0, [0.5, 0.5])

    def submit() -> None:
        machine.use(1000.0)
        machine.crew.submitted()

    for _ in range(3):
        thread = threading.Thread(target=submit)
        thread.start()
        thread.join()
        assert machine.run(0.0, [0.5, 0.5]) == 2


@given(
    st.integers(1, 16),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8),
)
def test_there_is_always_one_and_never_more_than_there_are(
    workers: int, windows: list[tuple[float, float]]
) -> None:
    machine = Machine(workers)
    for submitting, working in windows:
        assert 1 <= machine.window(submitting, working) <= workers
