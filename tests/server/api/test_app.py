"""The application over the fake engine: what needs an engine that misbehaves."""

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from server.app import create_app
from server.errors import DrainingError, EngineDeadError, InferenceError
from server.http.protocol import DISCONNECT_EXTENSION, FAULT_EXTENSION
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model
from tests.server.live_app import serving

SETTINGS = Settings(request_timeout_s=5.0, close_timeout_s=1)
FIELDS = {"q": "One. Two.", "source": "en", "target": "de"}


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(max_queue_sentences=8)


@pytest.fixture
def app(engine: FakeEngine) -> FastAPI:
    return create_app(SETTINGS, served_model(engine))


@pytest.fixture
def client(app: FastAPI) -> Iterator[httpx.Client]:
    with serving(app, SETTINGS) as client:
        yield client


def value(client: httpx.Client, series: str) -> float:
    for line in client.get("/metrics").text.splitlines():
        if line.startswith(series + " "):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no series {series}")


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for what happens just after an answer was sent: its log line and its count."""
    give_up_s = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.005)


def assert_error(response: Any, status: int, code: str) -> None:
    body = response.json()
    assert (response.status_code, body["code"]) == (status, code)
    assert set(body) == {"error", "code", "request_id"}
    assert body["request_id"] == response.headers["x-request-id"]
    assert len(response.content) <= 4096


def test_an_answer_carries_id_and_timing(client: httpx.Client) -> None:
    response = client.post("/translate", json=FIELDS, headers={"X-Request-ID": "abc.1-2_3"})
    assert response.json() == {"translatedText": "ONE. TWO."}
    assert response.headers["x-request-id"] == "abc.1-2_3"


def test_an_answer_says_where_its_time_went(client: httpx.Client, engine: FakeEngine) -> None:
    engine.gate.clear()
    answers: list[httpx.Response] = []
    caller = threading.Thread(target=lambda: answers.append(client.post("/translate", json=FIELDS)))
    caller.start()
    eventually(lambda: engine.waiting == 2)
    held_since_s = time.monotonic()
    eventually(lambda: time.monotonic() - held_since_s > 0.05)
    engine.release()
    caller.join(5)
    stages = dict(stage.split(";dur=") for stage in answers[0].headers["server-timing"].split(", "))
    assert list(stages) == ["parse", "tokenize", "queue", "encode", "decode", "detokenize", "total"]
    # What the fake engine claims, in milliseconds; it was held back for longer.
    assert [stages[stage] for stage in ("queue", "encode", "decode")] == ["1.00", "2.00", "3.00"]
    assert 50 < float(stages["total"]) < 5000


@pytest.mark.parametrize("sent", ["x" * 65, 'a"b', "a b", "ä", "", "x" * 10_000])
def test_strange_request_ids_are_replaced(client: httpx.Client, sent: str) -> None:
    response = client.post("/translate", json=FIELDS, headers={"X-Request-ID": sent.encode()})
    assert response.headers["x-request-id"] not in (sent, "")
    assert len(response.headers["x-request-id"]) == 16


def test_a_full_queue_is_429_with_retry_after(client: httpx.Client, engine: FakeEngine) -> None:
    engine.max_queue_sentences = 1
    response = client.post("/translate", json=FIELDS)
    assert_error(response, 429, "queue_full")
    assert int(response.headers["retry-after"]) in (2, 3)
    refused = 'dragoman_requests_rejected_total{reason="queue_full",route="/translate"}'
    eventually(lambda: value(client, refused) == 1)


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [(EngineDeadError("x"), 503, "engine_dead"), (DrainingError("x"), 503, "draining")],
)
def test_an_engine_that_cannot_is_503(
    client: httpx.Client, engine: FakeEngine, failure: Any, status: int, code: str
) -> None:
    engine.failure = failure
    response = client.post("/translate", json=FIELDS)
    assert_error(response, status, code)
    assert int(response.headers["retry-after"]) >= 1


def test_an_unexpected_error_is_500_without_details(
    client: httpx.Client, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.failure = RuntimeError("secret path /etc/x")  # type: ignore[assignment]
    with caplog.at_level(logging.ERROR, "dragoman.error"):
        response = client.post("/translate", json=FIELDS)
        eventually(lambda: "secret" in caplog.text)
    assert_error(response, 500, "internal")
    assert "secret" not in response.text


def test_an_inference_error_is_500(client: httpx.Client, engine: FakeEngine) -> None:
    engine.failure = InferenceError("ORT said things")
    response = client.post("/translate", json=FIELDS)
    assert_error(response, 500, "internal")
    assert "ORT" not in response.text


def test_a_passed_deadline_is_504(client: httpx.Client, engine: FakeEngine) -> None:
    engine.gate.clear()
    response = client.post("/translate", json=FIELDS, headers={"X-Request-Timeout-Ms": "50"})
    assert_error(response, 504, "deadline_exceeded")
    assert engine.waiting == 0


def test_a_client_cannot_raise_its_deadline(client: httpx.Client, engine: FakeEngine) -> None:
    client.post("/translate", json=FIELDS, headers={"X-Request-Timeout-Ms": "3600000"})
    client.post("/translate", json=FIELDS)
    first, second = (entry[3] for entry in engine.submitted)
    assert first is not None and second is not None
    assert abs(first - second) < 2


@pytest.mark.parametrize("sent", ["0", "-1", "1.5", "x", "1" * 20, ""])
def test_a_strange_timeout_is_400(client: httpx.Client, sent: str) -> None:
    response = client.post("/translate", json=FIELDS, headers={"X-Request-Timeout-Ms": sent})
    assert_error(response, 400, "invalid_request")


def test_draining_refuses_new_and_finishes_old(
    client: httpx.Client, app: FastAPI, engine: FakeEngine
) -> None:
    assert client.get("/readyz").status_code == 200
    engine.gate.clear()
    answers: list[Any] = []
    caller = threading.Thread(target=lambda: answers.append(client.post("/translate", json=FIELDS)))
    caller.start()
    while not engine.waiting:
        pass
    app.state.lifecycle.begin_drain()
    assert_error(client.get("/readyz"), 503, "draining")
    response = client.post("/translate", json=FIELDS)
    assert_error(response, 503, "draining")
    assert response.headers["connection"] == "close"
    assert client.get("/livez").status_code == 200
    assert value(client, "dragoman_ready") == 0
    assert value(client, "dragoman_draining") == 1
    engine.release()
    caller.join(5)
    assert answers[0].json() == {"translatedText": "ONE. TWO."}


def test_liveness_follows_the_engine(client: httpx.Client, engine: FakeEngine) -> None:
    assert client.get("/livez").json() == {"status": "alive", "models": ["fake"]}
    assert client.head("/livez").status_code == 200
    assert client.get("/health").json() == {"status": "ok", "models": ["fake"]}
    engine.alive = False
    for path in ("/livez", "/readyz", "/health"):
        assert_error(client.get(path), 503, "engine_dead")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/health", "/metrics"])
def test_a_refused_method_is_told_of_both_that_are_served(client: httpx.Client, path: str) -> None:
    response = client.delete(path)
    assert_error(response, 405, "method_not_allowed")
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert client.head(path).status_code == 200
    assert list(client.get("/openapi.json").json()["paths"][path]) == ["get"]


def test_an_engine_that_has_work_and_does_not_move_is_dead(client: httpx.Client, engine: FakeEngine) -> None:
    engine.last_progress_s -= 61
    assert client.get("/livez").status_code == 200  # nothing to do
    engine.gate.clear()
    caller = threading.Thread(target=lambda: client.post("/translate", json=FIELDS))
    caller.start()
    while not engine.waiting:
        pass
    assert_error(client.get("/livez"), 503, "engine_dead")
    engine.release()
    caller.join(5)


def test_before_the_start_nothing_is_ready(app: FastAPI) -> None:
    assert app.state.lifecycle.draining is False
    with pytest.raises(Exception, match="loading"):
        app.state.lifecycle.check_accepting()


def test_languages_and_models(client: httpx.Client) -> None:
    assert client.request("GET", "/languages", content=b"x").json() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    (model,) = client.get("/models").json()["models"]
    assert (model["name"], model["sha256"], model["beam_sizes"]) == ("fake", "ab" * 32, [1, 2, 4])


def test_detect(client: httpx.Client) -> None:
    found = client.post("/detect", data={"q": "Wo ist der Bahnhof?"}).json()
    assert [guess["language"] for guess in found] == ["de", "en"]
    assert_error(client.post("/detect", json={"q": ["a"]}), 400, "invalid_request")


def test_the_document(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    assert "beam_size" in json.dumps(document["paths"]["/translate"]["post"]["requestBody"])
    assert "422" not in document["paths"]["/translate"]["post"]["responses"]


def test_the_log_line_has_numbers_and_no_text(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "dragoman.access"):
        client.post("/translate", json=FIELDS | {"q": "CONFIDENTIAL text"}, headers={"X-Request-ID": "r-1"})
        client.post("/translate", json=FIELDS | {"target": "CONFIDENTIAL"})
        client.get("/CONFIDENTIAL")
        eventually(lambda: len(caplog.records) == 3)
    line, refused, unmatched = (vars(record) for record in caplog.records)
    assert "CONFIDENTIAL" not in repr((line, refused, unmatched))
    assert (line["request_id"], line["code"], line["texts"], line["source_tokens"]) == ("r-1", 200, 1, 3)
    assert (refused["code"], refused["reason"]) == (400, "unsupported_language")
    assert (unmatched["route"], unmatched["reason"]) == ("<unmatched>", "not_found")


def test_a_connection_that_is_lost_frees_its_rows(
    client: httpx.Client, app: FastAPI, engine: FakeEngine
) -> None:
    """Over a socket: our protocol calls back, nothing listens."""
    engine.gate.clear()
    body = json.dumps(FIELDS).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", client.base_url.port)) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        eventually(lambda: engine.waiting == 2)
    eventually(lambda: engine.waiting == 0)
    eventually(lambda: value(client, 'dragoman_client_disconnects_total{phase="queued"}') == 1)
    engine.release()
    assert client.post("/translate", json=FIELDS).status_code == 200


def test_a_client_that_goes_away_frees_its_rows(app: FastAPI, engine: FakeEngine) -> None:
    """Straight ASGI: the protocol's call must reach the route through all middleware."""
    engine.gate.clear()
    body = json.dumps(FIELDS).encode()
    sent: list[Any] = []

    async def main() -> None:
        leaving: list[Callable[[], None] | None] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/translate",
            "raw_path": b"/translate",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            "extensions": {DISCONNECT_EXTENSION: leaving.append, FAULT_EXTENSION: lambda: None},
        }
        async with app.router.lifespan_context(app):
            call = asyncio.create_task(app(scope, receive, send))
            while not engine.waiting:
                await asyncio.sleep(0.001)
            (leave,) = leaving
            assert leave is not None
            leave()
            await asyncio.wait_for(call, 2)
            assert leaving == [leave, None]

    asyncio.run(main())
    assert sent == []
    assert len(engine.aborted) == 1
    assert engine.waiting == 0
    text = app.state.metrics.render().decode()
    assert 'dragoman_client_disconnects_total{phase="queued"} 1.0' in text
    assert 'dragoman_http_requests_total{code="499",method="POST",route="/translate"} 1.0' in text


def test_decoding_options_reach_the_engine(client: httpx.Client, engine: FakeEngine) -> None:
    given = {
        "sampling_topk": 0,
        "sampling_topp": 0.9,
        "seed": 5,
        "num_hypotheses": 3,
        "target_prefix": "well",
    }
    answer = client.post("/translate", json=FIELDS | given).json()
    assert answer["translatedText"].startswith("WELL ")
    assert len(answer["alternatives"]) == 2
    options = engine.submitted[-1][2]
    assert (options.sampling_topk, options.sampling_topp, options.seed) == (0, 0.9, 5)
    assert (options.num_hypotheses, options.beam_size, len(options.target_prefix)) == (3, 4, 1)


def test_a_bad_decoding_option_is_named_with_its_range(client: httpx.Client) -> None:
    response = client.post("/translate", json=FIELDS | {"no_repeat_ngram_size": 500})
    assert_error(response, 400, "invalid_option")
    assert "no_repeat_ngram_size: input should be less than or equal to 100" in response.json()["error"]


def test_decoding_options_are_documented_with_their_bounds(client: httpx.Client) -> None:
    body = client.get("/openapi.json").json()["paths"]["/translate"]["post"]["requestBody"]
    properties = body["content"]["application/json"]["schema"]["properties"]
    assert {"maximum": 1000, "minimum": 0, "type": "integer"} in properties["sampling_topk"]["anyOf"]
    assert {"const": "never", "type": "string"} in properties["early_stopping"]["anyOf"]
    names = {
        "patience",
        "repetition_penalty",
        "target_prefix",
        "sampling_topp",
        "sampling_temperature",
        "seed",
    }
    assert names <= set(properties)
