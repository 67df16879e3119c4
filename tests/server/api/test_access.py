"""Keys and limits over a real socket: where a key may be, what is open, what is counted, what is logged."""

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest
from fastapi.routing import iter_route_contexts
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from server.api.access import GUARDED_PATHS, Access, Client, make_access
from server.app import Application, create_app
from server.errors import (
    DeadlineExceededError,
    InferenceError,
    QueueFullError,
    QuotaExceededError,
    SettingError,
)
from server.http.errors import ClientDisconnectedError
from server.http.request_record import RequestRecord, attach
from server.metrics.registry import Metrics
from server.service.clients.api_keys import ClientLimits, key_line
from server.settings import Settings
from tests.server.api.test_app import FIELDS, assert_error, eventually, value
from tests.server.api.test_fuzz import VALUES
from tests.server.fake_engine import FakeEngine, served_model
from tests.server.live_app import serving
from tests.support.examples import examples

KEY, LIMITED, SHORT = "dgm_first", "dgm_limited", "dgm_short"
# A new route is open or not: state it here and in docs/operations.md.
OPEN = {
    "/",
    "/explain",
    "/docs",
    "/docs/start.js",
    "/docs/swagger-ui-bundle.js",
    "/docs/swagger-ui.css",
    "/openapi.json",
    "/languages",
    "/livez",
    "/readyz",
    "/health",
    "/metrics",
}


@dataclass
class Served:
    """A running application with keys."""

    app: Application
    client: httpx.Client
    engine: FakeEngine
    file: Path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    file = tmp_path / "keys"
    lines = (
        key_line("first", KEY, ClientLimits()),
        key_line("limited", LIMITED, ClientLimits(requests_per_minute=2)),
        key_line("short", SHORT, ClientLimits(characters_per_day=20)),
    )
    file.write_text("\n".join(lines))
    settings = Settings(api_keys_file=file, close_timeout_s=1)
    engine = FakeEngine()
    app = create_app(settings, served_model(engine))
    with serving(app, settings) as client:
        yield Served(app, client, engine, file)


def bearer(key: str | bytes) -> dict[str, str | bytes]:
    return {"Authorization": (b"Bearer " + key) if isinstance(key, bytes) else f"Bearer {key}"}


@pytest.mark.parametrize(
    "request_",
    [
        {"json": FIELDS | {"api_key": KEY}},
        {"data": FIELDS | {"api_key": KEY}},
        {"params": FIELDS | {"api_key": KEY}},
        {"json": FIELDS, "params": {"api_key": KEY}},
        {"json": FIELDS, "params": {"note": "Grüße", "api_key": KEY}},
        {"json": FIELDS | {"api_key": None}, "headers": bearer(KEY)},
        {"json": FIELDS | {"api_key": ""}, "headers": {"Authorization": f"bEARER  {KEY}"}},
        {"json": FIELDS | {"api_key": KEY}, "headers": {"Authorization": "Basic dXNlcjpwYXNz"}},
    ],
)
def test_a_key_may_be_where_clients_put_it(served: Served, request_: dict[str, Any]) -> None:
    assert served.client.post("/translate", **request_).json() == {"translatedText": "ONE. TWO."}


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        ({"json": FIELDS}, 401, "missing_key"),
        ({"data": FIELDS | {"api_key": ""}}, 401, "missing_key"),
        ({"json": FIELDS | {"api_key": None}}, 401, "missing_key"),
        ({"json": {"q": 5}}, 401, "missing_key"),  # before anything is said about the rest
        ({"json": FIELDS, "headers": {"Authorization": "Bearer"}}, 401, "missing_key"),
        ({"json": FIELDS, "params": "q=M%C3%BCnchen"}, 401, "missing_key"),
        ({"json": FIELDS, "params": "api_key=%C3%BC"}, 403, "bad_key"),
        ({"json": FIELDS, "params": "q=%FF&api_key=%FF"}, 403, "bad_key"),
        ({"json": FIELDS | {"api_key": "wrong"}}, 403, "bad_key"),
        ({"json": FIELDS | {"api_key": 5}}, 403, "bad_key"),
        ({"json": FIELDS | {"api_key": [KEY]}}, 403, "bad_key"),
        ({"json": FIELDS | {"api_key": KEY + "\0"}}, 403, "bad_key"),
        ({"json": FIELDS | {"api_key": "schlüssel"}}, 403, "bad_key"),
        ({"json": FIELDS | {"api_key": "x" * 1_000_000}}, 403, "bad_key"),
        ({"json": FIELDS | {"api_key": KEY}, "headers": bearer("wrong")}, 403, "bad_key"),
        ({"json": FIELDS, "headers": bearer("é".encode())}, 403, "bad_key"),
        ({"content": b"{", "headers": bearer("wrong")}, 403, "bad_key"),
        ({"json": FIELDS, "params": "&".join(["x"] * 5000) + "&api_key=wrong"}, 403, "bad_key"),
    ],
)
def test_without_a_key_of_ours_nothing_is_translated(
    served: Served, request_: dict[str, Any], status: int, code: str
) -> None:
    for path in ("/translate", "/detect"):
        response = served.client.post(path, **request_)
        assert_error(response, status, code)
        assert response.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
    assert served.engine.submitted == []
    refused = 'dragoman_requests_rejected_total{reason="unauthorized",route="%s"} 1.0\n'
    both = {refused % path for path in ("/translate", "/detect")}
    eventually(lambda: both < set(served.client.get("/metrics").text.splitlines(keepends=True)))


@hypothesis.settings(
    max_examples=examples(100), deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(
    key=st.none() | st.text(max_size=30) | VALUES,
    header=st.none() | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
    query=st.text(max_size=20),
)
def test_whatever_is_sent_for_a_key_is_not_one(
    served: Served, key: object, header: str | None, query: str
) -> None:
    response = served.client.post(
        "/translate",
        content=json.dumps(FIELDS | {"api_key": key}),
        params={"api_key": query.encode("utf-8", "replace")},
        headers={"Content-Type": "application/json"}
        | ({} if header is None else {"Authorization": f"Bearer {header}".strip()}),
    )
    body = response.json()
    assert (response.status_code, body["code"]) in {
        (400, "malformed"),
        (401, "missing_key"),
        (403, "bad_key"),
    }


def test_every_route_is_open_on_purpose_or_wants_a_key(served: Served) -> None:
    asked = set()
    for route in iter_route_contexts(served.app.routes):
        assert route.path is not None
        for method in route.methods or ():
            if route.path not in OPEN:
                assert_error(served.client.request(method, route.path), 401, "missing_key")
                assert served.client.request(method, route.path, headers=bearer("wrong")).status_code == 403
                asked.add(route.path)
            elif method == "GET":
                assert served.client.get(route.path).status_code == 200
    assert asked == set(GUARDED_PATHS)


def test_requests_are_limited_by_key(served: Served) -> None:
    started_s = time.monotonic()
    for path in ("/translate", "/detect"):
        assert served.client.post(path, json=FIELDS, headers=bearer(LIMITED)).status_code == 200
    for _ in range(3):
        response = served.client.post("/translate", json=FIELDS, headers=bearer(LIMITED))
        assert_error(response, 429, "rate_limited")
        passed_s = time.monotonic() - started_s
        assert 29 - passed_s <= int(response.headers["retry-after"]) <= 30
    assert served.client.post("/translate", json=FIELDS, headers=bearer(KEY)).status_code == 200
    refused = 'dragoman_requests_rejected_total{reason="rate_limited",route="/translate"}'
    eventually(lambda: value(served.client, refused) == 3)
    assert value(served.client, 'dragoman_key_requests_total{key="limited",result="admitted"}') == 2
    assert value(served.client, 'dragoman_key_requests_total{key="limited",result="rate_limited"}') == 3
    assert value(served.client, 'dragoman_key_requests_total{key="first",result="admitted"}') == 1


def test_characters_are_limited_by_key(served: Served) -> None:
    def post(q: str | list[str]) -> httpx.Response:
        return served.client.post("/translate", json=FIELDS | {"q": q}, headers=bearer(SHORT))

    assert post("One. Two.").status_code == 200
    assert post(["One.", "Two."]).status_code == 200
    response = post("Four")
    assert_error(response, 429, "quota_exceeded")
    assert 86_000 < int(response.headers["retry-after"]) <= 86_400
    assert_error(post("x" * 21), 400, "text_too_long")
    assert post("One").status_code == 200
    assert value(served.client, 'dragoman_key_requests_total{key="short",result="over_quota"}') == 2
    assert value(served.client, 'dragoman_key_characters_total{key="short"}') == 20
    refused = 'dragoman_requests_rejected_total{reason="quota_exceeded",route="/translate"}'
    eventually(lambda: value(served.client, refused) == 1)


def test_what_the_server_could_not_do_is_free(served: Served) -> None:
    def post(**fields: object) -> int:
        body = FIELDS | {"q": "one two three 4"[:15]} | fields
        return served.client.post("/translate", json=body, headers=bearer(SHORT)).status_code

    for failure in (InferenceError("x"), QueueFullError("x"), RuntimeError("x")):
        served.engine.failure = failure  # type: ignore[assignment]
        assert post() in (429, 500)
    served.engine.failure = None
    assert post(target="zz") == 400
    assert post() == 200
    assert post() == 429


def test_a_short_deadline_is_no_way_to_pay_nothing(served: Served) -> None:
    served.engine.failure = DeadlineExceededError("x")
    body = FIELDS | {"q": "one two three 4"[:15]}
    codes = [served.client.post("/translate", json=body, headers=bearer(SHORT)).status_code for _ in range(2)]
    assert codes == [504, 429]


def test_going_away_is_no_way_to_pay_nothing() -> None:
    access = Access(None, None, Metrics(CollectorRegistry()))
    client = Client("a", ClientLimits(characters_per_day=20))
    with pytest.raises(ClientDisconnectedError), access.charge(client, 15):
        raise ClientDisconnectedError("x")
    with pytest.raises(QuotaExceededError), access.charge(client, 15):
        pass


def test_keys_are_exchanged_while_serving(served: Served) -> None:
    def code(key: str) -> int:
        return served.client.post("/translate", json=FIELDS, headers=bearer(key)).status_code

    assert (code(KEY), code("dgm_next")) == (200, 403)
    served.file.write_text(key_line("next", "dgm_next", ClientLimits()))
    eventually(lambda: code("dgm_next") == 200)
    assert code(KEY) == 403
    text = served.client.get("/metrics").text
    assert 'key="next"' in text
    assert 'key="first"' not in text
    served.file.write_text("nonsense")
    keys = served.app.state.access.keys
    eventually(lambda: keys.fault is not None)
    assert code("dgm_next") == 200


def test_the_log_names_the_key_and_does_not_show_it(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        served.client.post("/translate", json=FIELDS | {"api_key": KEY})
        served.client.post("/translate", json=FIELDS, params={"api_key": KEY})
        served.client.post("/translate", json=FIELDS, headers=bearer(KEY))
        served.client.post("/translate", json=FIELDS, headers=bearer("dgm_stranger"))
        eventually(lambda: sum(record.name == "dragoman.access" for record in caplog.records) == 4)
    lines = [vars(record) for record in caplog.records if record.name == "dragoman.access"]
    assert [line.get("key") for line in lines] == ["first"] * 3 + [None]
    assert "dgm_" not in repr(lines)


def test_both_are_documented(served: Served) -> None:
    document = served.client.get("/openapi.json").json()
    assert {"401", "403", "429"} <= set(document["paths"]["/translate"]["post"]["responses"])
    assert "Ignored" not in json.dumps(document)
    guarded = {path for path, of in document["paths"].items() for each in of.values() if "security" in each}
    assert guarded == set(GUARDED_PATHS)
    assert document["components"]["securitySchemes"] == {"api_key": {"type": "http", "scheme": "bearer"}}


def test_without_keys_addresses_are_limited() -> None:
    settings = Settings(requests_per_minute=2, close_timeout_s=1)
    with serving(create_app(settings, served_model(FakeEngine())), settings) as client:
        codes = [
            client.post("/translate", json=FIELDS | {"api_key": f"key {n}"}).status_code for n in range(4)
        ]
        assert codes == [200, 200, 429, 429]
        assert client.get("/models").status_code == 200
        assert "dragoman_key_requests_total{" not in client.get("/metrics").text


def test_a_key_without_a_limit_has_the_servers(served: Served) -> None:
    with_default = make_access(
        Settings(api_keys_file=served.file, requests_per_minute=5), Metrics(CollectorRegistry())
    )
    assert with_default is not None
    scope = {"type": "http", "headers": [], "query_string": b"", "client": ("1.2.3.4", 5)}
    attach(scope, RequestRecord("a"))
    assert with_default.identify(scope, {"api_key": KEY}) == Client("first", ClientLimits(5))
    assert with_default.identify(scope, {"api_key": LIMITED}) == Client("limited", ClientLimits(2))
    assert with_default.identify(scope, {"api_key": SHORT}) == Client("short", ClientLimits(5, 20))


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_an_address_is_a_client(host: str, client: str) -> None:
    access = Access(None, 5, Metrics(CollectorRegistry()))
    assert access.identify({"headers": [], "query_string": b"", "client": (host, 80)}).name == client
    assert access.identify({"headers": [], "query_string": b"", "client": None}).name == ""


def test_without_keys_and_limits_there_is_nothing_to_pay() -> None:
    assert make_access(Settings(), Metrics(CollectorRegistry())) is None


def test_a_bad_file_of_keys_is_no_application(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="api_keys_file"):
        create_app(Settings(api_keys_file=tmp_path / "missing"), served_model(FakeEngine()))
