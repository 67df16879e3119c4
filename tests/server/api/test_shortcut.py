"""`POST /translate` past FastAPI's layers and through them: one endpoint, two ways, the same answers."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from server.app import create_app
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model
from tests.server.live_app import serving

SETTINGS = Settings(max_body_bytes=2000, close_timeout_s=1)
FIELDS = {"q": "One. Two.", "source": "en", "target": "de"}
JSON = {"Content-Type": "application/json"}
REQUESTS: list[dict[str, Any]] = [
    {"json": FIELDS},
    {"json": FIELDS | {"q": ["One.", "", "Two."], "scores": True}},
    {"data": FIELDS},
    {"params": FIELDS},
    {"content": b"{", "headers": JSON},
    {"content": b"\xff", "headers": JSON},
    {"json": FIELDS | {"target": "xx"}},
    {"json": FIELDS | {"beam_size": 99}},
    {"json": {}},
    {"json": FIELDS | {"q": "a" * 3000}},
    {"content": b"x", "headers": {"Content-Type": "text/plain"}},
    {"content": b"x", "headers": JSON | {"Content-Encoding": "gzip"}},
    {"json": FIELDS, "headers": {"X-Request-Timeout-Ms": "soon"}},
    {"json": FIELDS, "headers": {f"x-{n}": "x" for n in range(120)}},
]


@pytest.fixture(scope="module")
def ways() -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Clients of an application with the shortcut, and of one without."""
    with_it, without = (create_app(SETTINGS, served_model(FakeEngine())) for _ in range(2))
    with serving(with_it, SETTINGS) as shortcut, serving(without, SETTINGS) as router:
        assert list(with_it.shortcuts) == [("POST", "/translate"), ("POST", "/generate")]
        without.shortcuts.clear()
        yield shortcut, router


def shown(response: httpx.Response) -> tuple[int, dict[str, Any], dict[str, str]]:
    own = ("date", "x-request-id", "server-timing")
    body = {name: value for name, value in response.json().items() if name != "request_id"}
    return (
        response.status_code,
        body,
        {name: value for name, value in response.headers.items() if name not in own},
    )


@pytest.mark.parametrize("request_", REQUESTS)
def test_both_ways_answer_alike(ways: tuple[httpx.Client, httpx.Client], request_: dict[str, Any]) -> None:
    first, second = (client.post("/translate", **request_) for client in ways)
    assert shown(first) == shown(second)
    assert ("server-timing" in first.headers) == (first.status_code == 200)
    assert len(first.headers["x-request-id"]) == len(second.headers["x-request-id"]) == 16


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/translate"), ("POST", "/translate/"), ("PUT", "/translate")]
)
def test_anything_else_goes_the_ordinary_way(
    ways: tuple[httpx.Client, httpx.Client], method: str, path: str
) -> None:
    first, second = (client.request(method, path) for client in ways)
    assert shown(first) == shown(second)
    assert first.status_code in (404, 405)


def test_both_ways_are_documented_and_counted_as_one_route(ways: tuple[httpx.Client, httpx.Client]) -> None:
    for client in ways:
        assert "post" in client.get("/openapi.json").json()["paths"]["/translate"]
        assert client.post("/translate", json=FIELDS).status_code == 200
        line = 'dragoman_http_requests_total{code="200",method="POST",route="/translate"}'
        (count,) = (row for row in client.get("/metrics").text.splitlines() if row.startswith(line))
        assert float(count.rsplit(" ", 1)[1]) >= 1
