import contextlib
import logging
import socket

import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from server.http.lifecycle import Lifecycle
from server.http.server import drop_new_connections, listen, make_server
from server.metrics.registry import Metrics
from server.settings import Settings


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """asyncio sets TCP_NODELAY only on sockets that say they are TCP; accepted ones inherit that."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP


def test_a_port_that_is_taken_is_an_error() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_ipv6() -> None:
    try:
        with listen("::1", 0) as listener:
            assert listener.family == socket.AF_INET6
    except OSError:
        pytest.skip("no IPv6 here")


def test_a_filtered_listener_keeps_what_it_has_and_begins_nothing() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()) as early:
        drop_new_connections(listener)
        with socket.socket() as late:
            late.settimeout(0.2)
            with pytest.raises(TimeoutError):
                late.connect(listener.getsockname())
        early.sendall(b"x")
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(1) == b"x"


@pytest.mark.parametrize("running", [False, True])
def test_an_end_in_a_hurry_says_only_what_is_true(running: bool, caplog: pytest.LogCaptureFixture) -> None:
    lifecycle = Lifecycle(Metrics(CollectorRegistry()))
    lifecycle.set_ready()
    server = make_server(Starlette(), Settings(drain_delay_s=20), lifecycle, lambda status: None)
    server.should_exit = server.force_exit = True  # as by Ctrl-C, twice
    with (
        listen("127.0.0.1", 0) as listener,
        lifecycle.admit() if running else contextlib.nullcontext(),
        caplog.at_level(logging.INFO, "dragoman"),
    ):
        server.run(sockets=[listener])
    assert "stopped" in caplog.text
    assert ("are dropped" in caplog.text) == running
