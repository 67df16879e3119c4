"""Where requests end: as strictly as h11 sees it, and within bounds."""

import contextlib
import time
from dataclasses import dataclass, field
from typing import Any

import h11
import httptools
import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from server.errors import BodyTooLargeError, DragomanError
from server.http.errors import AmbiguousFramingError, HeadersTooLargeError
from server.http.framing import MAX_HEAD_BYTES, Framing
from server.http.protocol import BoundedProtocol, ConnectionBounds
from tests.support.examples import examples

BODY = b'{"q":"Hello there."}'
HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
REQUEST = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
CHUNKED = HEAD + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"q":\r\nf;a=b\r\n"Hello there."}\r\n0\r\n\r\n'
GET = b"GET /languages HTTP/1.1\r\nHost: x\r\n\r\n"

PIECES = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\x7f", b"\x80", b"?", b"#", b"%41", b"  ", b",", b"0",
    b"Host: y\r\n", b"HOST: y\r\n", b"X: \r\n", b"x:y\r\n", b" folded: z\r\n", b"Content-Length: 3\r\n",
    b"content-length:0\r\n", b"Content-Length: 00\r\n", b"Transfer-Encoding: chunked\r\n", b"GET ", b"BREW ",
    b"Transfer-Encoding: gzip, chunked\r\n", b"Connection: Keep-Alive\r\n", b"Connection: close\r\n",
    b"Expect: 100-continue\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"HTTP/1.0", b"HTTP/1.1 ",
    b"RTSP", b"9" * 30, b"\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"0\r\n\r\n", b";", b"1\r\na\r\n", b"CONNECT ",
)  # fmt: skip


@dataclass
class Read:
    """A request as somebody reads it."""

    method: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    is_whole: bool = False


class Recorder(BoundedProtocol):
    """The protocol without a connection: answers nothing, records what it reads."""

    def __init__(self, **options: Any) -> None:
        bounds = ConnectionBounds(60, 60, 1 << 20, lambda status: None)
        super().__init__(bounds, **options)
        self.read: list[Read] = []

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        cycle.response_complete = True  # before the body comes: nothing waits for an answer
        self.read.append(Read(self._method, list(self.headers)))

    def on_body(self, body: bytes) -> None:
        self.read[-1].body += body
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.read[-1].is_whole = True
        super().on_message_complete()

    def feed(self, data: bytes) -> None:
        self._unread += data
        if self._fault is None:
            with contextlib.suppress(DragomanError, httptools.HttpParserError):
                while part := self._framing.take(self._unread):
                    self._parse(part)
                return
            self._fault = AmbiguousFramingError("refused")


async def _unused(_scope: object, _receive: object, _send: object) -> None:
    raise AssertionError


def read_by_us(data: bytes, part_bytes: int) -> list[Read]:
    loop: Any = object()
    config = uvicorn.Config(_unused, lifespan="off", log_config=None, ws="none")
    recorder = Recorder(config=config, server_state=ServerState(), app_state={}, _loop=loop)
    for start in range(0, len(data), part_bytes):
        recorder.feed(data[start : start + part_bytes])
    return recorder.read


def read_by_h11(data: bytes) -> tuple[list[Read], bool]:
    """Give the requests, and whether h11 stopped because the connection has to be closed."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    read: list[Read] = []
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                headers = [(bytes(name), bytes(value)) for name, value in event.headers]
                kept = [(name, value) for name, value in headers if name != b"upgrade"]  # nothing is upgraded
                read.append(Read(bytes(event.method), kept))
            elif isinstance(event, h11.Data):
                read[-1].body += event.data
            elif isinstance(event, h11.EndOfMessage):
                read[-1].is_whole = True
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return read, True
                connection.start_next_cycle()
            else:
                return read, False
    except h11.RemoteProtocolError:
        return read, False


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(PIECES), st.integers(0, 2)), max_size=3),
    st.sampled_from((REQUEST, CHUNKED, REQUEST + GET, CHUNKED + GET + REQUEST, REQUEST[:-5])),
    st.sampled_from((1, 7, 1 << 20)),
)
def test_what_we_read_h11_reads_the_same(
    changes: list[tuple[float, bytes, int]], data: bytes, part_bytes: int
) -> None:
    for place, piece, removed in changes:
        at = int(place * len(data))
        data = data[:at] + piece + data[at + removed :]
    ours = read_by_us(data, part_bytes)
    theirs, stopped = read_by_h11(data)
    assert len(ours) <= len(theirs) or stopped
    for mine, other in zip(ours, theirs, strict=False):
        assert (mine.method, mine.headers) == (other.method, other.headers)
        assert other.body.startswith(mine.body)
        if mine.is_whole:
            assert other.is_whole
            assert mine.body == other.body


def test_the_streams_above_are_read() -> None:
    for data in (REQUEST, CHUNKED, GET, REQUEST.replace(b"POST", b"BREW")):
        for part_bytes in (1, 7, 1 << 20):
            read = read_by_us(data * 3, part_bytes)
            assert [request.is_whole for request in read] == [True] * 3
            assert {request.body for request in read} <= {BODY, b""}


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n" + REQUEST,
        HEAD + b"Content-Length : %d\r\n\r\n" % len(BODY) + BODY,
        HEAD + b"Content-Length: +%d\r\n\r\n" % len(BODY) + BODY,
        HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\n" + BODY,
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        REQUEST.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost"),
        REQUEST.replace(b"Host", b"A: b\nHost"),
        REQUEST.replace(b"\r\n", b"\n"),
        REQUEST.replace(b"Host: x", b"Host: x\r\n folded"),
        REQUEST.replace(b"Host", b"Ghost"),
        REQUEST.replace(b"Host", b"Host: y\r\nHost"),
        REQUEST.replace(b" HTTP", b"  HTTP"),
        REQUEST.replace(b"/translate", b"/translate#a"),
        REQUEST.replace(b"HTTP/1.1", b"RTSP/1.0"),
        REQUEST.replace(b"1.1", b"2.0"),
        REQUEST.replace(b"1.1", b"0.9"),
        REQUEST.replace(b"x\r\n", b"x\0\r\n"),
        b"\x16\x03\x01" + REQUEST,
    ],
)
def test_what_is_ambiguous_or_malformed_is_no_request(data: bytes) -> None:
    assert read_by_us(data, 1 << 20) == read_by_us(data, 1) == []


def test_a_trailer_is_no_header() -> None:
    data = CHUNKED.replace(b"0\r\n\r\n", b"0\r\nX-Late: y\r\n\r\n")
    (request,) = read_by_us(data, 1 << 20)
    assert request.is_whole
    assert b"x-late" not in dict(request.headers)


def take_all(framing: Framing, data: bytes) -> None:
    unread = bytearray(data)
    while framing.take(unread):
        pass


def test_a_head_is_bounded_and_takes_no_longer_than_its_length() -> None:
    started_s = time.process_time()
    for _ in range(100):
        with pytest.raises(AmbiguousFramingError):
            take_all(Framing(1000), HEAD + b"A:" + b" \t" * 8000 + b"\x01\r\n\r\n")
        for line in (b"A: b\r\n" * 3000, b"A:" + b" \t" * 9000):
            with pytest.raises(HeadersTooLargeError):
                take_all(Framing(1000), HEAD + line)
    assert time.process_time() - started_s < 5  # minutes if the time grew with the square


def test_what_frames_a_body_is_bounded() -> None:
    for data, has_chunks, error in (
        (b"1\r\na\r\n" * 10_000, True, BodyTooLargeError),
        (b"a" * 200_000, True, BodyTooLargeError),
        (b"1;" + b"x" * MAX_HEAD_BYTES, False, HeadersTooLargeError),
    ):
        framing = Framing(1000)
        framing.begin_body(None)
        with pytest.raises(error):
            for start in range(0, len(data), 1000):
                take_all(framing, data[start : start + 1000])
                if has_chunks:
                    framing.progress()
