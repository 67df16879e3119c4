"""The pages for browsers: everything on them comes from this server, as their policy says."""

from collections.abc import Iterator
from html.parser import HTMLParser

import httpx
import pytest

from server.app import create_app
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model
from tests.server.live_app import serving

SETTINGS = Settings(close_timeout_s=1)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(create_app(SETTINGS, served_model(FakeEngine())), SETTINGS) as client:
        yield client


class Parts(HTMLParser):
    """Addresses that a page loads, and the text of its inline scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.scripts: list[str] = []
        self._inside_script = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        address = found.get("src") or (found.get("href") if tag == "link" else None)
        if address:
            self.loaded.append(address)
        self._inside_script = tag == "script"

    def handle_data(self, data: str) -> None:
        if self._inside_script and data.strip():
            self.scripts.append(data)


def policy(response: httpx.Response) -> dict[str, list[str]]:
    rules = (rule.split() for rule in response.headers["content-security-policy"].split(";"))
    return {rule[0]: rule[1:] for rule in rules}


def test_the_first_page_loads_nothing(client: httpx.Client) -> None:
    page = client.get("/")
    assert "<textarea" in page.text
    assert Parts(page.text).loaded == []
    assert policy(page)["connect-src"] == ["'self'"]


def test_the_page_that_explains_loads_nothing(client: httpx.Client) -> None:
    page = client.get("/explain")
    assert "Why this translation?" in page.text
    assert Parts(page.text).loaded == []
    assert policy(page) == policy(client.get("/"))


def test_the_docs_load_what_this_server_has(client: httpx.Client) -> None:
    page = client.get("/docs")
    parts = Parts(page.text)
    files = [address for address in parts.loaded if not address.startswith("data:")]
    assert len(files) == 3
    for address in files:
        assert "//" not in address and not address.startswith("/")  # works under a proxy's prefix, too
        response = client.get(f"/{address}")
        assert response.status_code == 200
        kind = "text/css" if address.endswith("css") else "text/javascript"
        assert response.headers["content-type"].startswith(kind)
        assert response.headers["x-content-type-options"] == "nosniff"
        assert client.head(f"/{address}").headers["content-length"] == str(len(response.content))
        assert client.get(f"/{address}", headers={"Range": "bytes=abc"}).content == response.content
    assert "SwaggerUIBundle" in client.get("/docs/swagger-ui-bundle.js").text
    assert "openapi.json" in client.get("/docs/start.js").text
    assert parts.scripts == []


def test_the_docs_run_no_script_of_others(client: httpx.Client) -> None:
    rules = policy(client.get("/docs"))
    assert rules["default-src"] == ["'none'"]
    assert rules["script-src"] == ["'self'"]
    assert rules["connect-src"] == ["'self'"]
    sources = {source for allowed in rules.values() for source in allowed}
    assert sources <= {"'none'", "'self'", "data:"}


@pytest.mark.parametrize(
    "path", ["/docs/", "/docs/redoc.standalone.js", "/docs/../page.py", "/docs/%2e%2e/page.py", "/redoc"]
)
def test_nothing_else_is_given_away(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404
