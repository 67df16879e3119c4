"""Requests that the OpenAPI document allows, and such as it does not: never a 5xx, never a surprise.

Schemathesis draws them: 300 in every run, 2,000 in CI's, 50,000 in the long one.
"""

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from server.app import create_app
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model
from tests.server.live_app import serving

SETTINGS = Settings(close_timeout_s=1)
CHECKS = [
    not_a_server_error,
    status_code_conformance,  # the status is one that the document names
    content_type_conformance,
    response_schema_conformance,  # errors included: they have the one body that they are said to have
]
MOST_REPLY_BYTES, MOST_ERROR_BYTES = 16 << 10, 4 << 10
SHARES = {("/translate", "positive"): 6, ("/translate", "negative"): 8, ("/detect", "positive"): 2}
SHARES |= {("/detect", "negative"): 4, ("/generate", "positive"): 2, ("/generate", "negative"): 2}
GET_CASES = 1
OTHER_TASK = {"task": "summarization", "segmentation": "none"}


@dataclass
class Target:
    """A server and its document.

    Attributes:
        schema: its OpenAPI document.
        url: of the server.
        session: keeps connections open.
    """

    schema: schemathesis.BaseSchema
    url: str
    session: requests.Session


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    models = [served_model(FakeEngine()), served_model(FakeEngine(), name="other", **OTHER_TASK)]
    with serving(create_app(SETTINGS, models), SETTINGS) as client:
        url = str(client.base_url)
        with requests.Session() as session:
            yield Target(schemathesis.openapi.from_url(f"{url}/openapi.json"), url, session)


def draw(
    target: Target, path: str, method: str, mode: GenerationMode, count: int, codes: Counter[int]
) -> None:
    """Send so many requests to one operation, check every answer and count them by status."""
    operation = target.schema[path][method]

    @hypothesis.settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @hypothesis.given(operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        response = case.call(base_url=target.url, session=target.session, timeout=20)
        codes[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)
        most = MOST_REPLY_BYTES if response.status_code < 400 else MOST_ERROR_BYTES
        assert len(response.content) <= most or path == "/metrics"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Schemathesis about itself
        check()


def draw_everything(target: Target, count: int) -> None:
    codes: Counter[int] = Counter()
    for (path, mode), share in SHARES.items():
        draw(target, path, "POST", GenerationMode(mode), count * share // sum(SHARES.values()), codes)
    for path in ("/livez", "/readyz", "/health", "/languages", "/models", "/metrics"):
        draw(target, path, "GET", GenerationMode.POSITIVE, GET_CASES, codes)
    print(dict(codes))
    assert sum(codes.values()) >= count
    assert codes[200] > count // 20  # it does not only send what is refused
    assert codes[400] > count // 5


def test_300_requests_drawn_from_the_document(target: Target) -> None:
    draw_everything(target, 300)


@pytest.mark.slow
def test_2000_requests_drawn_from_the_document(target: Target) -> None:
    draw_everything(target, 2000)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_50000_requests_drawn_from_the_document(target: Target) -> None:
    draw_everything(target, 50_000)


def test_every_operation_is_drawn_from(target: Target) -> None:
    operations = {
        (path, method.upper())
        for path, methods in target.schema.raw_schema["paths"].items()
        for method in methods
    }
    drawn = {(path, "POST") for path, _ in SHARES}
    drawn |= {(path, "GET") for path in ("/livez", "/readyz", "/health", "/languages", "/models", "/metrics")}
    assert operations == drawn
