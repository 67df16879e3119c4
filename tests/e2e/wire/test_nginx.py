"""`deploy/nginx/nginx.conf` in a real nginx before a real server; only addresses and times are others."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.server_process import RunningServer, free_port, serving, wait_for

pytestmark = pytest.mark.skipif(
    not shutil.which("nginx") and "CI" not in os.environ, reason="nginx is not installed"
)
OPERATORS = {"/livez", "/readyz", "/metrics"}
FIELDS = {"q": "the cat sees a bird.", "source": "en", "target": "de"}
TIMEOUT_S, CONNECTIONS = 1, 12
CHANGES = {
    "client_header_timeout 10s;": f"client_header_timeout {TIMEOUT_S}s;",
    "client_body_timeout 10s;": f"client_body_timeout {TIMEOUT_S}s;",
    "proxy_read_timeout 35s;": f"proxy_read_timeout {TIMEOUT_S}s;",
    "limit_conn clients 64;": f"limit_conn clients {CONNECTIONS};",
}


@dataclass(frozen=True)
class Proxy:
    """nginx before a server.

    Attributes:
        port: of nginx.
        server: behind it.
        log: what nginx writes.
    """

    port: int
    server: RunningServer
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def nginx(conf: Path, directory: Path, upstream_port: int) -> Iterator[tuple[int, Path]]:
    """Run nginx with a copy of our file; gives its port and its log."""
    port, text, log = free_port(), conf.read_text(), directory / "nginx.log"
    changes = CHANGES | {
        "listen 8080;": f"listen 127.0.0.1:{port};",
        "server dragoman:8000 ": f"server 127.0.0.1:{upstream_port} ",
        "/tmp/": f"{directory}/",
        "/dev/stderr": str(log),
        "/dev/stdout": str(log),
    }
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    if os.getuid() == 0:
        text = f"user root;\n{text}"  # else its workers are somebody who may not write where tests write
    (directory / "nginx.conf").write_text(text)
    shutil.copy(conf.with_name("error.conf"), directory)
    command = ["nginx", "-p", str(directory), "-e", str(log), "-c", str(directory / "nginx.conf")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False, timeout=30)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen([*command, "-g", "daemon off;"])
    try:
        wait_for(lambda: _listens(port))
        yield port, log
    finally:
        process.terminate()
        process.wait(20)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.fixture(scope="module")
def proxy(repository: Path, tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    directory = tmp_path_factory.mktemp("nginx")
    switch = directory / "blocked.on"
    program = ("tests.support.faulty_server", "blocked", switch, 0)
    with (
        serving(tiny_bundle, directory / "log", program) as server,
        nginx(repository / "deploy/nginx/nginx.conf", directory, server.port) as (port, log),
    ):
        yield Proxy(port, server, log)


@pytest.fixture
def client(proxy: Proxy) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=proxy.url, timeout=20) as client:
        yield client


def assert_error(answer: httpx.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    body: dict[str, Any] = answer.json()
    assert set(body) == {"error", "code", "request_id"}
    assert body["code"] == code
    assert answer.headers["x-request-id"] == body["request_id"]


def test_requests_pass_with_all_that_belongs_to_them(client: httpx.Client) -> None:
    answer = client.post("/translate", json=FIELDS, headers={"X-Request-ID": "mine"})
    assert answer.json() == {"translatedText": "die Katze sieht eine Amsel."}
    assert answer.headers["x-request-id"] == "mine"
    assert "decode;dur=" in answer.headers["server-timing"]
    assert "version" not in answer.headers.get("server", "")
    assert client.post("/translate", data=FIELDS).status_code == 200
    for path in ("/", "/explain", "/docs", "/docs/start.js", "/docs/swagger-ui.css", "/openapi.json"):
        assert client.get(path).status_code == 200, path


def test_every_route_of_the_api_passes_but_those_of_operators(client: httpx.Client) -> None:
    """Asked of the schema, so that a new route is not forgotten. The server finds these requests wrong."""
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            status = client.request(method, path).status_code
            assert (status == 404) == (path in OPERATORS), (method, path, status)


def test_errors_of_the_server_pass_as_they_are(client: httpx.Client) -> None:
    assert_error(client.post("/translate", json=FIELDS | {"target": "xx"}), 400, "unsupported_language")
    assert_error(
        client.post("/translate", content=b"x", headers={"Content-Type": "text/plain"}),
        415,
        "unsupported_media_type",
    )
    answer = client.put("/translate")
    assert_error(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "path",
    ["/metrics", "/livez", "/readyz", "/admin/status", "/nope", "/docs/../metrics", "/docs/%2e%2e/metrics"],
)
def test_what_is_for_operators_stays_inside(client: httpx.Client, path: str) -> None:
    assert_error(client.get(path), 404, "not_found")


def test_a_large_body_ends_at_the_proxy(client: httpx.Client, proxy: Proxy) -> None:
    def seen() -> int:
        return proxy.server.log.read_text().count('"/translate"')

    before = seen()
    assert_error(client.post("/translate", content=b" " * (2 << 20)), 413, "body_too_large")
    chunks = (b" " * 65536 for _ in range(40))
    assert_error(client.post("/translate", content=chunks), 413, "body_too_large")
    assert client.post("/translate", json=FIELDS | {"x": "y" * 900_000}).status_code == 200
    wait_for(lambda: seen() > before)
    assert seen() == before + 1


@pytest.mark.parametrize("headers", [{"X-Large": "x" * 5000}, {f"X-{n}": "x" * 3000 for n in range(8)}])
def test_large_headers_end_there_too(client: httpx.Client, headers: dict[str, str]) -> None:
    assert_error(client.get("/languages", headers=headers), 431, "headers_too_large")


def closed_after_s(proxy: Proxy, sent: bytes) -> float:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
        connection.sendall(sent)
        started_s = time.monotonic()
        while connection.recv(65536):
            pass
    return time.monotonic() - started_s


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{",
    ],
)
def test_slow_clients_never_reach_the_server(proxy: Proxy, sent: bytes) -> None:
    requests = 'dragoman_http_requests_total{code="499",method="POST",route="/translate"}'
    before = proxy.server.metrics().get(requests, 0.0)
    assert closed_after_s(proxy, sent) < TIMEOUT_S + 4
    assert proxy.server.metrics().get(requests, 0.0) == before


def test_broken_requests_are_malformed(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")  # no Host
        received = b""
        while block := connection.recv(65536):
            received += block
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["code"] == "malformed"


def test_one_address_has_so_many_connections_and_no_more(client: httpx.Client, proxy: Proxy) -> None:
    """A connection counts once its headers are read."""
    started = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{"
    with contextlib.ExitStack() as opened:
        for _ in range(CONNECTIONS):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", proxy.port)))
            connection.sendall(started)
        time.sleep(0.2)
        refused = client.get("/languages")
        assert_error(refused, 429, "rate_limited")
        assert refused.headers["retry-after"] == "1"
    time.sleep(0.2)
    assert client.get("/languages").status_code == 200


def test_a_server_that_does_not_answer_is_a_deadline(client: httpx.Client, proxy: Proxy) -> None:
    switch = proxy.log.with_name("blocked.on")
    switch.touch()
    try:
        assert_error(client.post("/translate", json=FIELDS), 504, "deadline_exceeded")
    finally:
        switch.unlink()
    # nginx has closed its connection, so the server has stopped working on it.
    wait_for(lambda: proxy.server.metrics()['dragoman_decode_slots{state="busy"}'] == 0)
    assert client.post("/translate", json=FIELDS).status_code == 200


def test_a_server_that_is_away_is_unavailable(repository: Path, tmp_path: Path) -> None:
    with nginx(repository / "deploy/nginx/nginx.conf", tmp_path, free_port()) as (port, _):
        answer = httpx.get(f"http://127.0.0.1:{port}/languages")
    assert_error(answer, 503, "unavailable")
    assert answer.headers["retry-after"] == "5"


def test_the_log_has_no_query_and_no_text(client: httpx.Client, proxy: Proxy) -> None:
    sent = {"q": "the secret lamp.", "source": "en", "target": "de", "api_key": "dgm_secret"}
    answer = client.post("/translate", params=sent, headers={"X-Request-ID": "logged"})
    assert answer.status_code == 200
    wait_for(lambda: '"logged"' in proxy.log.read_text())
    text = proxy.log.read_text()
    assert "secret" not in text
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    (line,) = (line for line in lines if line["request_id"] == "logged")
    assert (line["code"], line["path"], line["method"]) == (200, "/translate", "POST")


def test_a_balancer_is_fair_to_the_servers(repository: Path) -> None:
    conf = (repository / "deploy/nginx/nginx.conf").read_text()
    assert "least_conn;" in conf
    (most,) = re.findall(r"client_max_body_size (\d+)m;", conf)
    from server.settings import Settings

    assert int(most) << 20 == Settings.model_fields["max_body_bytes"].default
    (wait_s,) = re.findall(r"proxy_read_timeout (\d+)s;", conf)
    assert int(wait_s) > Settings.model_fields["request_timeout_s"].default


def test_many_clients_at_once(proxy: Proxy) -> None:
    codes: list[int] = []

    def send() -> None:
        with httpx.Client(base_url=proxy.url, timeout=30) as client:
            codes.extend(client.post("/translate", json=FIELDS).status_code for _ in range(5))

    threads = [threading.Thread(target=send) for _ in range(CONNECTIONS - 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [200] * 5 * len(threads)
