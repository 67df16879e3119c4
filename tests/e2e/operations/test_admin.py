"""The admin port of a real server process: what it shows, whom it lets in, and how it ends the server."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from server.service.clients.api_keys import ClientLimits, key_line
from tests.support.server_process import RunningServer, command, free_port, serving

BODY = {"q": "the cat sees a bird.", "source": "en", "target": "de"}
LONG = BODY | {"q": [f"the cat sees {n} birds." for n in range(30)], "min_decoding_length": 120}
KEY = {"Authorization": "Bearer dgm_key"}


@dataclass(frozen=True)
class Watched:
    """A server with an admin port."""

    server: RunningServer
    admin: str


@pytest.fixture(scope="module")
def watched(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    directory, port = tmp_path_factory.mktemp("server"), free_port()
    keys = directory / "keys"
    keys.write_text(key_line("weblate", "dgm_key", ClientLimits()))
    with serving(tiny_bundle, directory / "log", admin_port=port, api_keys_file=keys, max_rows=8) as server:
        yield Watched(server, f"http://127.0.0.1:{port}")


def test_the_status_says_what_is_served_and_how(watched: Watched, tiny_bundle: Path) -> None:
    httpx.post(f"{watched.server.url}/translate", json=BODY, headers=KEY, timeout=30).raise_for_status()
    response = httpx.get(f"{watched.admin}/admin/status", timeout=10)
    shown = response.json()
    assert shown["state"] == "ready"
    assert shown["uptime_s"] > 0
    assert shown["requests"] == 0
    (bundle,) = shown["bundles"]
    assert bundle["path"] == str(tiny_bundle)
    assert bundle["directions"] == ["en-de"]
    assert shown["queue"] == {
        "sentences": 0,
        "max_sentences": 2048,
        "tokens": 0,
        "max_tokens": 65536,
        "oldest_age_s": 0.0,
    }
    assert shown["engine"]["alive"] is True
    assert shown["engine"]["rows_busy"] == 0
    assert shown["api_keys"]["names"] == ["weblate"]
    assert shown["api_keys"]["fault"] is None
    assert shown["settings"]["max_rows"] == 8
    assert shown["settings"]["admin_port"] == int(watched.admin.rpartition(":")[2])
    assert "dgm_" not in response.text
    assert response.headers["x-request-id"]


def test_the_two_ports_serve_nothing_of_each_other(watched: Watched) -> None:
    for url in (f"{watched.server.url}/admin/status", f"{watched.admin}/livez", f"{watched.admin}/docs"):
        answer = httpx.get(url, timeout=10)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert httpx.post(f"{watched.admin}/translate", json=BODY, headers=KEY, timeout=10).status_code == 404


def test_other_methods_are_405(watched: Watched) -> None:
    assert httpx.get(f"{watched.admin}/admin/drain", timeout=10).status_code == 405
    assert httpx.get(f"{watched.admin}/admin/reload", timeout=10).status_code == 405
    assert httpx.post(f"{watched.admin}/admin/status", timeout=10).status_code == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example"},
        {"Host": "127.0.0.1.rebound.example"},
        {"Host": "localhost:80:80"},
        {"Origin": "https://page.example"},
        {"Origin": "null"},
    ],
)
def test_a_page_in_a_browser_is_kept_out(watched: Watched, headers: dict[str, str]) -> None:
    for method, path in (("GET", "/admin/status"), ("POST", "/admin/reload"), ("POST", "/admin/drain")):
        answer = httpx.request(method, watched.admin + path, headers=headers, timeout=10)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert httpx.get(f"{watched.server.url}/readyz", timeout=10).status_code == 200


def test_a_tunnel_is_let_in(watched: Watched) -> None:
    for host in ("localhost:9999", "[::1]:9999", "127.0.0.1"):
        assert httpx.get(f"{watched.admin}/admin/status", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "localhost", "10.0.0.1", "127.0.0.2"])
def test_only_this_machine_can_be_given(tiny_bundle: Path, host: str) -> None:
    ended = subprocess.run(
        command("serve", tiny_bundle, "--admin-port", 0),
        env=os.environ | {"DRAGOMAN_ADMIN_HOST": host},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("dragoman serve: setting admin_host: ")


def test_an_admin_port_that_is_taken_is_named(tiny_bundle: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            command("serve", tiny_bundle, "--port", 0, "--admin-port", port),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert ended.returncode == 1
    assert ended.stderr == f"dragoman serve: cannot listen on 127.0.0.1 port {port}: Address already in use\n"


def test_drain_finishes_what_runs_and_ends_the_server(watched: Watched) -> None:
    """The last test of this server."""
    body = httpx.Request("POST", f"{watched.server.url}/translate", json=LONG, headers=KEY)
    port = int(watched.admin.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as stalled, ThreadPoolExecutor(1) as callers:
        stalled.sendall(b"GET /admin/status HTTP/1.1\r\n")
        with httpx.Client(timeout=60) as caller, httpx.Client(base_url=watched.admin) as operator:
            running = callers.submit(caller.send, body)
            while operator.get("/admin/status").json()["requests"] == 0:
                time.sleep(0.01)
            answer = operator.post("/admin/drain")
            assert (answer.status_code, answer.json()) == (202, {"status": "draining"})
            shown = operator.get("/admin/status").json()
            assert (shown["state"], shown["requests"]) == ("draining", 1)
            assert running.result(60).status_code == 200
        assert watched.server.process.wait(20) == 0
    assert '"stopped"' in watched.server.log.read_text()
