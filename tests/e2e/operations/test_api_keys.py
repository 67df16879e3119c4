"""API keys of a real server process, from the command that makes them to their exchange."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.server_process import RunningServer, command, serving

BODY = {"q": "the cat sees a bird.", "source": "en", "target": "de"}
PER_MINUTE = 30


@dataclass(frozen=True)
class Guarded:
    """A server with one key."""

    server: RunningServer
    file: Path
    key: str

    def post(self, key: str | None) -> httpx.Response:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.post(f"{self.server.url}/translate", json=BODY, headers=headers, timeout=30)


def make_key(*arguments: str) -> tuple[str, str]:
    """Run `dragoman api-key`; return the key and its line."""
    made = subprocess.run(
        command("api-key", *arguments), capture_output=True, text=True, check=True, timeout=60
    )
    return made.stderr.splitlines()[-1], made.stdout


def wait_for(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.1)


@pytest.fixture(scope="module")
def guarded(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("server")
    key, line = make_key("weblate", "--requests-per-minute", str(PER_MINUTE))
    (directory / "keys").write_text(line)
    with serving(tiny_bundle, directory / "log", api_keys_file=directory / "keys") as server:
        yield Guarded(server, directory / "keys", key)


def test_the_answer_depends_on_the_key(guarded: Guarded) -> None:
    answers = [guarded.post(key) for key in (None, "dgm_guess", guarded.key)]
    assert [answer.status_code for answer in answers] == [401, 403, 200]
    assert [answer.json().get("code") for answer in answers] == ["missing_key", "bad_key", None]
    for path in ("/livez", "/readyz", "/health", "/metrics", "/languages"):
        assert httpx.get(guarded.server.url + path, timeout=10).status_code == 200


def test_a_client_that_waits_as_told_is_served(guarded: Guarded) -> None:
    with httpx.Client(base_url=guarded.server.url, timeout=30) as client:
        client.headers["Authorization"] = f"Bearer {guarded.key}"
        codes = []
        while not codes or codes[-1] == 200:
            answer = client.post("/translate", json=BODY)
            codes.append(answer.status_code)
            assert len(codes) < 10 * PER_MINUTE
        assert answer.json()["code"] == "rate_limited"
        assert len(codes) >= PER_MINUTE
        time.sleep(int(answer.headers["retry-after"]))
        assert client.post("/translate", json=BODY).status_code == 200


def test_keys_are_exchanged_without_a_restart(guarded: Guarded) -> None:
    key, line = make_key("mastodon")
    assert guarded.post(key).status_code == 403
    with guarded.file.open("a") as file:
        file.write(line)
    wait_for(lambda: guarded.post(key).status_code == 200)
    assert guarded.post(guarded.key).status_code in (200, 429)
    guarded.file.write_text("a broken line\n")
    wait_for(lambda: "stay as they were" in guarded.server.log.read_text())
    assert guarded.post(key).status_code == 200
    aside = guarded.file.with_name("aside")
    aside.write_text(line)
    os.replace(aside, guarded.file)
    wait_for(lambda: guarded.post(guarded.key).status_code == 403)
    assert guarded.post(key).status_code == 200
    log = guarded.server.log.read_text()
    assert key not in log
    assert guarded.key not in log
    names = {json.loads(line).get("key") for line in log.splitlines()}
    assert names == {"weblate", "mastodon", None}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("weblate not-a-hash\n", "keys line 1: after the name comes"),
        (None, "cannot read"),
        ("", "has no keys"),
    ],
)
def test_a_bad_file_is_named_before_anything_is_loaded(
    tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_text(content)
    ended = subprocess.run(
        command("serve", tmp_path / "no-bundle", "--api-keys", file),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("dragoman serve: setting api_keys_file: ")
    assert said in ended.stderr
    assert "not-a-hash" not in ended.stderr
    assert ended.stderr.count("\n") == 1
