"""No request, however odd, gives a 5xx or an answer without the error body's shape."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.app import create_app
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model
from tests.server.live_app import serving
from tests.support.examples import examples

SETTINGS = Settings(close_timeout_s=1)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
TEXTS = st.text(max_size=200) | st.sampled_from(
    ["", " ", "One. Two.", "<b>x</b> &amp; y", "\0", "\ud800", "a" * 6000]
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "q": TEXTS | st.lists(TEXTS, max_size=4) | VALUES,
        "source": st.sampled_from(["en", "EN-gb", "auto", "de", "zz"]) | VALUES,
        "target": st.sampled_from(["de", "DE", "en"]) | VALUES,
        "format": st.sampled_from(["text", "html", None]) | VALUES,
        "alternatives": st.integers(-1, 9) | VALUES,
        "beam_size": st.integers(-1, 9) | VALUES,
        "length_penalty": st.floats() | VALUES,
        "num_hypotheses": st.integers(-1, 9) | VALUES,
        "max_decoding_length": st.integers(-1, 100) | VALUES,
        "min_decoding_length": st.integers(-1, 100) | VALUES,
        "scores": st.booleans() | VALUES,
        "api_key": VALUES,
        "unknown": VALUES,
    },
)
HEADER_TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(create_app(SETTINGS, served_model(FakeEngine())), SETTINGS) as client:
        yield client


def check(response: httpx.Response) -> None:
    assert response.status_code < 500
    assert response.status_code != 422
    body: Any = response.json()
    if response.status_code == 200:
        assert "translatedText" in body
    else:
        assert set(body) == {"error", "code", "request_id"}
        assert len(response.content) <= 4096


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(FIELDS)
def test_json(client: httpx.Client, fields: dict[str, Any]) -> None:
    check(client.post("/translate", content=json.dumps(fields), headers={"Content-Type": "application/json"}))


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.sampled_from(["q", "source", "target", "format", "alternatives", "scores"]), TEXTS))
)
def test_forms(client: httpx.Client, fields: list[tuple[str, str]]) -> None:
    body = httpx.QueryParams([(name, text.encode("utf-8", "replace").decode()) for name, text in fields])
    check(
        client.post(
            "/translate", content=str(body), headers={"Content-Type": "application/x-www-form-urlencoded"}
        )
    )


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300), HEADER_TEXT, HEADER_TEXT, HEADER_TEXT)
def test_bytes_and_headers(client: httpx.Client, body: bytes, kind: str, encoding: str, timeout: str) -> None:
    headers = {"Content-Type": kind, "Content-Encoding": encoding, "X-Request-Timeout-Ms": timeout}
    check(client.post("/translate", content=body, headers=headers))
