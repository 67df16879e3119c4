"""Messages between processes: whole, in order, and never waited for by who sends them."""

import fcntl
import resource
import socket
import threading
from collections.abc import Iterator

import pytest

from server.engine.ipc.channel import Channel

LARGE = "x" * 3_000_000  # more than a socket takes at once


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    first, second = map(Channel, socket.socketpair())
    yield first, second
    first.close()
    second.close()


def all_of(channel: Channel, count: int) -> list[object]:
    received: list[object] = []
    while len(received) < count:
        channel.wait()
        received += channel.receive()
    return received


def test_messages_arrive_whole_and_in_order(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    assert there.receive() == []
    messages = [1, "two", {"three": (3, None)}, b"", list(range(1000))]
    assert all(here.send(message) for message in messages)
    assert all_of(there, len(messages)) == messages
    assert there.receive() == []


def test_what_the_socket_does_not_take_is_kept(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    assert here.send(1)
    assert not here.send(LARGE)
    assert not here.send(2)  # it stays behind the other
    received: list[object] = []
    while not here.flush():
        received += there.receive()
    received += all_of(there, 3 - len(received))
    assert received == [1, LARGE, 2]


def test_two_that_send_much_to_each_other_both_get_it(ends: tuple[Channel, Channel]) -> None:
    got: dict[int, list[object]] = {}

    def talk(index: int) -> None:
        ends[index].send(LARGE)
        ends[index].send(index)
        got[index] = all_of(ends[index], 2)
        while not ends[index].flush():
            pass

    threads = [threading.Thread(target=talk, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert got == {0: [LARGE, 1], 1: [LARGE, 0]}


def test_many_threads_may_send(ends: tuple[Channel, Channel]) -> None:
    here, there = ends

    def talk(number: int) -> None:
        for i in range(200):
            here.send((number, i))
        while not here.flush():  # 800 messages may be more than the socket takes at once
            pass

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    received = all_of(there, 800)
    for thread in threads:
        thread.join(20)
    assert here.flush()
    for number in range(4):
        assert [i for n, i in received if n == number] == list(range(200))


def test_waiting_has_an_end(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    assert not there.wait(0.0)
    assert not there.wait(0.01)
    here.send(LARGE)
    assert not here.wait(0.01)  # nor does it wait for ever to send what is left
    assert there.wait(0.0)
    while not here.flush():
        assert there.receive() in ([], [LARGE])
    here.close()
    assert there.wait(0.0)  # for the end, if for nothing else


def test_servers_have_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    plain = socket.socketpair()
    here, there = (Channel(socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD, 2048))) for end in plain)
    here.send("from afar")
    assert there.wait_for_messages() == ["from afar"]
    for end in (here, there, *plain):
        end.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_end_comes_after_what_was_sent(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    here.send("last words")
    here.close()
    assert there.receive() == ["last words"]
    with pytest.raises(EOFError):
        there.receive()
    with pytest.raises(ConnectionError):
        for _ in range(2):
            there.send("to nobody")
