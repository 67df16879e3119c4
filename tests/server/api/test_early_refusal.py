"""Translations that are refused before their bodies are read."""

import json
import logging
import socket
from collections.abc import Iterator

import httpx
import pytest

from server.app import create_app
from server.http.event_loop_lag import LoopLag
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model
from tests.server.live_app import serving

SETTINGS = Settings(close_timeout_s=1)
BODY = json.dumps({"q": "One. Two.", "source": "en", "target": "de"}).encode()
HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
REQUEST = HEAD + b"Content-Length: %d\r\n" % len(BODY)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(max_queue_sentences=0)


@pytest.fixture
def client(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """Of a server whose event loop is always behind."""
    monkeypatch.setattr(LoopLag, "is_behind", True)
    with serving(create_app(SETTINGS, served_model(engine)), SETTINGS) as client:
        yield client


@pytest.fixture
def connection(client: httpx.Client) -> Iterator[socket.socket]:
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=20) as opened:
        yield opened


def read_answer(connection: socket.socket) -> tuple[int, dict[str, str], dict[str, str]]:
    received = b""
    while not received.endswith(b"}"):
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert int(headers["content-length"]) == len(body)
    return int(first.split()[1]), headers, json.loads(body)


def test_a_refusal_is_an_answer_like_others_and_the_connection_goes_on(
    connection: socket.socket, client: httpx.Client, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "dragoman.access"):
        connection.sendall(REQUEST + b"\r\n" + BODY)
        status, headers, body = read_answer(connection)
        # The answer comes before the body does.
        connection.sendall(REQUEST + b"Origin: http://x\r\n\r\n")
        ordinary = read_answer(connection)
        connection.sendall(BODY)
        assert status == ordinary[0] == 429
        assert set(headers) == set(ordinary[1])
        assert set(body) == set(ordinary[2])
        own = ("x-request-id", "retry-after", "date", "content-length")
        assert all(headers[name] == ordinary[1][name] for name in headers if name not in own)
        assert body["code"] == ordinary[2]["code"] == "queue_full"
        assert body["request_id"] == headers["x-request-id"]
        assert int(headers["retry-after"]) in (2, 3)
        engine.max_queue_sentences = 8
        connection.sendall(REQUEST + b"\r\n" + BODY)
        assert read_answer(connection)[0] == 200
    assert len(engine.submitted) == 1
    refusals = [record for record in caplog.records if getattr(record, "code", None) == 429]
    assert [record.reason for record in refusals] == ["queue_full"] * 2
    assert [record.route for record in refusals] == ["/translate"] * 2
    samples = client.get("/metrics").text
    assert 'dragoman_http_requests_total{code="429",method="POST",route="/translate"} 2.0' in samples
    assert 'dragoman_requests_rejected_total{reason="queue_full",route="/translate"} 2.0' in samples


def test_a_client_that_names_its_request_finds_the_name(connection: socket.socket) -> None:
    connection.sendall(REQUEST + b"X-Request-ID: mine-1\r\n\r\n" + BODY)
    _, headers, body = read_answer(connection)
    assert headers["x-request-id"] == body["request_id"] == "mine-1"


def test_a_server_that_drains_says_so(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopLag, "is_behind", True)
    app = create_app(SETTINGS, served_model(engine))
    with serving(app, SETTINGS) as client:
        address = client.base_url.host, client.base_url.port or 80
        app.state.lifecycle.begin_drain()
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(REQUEST + b"\r\n" + BODY)
            status, _, body = read_answer(connection)
    assert (status, body["code"]) == (503, "draining")


def test_other_requests_are_served(client: httpx.Client) -> None:
    assert client.get("/livez").status_code == client.get("/languages").status_code == 200


def test_a_loop_that_keeps_up_reads_everything(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with a request is said even while the line is full."""
    monkeypatch.setattr(LoopLag, "is_behind", False)
    answer = client.post("/translate", content=b"{", headers={"Content-Type": "application/json"})
    assert answer.json()["code"] == "malformed"


def test_the_answer_does_not_wait_for_the_body_which_is_no_request(connection: socket.socket) -> None:
    connection.sendall(REQUEST + b"\r\n" + BODY[:5])
    status, headers, body = read_answer(connection)
    assert (status, body["code"]) == (429, "queue_full")
    assert "connection" not in headers
    connection.sendall(BODY[5:] + REQUEST + b"\r\n" + BODY)
    assert read_answer(connection)[0] == 429


def test_the_log_has_the_names_that_a_client_gave(
    connection: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with caplog.at_level(logging.INFO, "dragoman.access"):
        for lines in (
            b"Traceparent: %s\r\nX-Request-ID: a b\r\nx-request-id: a.b\r\n" % trace,
            b"traceparent: nonsense\r\nX-Request-ID: c\r\n",
        ):
            connection.sendall(REQUEST + lines + b"\r\n" + BODY)
            assert read_answer(connection)[0] == 429
    first, second = (record.__dict__ for record in caplog.records)
    assert (first["request_id"], first["traceparent"]) == ("a.b", trace.decode())
    assert second["request_id"] == "c"
    assert "traceparent" not in second
