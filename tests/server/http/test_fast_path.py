"""Ordinary requests: read as h11 would read them, and answered without it."""

import json
import socket
import time
from collections.abc import Iterator

import h11
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.app import create_app
from server.http.event_loop_lag import LoopLag
from server.http.fast_path import read_head
from server.settings import Settings
from tests.examples import examples
from tests.server.fake_engine import FakeEngine, served_model
from tests.server.live_app import serving

BODY = json.dumps({"q": "Hello there.", "source": "en", "target": "de"}).encode()
HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
REQUEST = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
GET = b"GET /languages HTTP/1.1\r\nHost: x\r\n\r\n"
SETTINGS = Settings(close_timeout_s=1)

PIECES = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\x7f", b"\x80", b"?", b"#", b"%41", b"  ", b",",
    b"Host: y\r\n", b"HOST: y\r\n", b"X: \r\n", b"x:y\r\n", b" folded: z\r\n", b"Content-Length: 3\r\n",
    b"content-length:0\r\n", b"Content-Length: 00\r\n", b"Transfer-Encoding: chunked\r\n", b"GET ",
    b"Connection: Keep-Alive\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\n",
    b"HTTP/1.0", b"HTTP/1.1 ", b"9" * 30,
)  # fmt: skip


def read_by_h11(data: bytes) -> tuple[h11.Request, bytes, bytes]:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    request = connection.next_event()
    assert isinstance(request, h11.Request)
    body = b""
    while isinstance(event := connection.next_event(), h11.Data):
        body += event.data
    return request, body, bytes(connection.trailing_data[0]) if isinstance(event, h11.EndOfMessage) else b""


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(PIECES), st.integers(0, 2)), max_size=3),
    st.sampled_from((REQUEST, REQUEST + GET, REQUEST[:-5], REQUEST.replace(b"late ", b"late?q=a%20b&x ", 1))),
)
def test_h11_reads_the_same(changes: list[tuple[float, bytes, int]], data: bytes) -> None:
    for place, piece, removed in changes:
        at = int(place * len(data))
        data = data[:at] + piece + data[at + removed :]
    head = read_head(data)
    if head is None:
        return
    request, body, rest = read_by_h11(data)
    assert request.method == b"POST"
    assert request.http_version == b"1.1"
    assert request.target == head.path + (b"?" + head.query if b"?" in request.target else b"")
    assert head.path == b"/translate"
    assert [(name.lower(), value) for name, value in request.headers] == head.headers
    assert body == data[head.size :][: head.body_bytes]
    assert rest == data[head.size + head.body_bytes :]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        REQUEST[: REQUEST.index(b"\r\n\r\n") + 2],
        HEAD + b"\r\n" + BODY,
        HEAD + b"Content-Length : %d\r\n\r\n" % len(BODY) + BODY,
        HEAD + b"Content-Length: +%d\r\n\r\n" % len(BODY) + BODY,
        HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\n" + BODY,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + BODY,
        REQUEST.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost"),
        REQUEST.replace(b"Host", b"Expect: 100-continue\r\nHost"),
        REQUEST.replace(b"Host", b"Connection: Close\r\nHost"),
        REQUEST.replace(b"Host", b"Connection:keep-alive,close\r\nHost"),
        REQUEST.replace(b"Host", b"A: b\nHost"),
        REQUEST.replace(b"Host", b"Ghost"),
        REQUEST.replace(b"POST", b"GET"),
        REQUEST.replace(b"/translate", b"/translate/"),
        REQUEST.replace(b"1.1", b"1.0"),
        b"\x16\x03\x01" + REQUEST,
    ],
)
def test_what_is_unusual_or_wrong_is_left_to_h11(data: bytes) -> None:
    assert read_head(data) is None


def test_what_common_clients_send_is_ordinary() -> None:
    sent = httpx.Client().build_request("POST", "http://x/translate", json={"q": "a"})
    lines = b"".join(b"%s: %s\r\n" % pair for pair in sent.headers.raw)
    assert read_head(b"POST /translate HTTP/1.1\r\n" + lines + b"\r\n") is not None


def test_a_long_head_takes_no_longer_than_its_length() -> None:
    started_s = time.process_time()
    for _ in range(100):
        assert read_head(HEAD + b"A:" + b" \t" * 8000 + b"\x01\r\n\r\n") is None
        assert read_head(HEAD + b"A: b\r\n" * 3000 + b"\r\n") is None
    assert time.process_time() - started_s < 5  # 0.05 here; minutes if the time grew with the square


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def server(engine: FakeEngine) -> Iterator[httpx.Client]:
    with serving(create_app(SETTINGS, served_model(engine)), SETTINGS) as client:
        yield client


@pytest.fixture
def connection(server: httpx.Client) -> Iterator[socket.socket]:
    address = server.base_url.host, server.base_url.port or 80
    with socket.create_connection(address, timeout=20) as opened:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield opened


def read_answers(connection: socket.socket, count: int) -> list[tuple[int, bytes]]:
    """Read so many answers and not a byte more."""
    answers: list[tuple[int, bytes]] = []
    received = b""
    while len(answers) < count:
        head, mark, rest = received.partition(b"\r\n\r\n")
        if mark:
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            if len(rest) >= length:
                answers.append((int(head.split()[1]), rest[:length]))
                received = rest[length:]
                continue
        block = connection.recv(65536)
        assert block, (answers, received)
        received += block
    assert received == b""
    return answers


def test_h11_has_nothing_to_do_with_them(connection: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    for name in ("receive_data", "send"):
        monkeypatch.setattr(h11.Connection, name, lambda *_, name=name, **__: used.append(name))
    for _ in range(3):
        connection.sendall(REQUEST)
        ((status, body),) = read_answers(connection, 1)
        assert (status, json.loads(body)["translatedText"]) == (200, "HELLO THERE.")
    assert used == []


@pytest.mark.parametrize("size", [1, 7, len(REQUEST) - len(BODY), 1 << 20])
def test_parts_of_any_size_are_read(connection: socket.socket, size: int) -> None:
    for first in range(0, len(REQUEST), size):
        connection.sendall(REQUEST[first : first + size])
        time.sleep(0.001)
    ((status, _),) = read_answers(connection, 1)
    assert status == 200


def test_ordinary_and_other_requests_share_a_connection(connection: socket.socket) -> None:
    connection.sendall((REQUEST + GET) * 20 + REQUEST * 20)
    answers = read_answers(connection, 60)
    assert [status for status, _ in answers] == [200] * 60
    assert [b"translatedText" in body for _, body in answers] == [True, False] * 20 + [True] * 20


def test_the_rest_of_a_body_that_is_answered_early_is_no_request(
    connection: socket.socket, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoopLag, "is_behind", True)
    engine.max_queue_sentences = 0
    connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (2 * len(GET)) + GET)
    assert read_answers(connection, 1)[0][0] == 429
    engine.max_queue_sentences = 8
    connection.sendall(GET + GET + REQUEST)
    listed, translated = read_answers(connection, 2)
    assert (listed[0], translated[0]) == (200, 200)
    assert (b"translatedText" in listed[1], b"translatedText" in translated[1]) == (False, True)


def test_what_comes_behind_a_request_waits_and_reading_stops(
    connection: socket.socket, engine: FakeEngine
) -> None:
    engine.gate.clear()
    connection.sendall(REQUEST)
    connection.settimeout(1)
    flood, sent = GET * 1000, 0
    with pytest.raises(TimeoutError):
        while sent < 200 << 20:  # what two sockets hold is a few MiB
            sent += connection.send(flood)
    engine.release()
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_goes_away_aborts_its_request(
    connection: socket.socket, server: httpx.Client, engine: FakeEngine
) -> None:
    engine.gate.clear()
    connection.sendall(REQUEST)
    until_s = time.monotonic() + 10
    while not engine.submitted and time.monotonic() < until_s:
        time.sleep(0.01)
    connection.close()
    while not engine.aborted and time.monotonic() < until_s:
        time.sleep(0.01)
    assert len(engine.aborted) == 1
    engine.release()
    samples = server.get("/metrics").text
    assert 'dragoman_http_requests_total{code="499",method="POST",route="/translate"} 1.0' in samples


def start(*headers: tuple[bytes, bytes]) -> dict[str, object]:
    return {"type": "http.response.start", "status": 200, "headers": headers}


def body(content: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": content}


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([body(b"")], b"500"),
        ([start((b"content-length", b"1"), (b"x", b"\n"))], b"500"),
        ([start()], b"200"),
        ([start((b"content-length", b"1")), body(b"12")], b"200"),
        ([start((b"content-length", b"3")), body(b"12")], b"200"),
        ([start((b"content-length", b"0")), body(b""), body(b"")], b"200"),
    ],
)
def test_an_answer_that_contradicts_itself_is_logged_and_never_followed_by_another(
    messages: list[dict[str, object]], status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(SETTINGS, served_model(FakeEngine()))

    async def answer(_scope: object, _receive: object, send: object) -> None:
        for message in messages:
            await send(message)  # type: ignore[operator]

    with serving(app, SETTINGS) as client:
        app.shortcuts["POST", "/translate"] = answer
        address = client.base_url.host, client.base_url.port or 80
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(REQUEST)
            received = b""
            while block := connection.recv(65536):
                received += block
    assert any(record.levelname == "ERROR" for record in caplog.records)
    assert received.startswith(b"HTTP/1.1 %s " % status)
    assert received.count(b"HTTP/1.1 ") == 1
