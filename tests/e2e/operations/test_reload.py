"""The model of a real server process is exchanged while clients send requests."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.listening import listening
from tests.support.server_process import RunningServer, command, free_port, serving, wait_until_ready

BODY = {"q": "Good morning.", "source": "en", "target": "de"}
# Makes the model write until it may not any more: a request that takes longer than a model takes to load.
LONG = BODY | {"q": [f"The cat sees {n} birds." for n in range(100)], "beam_size": 4}
LONG |= {"min_decoding_length": 120, "max_decoding_length": 120}


@dataclass(frozen=True)
class Stage:
    """A server that serves what a symbolic link points to, and what has to be done to exchange that.

    Attributes:
        server: the process.
        admin_port: of it.
        shipped: the bundle that all others are copies of.
        link: what the server was told to serve.
    """

    server: RunningServer
    admin_port: int
    shipped: Path
    link: Path

    def install(self, version: str, damage: Callable[[Path], object] | None = None) -> None:
        """Put a new bundle in the place of the old one, all at once."""
        install(self.shipped, self.link, version, damage)

    def reload(self) -> subprocess.CompletedProcess[str]:
        """Run `dragoman reload`."""
        return subprocess.run(
            command("reload", "--admin-port", self.admin_port), capture_output=True, text=True, timeout=120
        )

    def post_reload(self) -> httpx.Response:
        return httpx.post(f"http://127.0.0.1:{self.admin_port}/admin/reload", timeout=120)

    @property
    def version(self) -> str:
        (model,) = httpx.get(f"{self.server.url}/models", timeout=20).json()["models"]
        return str(model["version"])

    def translate(self, body: dict[str, Any] = BODY) -> httpx.Response:
        return httpx.post(f"{self.server.url}/translate", json=body, timeout=60)

    def metric(self, series: str) -> float:
        for line in httpx.get(f"{self.server.url}/metrics", timeout=20).text.splitlines():
            if line.startswith(series + " "):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no series {series}")

    def reloads(self, outcome: str) -> float:
        return self.metric(f'dragoman_reloads_total{{outcome="{outcome}"}}')

    def logged(self, message: str) -> list[dict[str, Any]]:
        lines = self.server.log.read_text(encoding="utf-8").splitlines()
        return [fields for fields in map(json.loads, lines) if fields["msg"].startswith(message)]


def install(shipped: Path, link: Path, version: str, damage: Callable[[Path], object] | None = None) -> None:
    bundle = link.with_name(f"bundle-{version}")
    shutil.copytree(shipped, bundle)
    manifest = bundle / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": version}))
    if damage is not None:
        damage(bundle)
    aside = link.with_name("aside")
    aside.symlink_to(bundle.name)
    aside.replace(link)


def wait_for(holds: Callable[[], bool], timeout_s: float = 30.0) -> None:
    give_up_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.02)


def sent_after(answers: list[tuple[float, int, str]], since_s: float) -> list[tuple[float, int, str]]:
    return [answer for answer in answers if answer[0] > since_s]


@pytest.fixture(scope="module")
def stage(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory, shipped, port = tmp_path_factory.mktemp("stage"), repository / "bundles/en-de", free_port()
    link = directory / "current"
    install(shipped, link, "first")
    with serving(link, directory / "log", admin_port=port, max_texts=100) as server:
        yield Stage(server, port, shipped, link)


def test_under_load_no_request_fails_and_each_is_translated_by_one_of_the_two(
    stage: Stage, tiny_bundle: Path
) -> None:
    """Two models that do not write the same; after a reload has returned, only the new one does."""
    stop = threading.Event()
    answers: list[tuple[float, int, str]] = []  # when it was asked for, status, body

    def send() -> None:
        with httpx.Client(base_url=stage.server.url, timeout=60) as client:
            while not stop.is_set():
                sent_s = time.monotonic()
                answer = client.post("/translate", json=BODY)
                answers.append((sent_s, answer.status_code, answer.text))

    texts = [stage.translate().text]
    with ThreadPoolExecutor(3) as clients:
        sending = [clients.submit(send) for _ in range(3)]
        try:
            for version, bundle in (("2", tiny_bundle), ("3", stage.shipped), ("4", tiny_bundle)):
                install(bundle, stage.link, version)
                done = stage.reload()
                swapped_s = time.monotonic()
                assert (done.returncode, done.stderr) == (0, "")
                said = rf"serving \S+ {version} \(\w{{12}}\), loaded in [\d.]+ s\n"
                assert re.fullmatch(said, done.stdout)
                assert stage.version == version
                texts.append(stage.translate().text)
                wait_for(lambda since_s=swapped_s: len(sent_after(answers, since_s)) >= 10)
                assert {text for _, _, text in sent_after(answers, swapped_s)} == {texts[-1]}
        finally:
            stop.set()
        for client in sending:
            client.result(60)
    assert texts[0] == texts[2] != texts[1] == texts[3]
    assert {code for _, code, _ in answers} == {200}
    assert {text for _, _, text in answers} == set(texts)
    assert (stage.reloads("success"), stage.reloads("refused"), stage.reloads("failed")) == (3, 0, 0)
    assert stage.metric("dragoman_queue_sentences") == 0


def test_a_request_under_way_finishes_with_the_old_model(stage: Stage) -> None:
    stage.install("fifth")
    with ThreadPoolExecutor(2) as callers:
        running = callers.submit(stage.translate, LONG)
        wait_for(lambda: stage.metric('dragoman_decode_slots{state="busy"}') > 0)
        reloading = callers.submit(stage.post_reload)
        wait_for(lambda: stage.version == "fifth")
        assert not running.done()
        assert not reloading.done()
        assert stage.translate().status_code == 200
        answer = running.result(60)
        assert answer.status_code == 200
        assert len(answer.json()["translatedText"]) == len(LONG["q"])
        assert reloading.result(60).json()["bundles"][0]["version"] == "fifth"
    wait_for(lambda: stage.metric('dragoman_decode_slots{state="busy"}') == 0)
    assert stage.metric('dragoman_sentences_finished_total{reason="cancelled"}') == 0


def flip_a_bit(bundle: Path) -> str:
    file = next(bundle.glob("*.weights"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    return f"{file.name}: SHA-256 differs"


def other_golden_sentence(bundle: Path) -> str:
    file = bundle / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["golden"][0]["target_ids"][0] ^= 1
    file.write_text(json.dumps(manifest))
    return "manifest.json: golden sentence 1 is not translated as the bundle says"


def take_tokenizer_away(bundle: Path) -> str:
    (bundle / "source.spm").unlink()
    return "source.spm: is missing"


def take_all_away(bundle: Path) -> str:
    shutil.rmtree(bundle)
    return "no such bundle directory"


@pytest.mark.parametrize("damage", [flip_a_bit, other_golden_sentence, take_tokenizer_away, take_all_away])
def test_a_bad_bundle_leaves_the_old_one_serving_and_says_why(
    stage: Stage, damage: Callable[[Path], str]
) -> None:
    version, translation, refused = stage.version, stage.translate().json(), stage.reloads("refused")
    said: list[str] = []
    stage.install(damage.__name__, lambda bundle: said.append(damage(bundle)))
    done = stage.reload()
    assert done.returncode == 3
    assert done.stderr.startswith("dragoman reload: ")
    assert said[0] in done.stderr
    assert done.stderr.endswith("(the old model goes on serving)\n")
    assert done.stderr.count("\n") == 1
    assert (stage.version, stage.translate().json()) == (version, translation)
    assert stage.reloads("refused") == refused + 1
    assert said[0] in stage.logged("the bundle is refused")[-1]["msg"]
    answer = stage.post_reload()
    assert (answer.status_code, answer.json()["code"]) == (422, "bundle_refused")


def test_sighup_does_the_same(stage: Stage) -> None:
    stage.install("sixth")
    stage.server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: stage.version == "sixth")
    stage.install("seventh", flip_a_bit)
    refused = stage.reloads("refused")
    wait_for(lambda: len(stage.logged("the old model is gone")) == len(stage.logged("reloaded")))
    stage.server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: stage.reloads("refused") == refused + 1)
    assert stage.version == "sixth"
    assert stage.translate().status_code == 200


def test_sighup_during_a_reload_changes_nothing(stage: Stage) -> None:
    stage.install("ninth")
    begun = len(stage.logged("reloading"))
    with ThreadPoolExecutor(1) as operators:
        reloading = operators.submit(stage.post_reload)
        wait_for(lambda: len(stage.logged("reloading")) > begun)
        stage.server.process.send_signal(signal.SIGHUP)
        assert reloading.result(60).status_code == 200
    (line,) = stage.logged("SIGHUP changes nothing")
    assert line["msg"].endswith("another reload has not ended yet")


def test_of_several_at_once_one_is_done(stage: Stage) -> None:
    stage.install("eighth")
    before = stage.reloads("success")
    with ThreadPoolExecutor(4) as operators:
        answers = list(operators.map(lambda _: stage.post_reload(), range(4)))
    codes = [answer.status_code for answer in answers]
    assert codes.count(200) == stage.reloads("success") - before >= 1
    assert {answer.json().get("code") for answer in answers} == {None, "reload_in_progress"}
    assert set(codes) == {200, 409}


def test_the_memory_of_replaced_models_is_freed(stage: Stage) -> None:
    process = psutil.Process(stage.server.process.pid)
    for _ in range(2):
        assert stage.post_reload().status_code == 200
    before = process.memory_info().rss
    for _ in range(5):
        assert stage.post_reload().status_code == 200
    assert process.memory_info().rss - before < 30 << 20  # kept, each would take 37 MB
    assert process.num_threads() < 20


def test_a_reload_does_not_hold_up_the_end(stage: Stage) -> None:
    """The last test of this server."""
    with ThreadPoolExecutor(1) as operators:
        operators.submit(stage.post_reload)
        wait_for(lambda: stage.logged("reloading") != [])
        started_s = time.monotonic()
        assert stage.server.stop() == 0
        assert time.monotonic() - started_s < 8
    assert "Traceback" not in stage.server.log.read_text(encoding="utf-8")


def test_a_server_on_a_terminal_ends_with_it(repository: Path) -> None:
    ours, terminal = pty.openpty()
    port = free_port()
    process = subprocess.Popen(
        command("serve", repository / "bundles/en-de", "--port", port),
        stdin=terminal,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until_ready(f"http://127.0.0.1:{port}", process)
        process.send_signal(signal.SIGHUP)
        assert process.wait(20) == -signal.SIGHUP
    finally:
        process.kill()
        os.close(ours)
        os.close(terminal)


def ended(*arguments: object, **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        command("reload", *arguments),
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_the_command_says_when_there_is_nobody_to_ask() -> None:
    code, said = ended()
    assert (code, said.count("\n")) == (2, 1)
    assert "--admin-port" in said
    code, said = ended(DRAGOMAN_ADMIN_PORT=str(free_port()))
    assert (code, said.count("\n")) == (1, 1)
    assert "Connection refused" in said


@pytest.mark.parametrize(
    ("status", "body"), [(404, b'{"message":"Not found"}'), (404, b'["no"]'), (200, b"{}"), (200, b"5")]
)
def test_another_program_is_not_taken_for_a_server(status: int, body: bytes) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with listening(HTTPServer(("127.0.0.1", 0), Other)) as other:
        code, said = ended("--admin-port", other.server_port)
    assert (code, said.count("\n")) == (1, 1)
    assert f"another program answers on 127.0.0.1 port {other.server_port} ({status})" in said
