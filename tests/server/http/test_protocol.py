"""One connection: requests in parts, behind each other, answered early, abandoned."""

import json
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from server.app import create_app
from server.http.event_loop_lag import LoopLag
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model
from tests.server.live_app import serving

BODY = json.dumps({"q": "Hello there.", "source": "en", "target": "de"}).encode()
HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
REQUEST = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
GET = b"GET /languages HTTP/1.1\r\nHost: x\r\n\r\n"
SETTINGS = Settings(close_timeout_s=1)


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


@pytest.mark.parametrize("size", [1, 7, len(REQUEST) - len(BODY), 1 << 20])
def test_parts_of_any_size_are_read(connection: socket.socket, size: int) -> None:
    for first in range(0, len(REQUEST), size):
        connection.sendall(REQUEST[first : first + size])
        time.sleep(0.001)
    ((status, _),) = read_answers(connection, 1)
    assert status == 200


def test_requests_behind_each_other_are_answered_in_order(connection: socket.socket) -> None:
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
        ([start((b"content-length", b"1"), (b"x", b"\n"))], b""),
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
    assert [line.split()[1] for line in received.splitlines() if b"HTTP/1.1 " in line] == [status] * bool(
        status
    )
