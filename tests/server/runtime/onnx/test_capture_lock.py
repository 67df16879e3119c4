"""Who passes a gate together, and who alone."""

import threading

from server.runtime.onnx.capture_lock import Gate

WAIT_S = 5.0


def passes(gate: Gate) -> bool:
    """Whether another thread gets through at once."""
    passed = threading.Event()

    def go() -> None:
        with gate.together():
            passed.set()

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    through = passed.wait(0.05)
    if through:
        thread.join(WAIT_S)
    return through


def test_many_pass_together() -> None:
    gate = Gate()
    with gate.together():
        assert passes(gate)


def test_nobody_is_alone_while_others_are_inside() -> None:
    gate = Gate()
    with gate.together(), gate.alone() as alone:
        assert not alone
        assert passes(gate)
    with gate.alone() as alone:
        assert alone


def test_who_is_alone_makes_others_wait_and_lets_them_in_afterwards() -> None:
    gate, inside, passed = Gate(), threading.Event(), threading.Event()

    def go() -> None:
        inside.set()
        with gate.together():
            passed.set()

    with gate.alone() as alone, gate.alone() as second:
        assert (alone, second) == (True, False)
        thread = threading.Thread(target=go, daemon=True)
        thread.start()
        assert inside.wait(WAIT_S)
        assert not passed.wait(0.05)
    assert passed.wait(WAIT_S)
    thread.join(WAIT_S)


def test_errors_open_the_gate_again() -> None:
    gate = Gate()
    for enter in (gate.together, gate.alone):
        try:
            with enter():
                raise ValueError
        except ValueError:
            pass
    with gate.alone() as alone:
        assert alone
    assert passes(gate)
