"""Promises that hold when the model misbehaves: the real process, around a model with a fault."""

import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from export.bundle import load_manifest
from model.tokenizer import Tokenizer
from server.cli.exit_codes import EXIT_WORKERS_LOST
from tests.support.server_process import RunningServer, serving, wait_for

FIELDS = {"source": "en", "target": "de"}
BODY = FIELDS | {"q": "the cat sees a bird."}
LONGEST = {"min_decoding_length": 120, "max_decoding_length": 120}
SLACK_S = 2.0  # for a busy machine


class Faulty:
    """A server and the switch of its fault."""

    def __init__(self, server: RunningServer, switch: Path) -> None:
        self.server, self._switch = server, switch
        # One for all: making a client reads certificates for 50 ms.
        self.client = httpx.Client(base_url=server.url, timeout=60, limits=httpx.Limits(max_connections=None))

    def on(self) -> None:
        self._switch.touch()

    def off(self) -> None:
        self._switch.unlink()

    def wait_until_blocked(self) -> None:
        """Wait for a run that waits: what is sent next stays in the queue."""
        entered = self._switch.with_suffix(".entered")
        wait_for(entered.exists)
        entered.unlink()

    def post(self, body: dict[str, Any] = BODY, **headers: str) -> httpx.Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post("/translate", json=body, headers=sent)

    def status(self, path: str) -> int:
        return self.client.get(path).status_code

    def metric(self, series: str) -> float:
        return self.server.metrics()[f"dragoman_{series}"]

    @property
    def running(self) -> float:
        return self.metric('decode_slots{state="busy"}')


@pytest.fixture(params=[False, True], ids=["threads", "processes"], autouse=True)
def engine_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the engine is a process of its own; every promise holds either way."""
    monkeypatch.setenv("DRAGOMAN_ENGINE_PROCESSES", str(request.param))
    return bool(request.param)


@contextmanager
def faulty(bundle: Path, directory: Path, kind: str, value: int = 0, **settings: object) -> Iterator[Faulty]:
    switch = directory / f"{kind}.on"
    with serving(
        bundle, directory / "log", ("tests.support.faulty_server", kind, switch, value), **settings
    ) as server:
        stage = Faulty(server, switch)
        with stage.client:
            yield stage


def token(bundle: Path, word: str) -> int:
    """The first token of a word that no other word of these tests has."""
    tokenizer = Tokenizer.load(*load_manifest(bundle).tokenizer.paths(bundle))
    return next(
        id for id in tokenizer.encode(word) if id not in tokenizer.encode("the cat sees a red bird and lamp.")
    )


def test_one_bad_sentence_fails_alone(tiny_bundle: Path, tmp_path: Path) -> None:
    """Eight requests decoded together, three of them poisonous; the others get what they get alone."""
    texts = [f"the {adjective} cat sees a bird." for adjective in ("red", "old", "small", "tired", "clever")]
    poisoned = "the flower sees a bird."
    with faulty(tiny_bundle, tmp_path, "poison", token(tiny_bundle, "flower")) as stage:
        alone = {text: stage.post(FIELDS | {"q": text}).json()["translatedText"] for text in texts}
        stage.on()
        batch = [poisoned, *texts[:2], poisoned, *texts[2:], poisoned]
        with ThreadPoolExecutor(8) as callers:
            answers = list(callers.map(lambda text: stage.post(FIELDS | {"q": text}), batch))
        for text, answer in zip(batch, answers, strict=True):
            if text == poisoned:
                assert (answer.status_code, answer.json()["code"]) == (500, "internal")
                assert "poison" not in answer.text
            else:
                assert answer.json() == {"translatedText": alone[text]}
        assert stage.metric('engine_errors_total{kind="poison"}') == 3
        assert {stage.post().status_code for _ in range(100)} == {200}


def test_beside_a_bad_sentence_an_array_fails_and_leaves_nothing_behind(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    with faulty(tiny_bundle, tmp_path, "poison", token(tiny_bundle, "flower")) as stage:
        stage.on()
        assert stage.post(FIELDS | {"q": ["the flower sees a bird.", *["the cat."] * 40]}).status_code == 500
        wait_for(lambda: stage.running == 0)
        assert stage.metric("queue_sentences") == 0


@pytest.fixture(scope="module")
def blocked(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    sizes = {"max_queue_sentences": 16, "max_rows": 1, "max_beam_size": 1}
    with faulty(tiny_bundle, tmp_path_factory.mktemp("blocked"), "blocked", **sizes) as stage:
        yield stage


@contextmanager
def engine_is_busy(stage: Faulty) -> Iterator[Future[httpx.Response]]:
    """While the block runs, the only worker is in a run that does not end."""
    with ThreadPoolExecutor(1) as callers:
        stage.on()
        try:
            first = callers.submit(stage.post)
            stage.wait_until_blocked()
            yield first
        finally:
            stage.off()
        assert first.result(30).status_code == 200


def test_a_full_queue_takes_what_fits_and_tells_the_others_at_once(blocked: Faulty) -> None:
    refused_s: list[float] = []

    def send(_: int) -> int:
        started_s = time.monotonic()
        answer = blocked.post()
        if answer.status_code == 429:
            refused_s.append(time.monotonic() - started_s)
            assert answer.json()["code"] == "queue_full"
            assert re.fullmatch(r"[1-9]\d*", answer.headers["retry-after"])
        return answer.status_code

    with ThreadPoolExecutor(40) as callers:
        with engine_is_busy(blocked):
            codes = [callers.submit(send, number) for number in range(40)]
            wait_for(lambda: len(refused_s) == 24)
            assert blocked.metric("queue_sentences") == 16
        assert sorted(code.result(30) for code in codes) == [200] * 16 + [429] * 24
    assert sorted(refused_s)[12] < 0.5
    assert blocked.metric("queue_sentences") == 0


def test_what_is_past_its_deadline_is_dropped_and_not_computed(blocked: Faulty) -> None:
    computed = blocked.metric('batch_tokens_total{kind="real"}')
    alone = len(BODY["q"].split())
    with engine_is_busy(blocked):
        started_s = time.monotonic()
        late = FIELDS | {"q": "every clever flower loves this small old lamp and the city today."}
        answer = blocked.post(late, X_Request_Timeout_Ms="200")
        assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")
        assert time.monotonic() - started_s < 0.45 + SLACK_S
    wait_for(lambda: blocked.metric("queue_sentences") == 0)
    tokens = blocked.metric('batch_tokens_total{kind="real"}') - computed
    assert alone <= tokens < 2 * alone + 4  # those of the request that was busy, and not one of the late one


def test_a_server_that_waits_for_its_engine_is_alive_and_ready(blocked: Faulty) -> None:
    with engine_is_busy(blocked):
        assert (blocked.status("/livez"), blocked.status("/readyz")) == (200, 200)


def test_clients_that_give_up_leave_no_work_behind(tiny_bundle: Path, tmp_path: Path) -> None:
    """200 of the longest requests, abandoned after half a second; then a short one is served at once."""
    body = json.dumps(BODY | LONGEST).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with faulty(tiny_bundle, tmp_path, "slow", value=20) as stage:
        stage.on()
        connections = [stage.server.connect() for _ in range(200)]
        for connection in connections:
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        wait_for(lambda: stage.metric("queue_sentences") + stage.running == 200)
        time.sleep(0.5)
        for connection in connections:
            connection.close()
        started_s = time.monotonic()
        assert stage.post(BODY | {"max_decoding_length": 2}).status_code == 200
        assert time.monotonic() - started_s < 2
        wait_for(lambda: stage.running == 0, 1 + SLACK_S)
        gone = 'client_disconnects_total{phase="%s"}'
        wait_for(lambda: sum(stage.metric(gone % phase) for phase in ("queued", "running")) == 200)
        assert stage.metric("http_requests_in_flight") == 1  # this one
        assert stage.metric('sentences_finished_total{reason="cancelled"}') == 200


def test_workers_that_crash_again_and_again_are_seen_at_once_and_nobody_hangs(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    with faulty(tiny_bundle, tmp_path, "crash") as stage:
        assert stage.post().status_code == 200
        stage.on()
        started_s = time.monotonic()
        with ThreadPoolExecutor(8) as callers:
            answers = list(callers.map(lambda _: stage.post(), range(8)))
        assert time.monotonic() - started_s < 3 + SLACK_S
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (503, "engine_dead")
            assert int(answer.headers["retry-after"]) >= 1
        started_s = time.monotonic()
        assert stage.server.process.wait(20) == EXIT_WORKERS_LOST
        assert time.monotonic() - started_s < 5
    assert "a worker crashes" in stage.server.log.read_text(encoding="utf-8")


def test_decoding_ends_without_an_end_token(tiny_bundle: Path, tmp_path: Path) -> None:
    manifest = load_manifest(tiny_bundle)
    with faulty(tiny_bundle, tmp_path, "endless", manifest.special_tokens.eos_id) as stage:
        assert stage.post(BODY | {"scores": True}).json()["finishReason"] == "eos"
        stage.on()
        for beam_size in (1, 4):
            before = stage.metric("target_tokens_total")
            answer = stage.post(BODY | {"beam_size": beam_size}).json()
            assert answer["finishReason"] == "length"
            written = stage.metric("target_tokens_total") - before
            assert 8 < written <= manifest.limits.max_target_tokens
            assert stage.post(BODY | {"beam_size": beam_size, "max_decoding_length": 9}).status_code == 200
            assert stage.metric("target_tokens_total") - before - written == 9
        wait_for(lambda: stage.running == 0)


def test_deadlines_do_not_look_at_the_wall_clock(tiny_bundle: Path, tmp_path: Path) -> None:
    with faulty(tiny_bundle, tmp_path, "clock") as stage:
        stage.on()
        for _ in range(30):
            assert stage.post().status_code == 200
            assert stage.status("/livez") == 200
        many = BODY | {"q": [f"the cat sees {n} birds." for n in range(60)]} | LONGEST
        assert stage.post(many, X_Request_Timeout_Ms="20").status_code == 504
        assert stage.metric('requests_rejected_total{reason="deadline",route="/translate"}') == 1
        lines = stage.server.log.read_text(encoding="utf-8").splitlines()
        hours = {json.loads(line)["ts"][11:13] for line in lines}
        assert len(hours) > 1  # the clock did jump


def test_sigterm_answers_all_that_runs_and_leaves_no_process(
    tiny_bundle: Path, tmp_path: Path, engine_processes: bool
) -> None:
    """With clients that stall in the middle of a body, and others that never send anything."""
    settings = {"drain_timeout_s": 10, "close_timeout_s": 1}
    with faulty(tiny_bundle, tmp_path, "slow", value=8, **settings) as stage:
        stage.on()
        children = psutil.Process(stage.server.process.pid).children(recursive=True)
        stalled = [stage.server.connect() for _ in range(100)]
        for connection in stalled[:50]:
            connection.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n{")
        with ThreadPoolExecutor(10) as callers, httpx.Client(base_url=stage.server.url) as probe:
            assert probe.get("/readyz").status_code == 200
            answers = [callers.submit(stage.post, BODY | LONGEST) for _ in range(10)]
            wait_for(lambda: stage.running == 10)
            stage.server.process.terminate()
            started_s = time.monotonic()
            wait_for(lambda: probe.get("/readyz").status_code == 503, 0.1 + SLACK_S)
            assert {answer.result(30).status_code for answer in answers} == {200}
            assert stage.server.process.wait(20) == 0
        assert time.monotonic() - started_s < 1 + 3 + SLACK_S
        assert (
            len(children) == 3 * engine_processes
        )  # the one that all are forked from, the model's, the worker's
        wait_for(lambda: not any(child.is_running() for child in children), SLACK_S)  # until init has seen it
        for connection in stalled:
            connection.close()


@pytest.mark.slow
def test_a_drain_gives_up_what_takes_too_long(tiny_bundle: Path, tmp_path: Path) -> None:
    with faulty(tiny_bundle, tmp_path, "blocked", drain_timeout_s=1, close_timeout_s=1) as stage:
        stage.on()
        outcome: list[object] = []

        def send() -> None:
            try:
                outcome.append(stage.post().status_code)
            except httpx.HTTPError as error:
                outcome.append(error)

        caller = threading.Thread(target=send)
        caller.start()
        stage.wait_until_blocked()
        started_s = time.monotonic()
        stage.server.process.terminate()
        stage.server.process.wait(20)
        # The drain, closing connections, and 5 s for a run that cannot be ended.
        assert time.monotonic() - started_s < 1 + 1 + 5 + SLACK_S
        caller.join(20)
        assert outcome == [503]
    log = stage.server.log.read_text(encoding="utf-8")
    assert "requests still running after 1.0 s are dropped" in log
    assert "Traceback" not in log
