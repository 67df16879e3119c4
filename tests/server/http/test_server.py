import socket

import pytest

from server.http.backlog import drop_new_connections
from server.http.server import listen


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
