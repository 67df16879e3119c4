"""Worker processes that are killed while a real server is under load."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from server.cli.exit_codes import EXIT_WORKERS_LOST
from tests.support.server_process import STOP_TIMEOUT_S, RunningServer, serving, wait_for

CLIENTS = 16
BACK_S = 3.0


@pytest.fixture
def server(tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    monkeypatch.setenv("DRAGOMAN_ENGINE_PROCESSES", "true")
    with serving(tiny_bundle, tmp_path / "log", workers=2, cache_bytes=0) as server:
        yield server


def workers(server: RunningServer) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(server.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # one that has died since
            if child.name().startswith("dragoman-eng"):
                found.append(child)
    return found


class Load:
    """Clients that send one request after the other, and note when which answer came."""

    def __init__(self, server: RunningServer) -> None:
        self._url = f"{server.url}/translate"
        self._ends = threading.Event()
        self.answers: list[tuple[float, int]] = []

    def __enter__(self) -> "Load":
        self._callers = ThreadPoolExecutor(CLIENTS)
        self._sent = [self._callers.submit(self._client, number) for number in range(CLIENTS)]
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for each in self._sent:
            each.result(60)
        self._callers.shutdown()

    def between(self, first_s: float, last_s: float) -> int:
        return sum(first_s <= at_s < last_s for at_s, _ in list(self.answers))

    def _client(self, number: int) -> None:
        words = ("cat", "bird", "lamp", "flower", "city")
        with httpx.Client(timeout=60) as client:
            for count in range(100_000):
                if self._ends.is_set():
                    return
                text = f"the {words[(number + count) % 5]} sees a {words[count % 5]}."
                answer = client.post(self._url, json={"q": text, "source": "en", "target": "de"})
                self.answers.append((time.monotonic(), answer.status_code))


def test_a_killed_worker_is_replaced_nothing_is_lost_and_goodput_comes_back(server: RunningServer) -> None:
    with Load(server) as load:
        wait_for(lambda: len(load.answers) > 200, 60)
        time.sleep(1.0)
        victims = workers(server)
        assert len(victims) == 2
        killed_s = time.monotonic()
        os.kill(victims[0].pid, signal.SIGKILL)
        wait_for(lambda: len(workers(server)) == 2 and victims[0].pid not in {w.pid for w in workers(server)})
        replaced_s = time.monotonic() - killed_s
        time.sleep(max(0.0, killed_s + BACK_S + 1.0 - time.monotonic()))
        before = load.between(killed_s - 1.0, killed_s)
        after = load.between(killed_s + BACK_S, killed_s + BACK_S + 1.0)
    print(f"replaced after {replaced_s:.2f} s; {before} answers/s before, {after} after {BACK_S} s")
    assert replaced_s < 2.0
    assert {status for _, status in load.answers} == {200}
    assert after > before / 2
    assert server.metrics()['dragoman_engine_errors_total{kind="worker_lost"}'] == 1


def test_every_worker_may_be_killed_once(server: RunningServer) -> None:
    with Load(server) as load:
        wait_for(lambda: len(load.answers) > 100, 60)
        for victim in workers(server):
            os.kill(victim.pid, signal.SIGKILL)
        seen = len(load.answers)
        wait_for(lambda: len(load.answers) > seen + 200, 60)
    # A sentence that the first one had may be on the second one: it had two workers that died.
    codes = [status for _, status in load.answers]
    assert codes.count(500) <= 1
    assert codes.count(200) >= len(codes) - 1
    assert len(workers(server)) == 2


def test_a_server_whose_workers_die_again_and_again_ends_with_its_own_code(
    server: RunningServer,
) -> None:
    give_up_s = time.monotonic() + 30
    while server.process.poll() is None and time.monotonic() < give_up_s:
        for worker in workers(server):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
        time.sleep(0.05)
    assert server.process.wait(STOP_TIMEOUT_S) == EXIT_WORKERS_LOST
    assert server.log.read_text().splitlines()[-1].startswith("dragoman serve: the workers of a model died ")
