"""Which pages may use the server: as a browser would ask, over a real socket."""

from collections.abc import Iterator

import httpx
import pytest

from server.app import create_app
from server.service.clients.api_keys import ClientLimits, key_line
from server.settings import Settings
from tests.server.api.test_app import FIELDS, assert_error, eventually, value
from tests.server.fake_engine import FakeEngine, served_model
from tests.server.live_app import serving

OURS, OTHER = "https://ours.example", "https://other.example"
PATHS = ("/translate", "/detect", "/languages")


@pytest.fixture
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Of a server with keys, which is what an open one should have."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(key_line("page", "dgm_page", ClientLimits()))
    settings = Settings(cors_origins=f"{OURS},http://localhost:3000", api_keys_file=keys, close_timeout_s=1)
    with serving(create_app(settings, served_model(FakeEngine())), settings) as client:
        yield client


def preflight(client: httpx.Client, path: str, origin: str, method: str, headers: str) -> httpx.Response:
    asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": headers}
    return client.options(path, headers={"Origin": origin, **asked})


def cross_origin_headers(response: httpx.Response) -> set[str]:
    return {name for name in response.headers if name.startswith("access-control-")}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", [OURS, "http://localhost:3000"])
def test_a_preflight_of_ours_is_allowed(client: httpx.Client, path: str, origin: str) -> None:
    response = preflight(client, path, origin, "POST", "content-type, authorization, x-request-timeout-ms")
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == origin
    assert "POST" in response.headers["access-control-allow-methods"]
    assert response.headers["x-request-id"]
    assert "origin" in response.headers["vary"].lower()
    assert "access-control-allow-credentials" not in response.headers
    series = 'dragoman_http_requests_total{code="200",method="OPTIONS",route="<preflight>"}'
    eventually(lambda: value(client, series) >= 1)


@pytest.mark.parametrize(
    ("origin", "method", "headers"),
    [
        (OTHER, "POST", "content-type"),
        (OURS + ".other.example", "POST", "content-type"),
        ("null", "POST", "content-type"),
        (OURS, "DELETE", "content-type"),
        (OURS, "POST", "x-anything"),
    ],
)
def test_another_preflight_is_refused(client: httpx.Client, origin: str, method: str, headers: str) -> None:
    response = preflight(client, "/translate", origin, method, headers)
    assert_error(response, 400, "invalid_request")
    assert "access-control-allow-origin" not in response.headers
    assert origin not in response.text


def test_a_page_of_ours_reads_answers_and_errors(client: httpx.Client) -> None:
    key = {"Origin": OURS, "Authorization": "Bearer dgm_page"}
    answers = [
        client.post("/translate", json=FIELDS, headers=key),
        client.post("/translate", json=FIELDS, headers={"Origin": OURS}),
        client.post("/translate", content=b"{", headers=key | {"Content-Type": "application/json"}),
        client.get("/translate", headers=key),
        client.get("/nothing", headers=key),
    ]
    assert [answer.status_code for answer in answers] == [200, 401, 400, 405, 404]
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == OURS
        assert "Retry-After" in answer.headers["access-control-expose-headers"]


def test_a_page_of_others_does_not(client: httpx.Client) -> None:
    for path in PATHS:
        response = client.request("GET", path, headers={"Origin": OTHER})
        assert "access-control-allow-origin" not in response.headers
        assert "Origin" in response.headers["vary"]


def test_options_that_are_no_preflight_are_405(client: httpx.Client) -> None:
    response = client.options("/translate", headers={"Origin": OURS})
    assert_error(response, 405, "method_not_allowed")


def test_any_origin_may_be_allowed() -> None:
    settings = Settings(cors_origins="*", close_timeout_s=1)
    with serving(create_app(settings, served_model(FakeEngine())), settings) as client:
        assert preflight(client, "/translate", OTHER, "POST", "content-type").status_code == 200
        response = client.post("/translate", json=FIELDS, headers={"Origin": OTHER})
        assert response.headers["access-control-allow-origin"] == "*"


def test_by_default_no_other_page_may_use_the_server() -> None:
    settings = Settings(close_timeout_s=1)
    with serving(create_app(settings, served_model(FakeEngine())), settings) as client:
        assert_error(preflight(client, "/translate", OURS, "POST", "content-type"), 405, "method_not_allowed")
        response = client.post("/translate", json=FIELDS, headers={"Origin": OURS})
        assert response.status_code == 200
        assert cross_origin_headers(response) == set()
        assert "vary" not in response.headers
