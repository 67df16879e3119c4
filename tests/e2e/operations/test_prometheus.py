"""A real Prometheus that scrapes a real server under load answers every query of the dashboards and rules."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from server.service.clients.api_keys import ClientLimits, key_line
from tests.support.server_process import RunningServer, free_port, serving

pytestmark = pytest.mark.skipif(
    not shutil.which("prometheus") and "CI" not in os.environ, reason="prometheus is not installed"
)
VARIABLES = {"$__rate_interval": "10s", "$instance": ".*"}
TIMEOUT_S = 90.0
KEY = "dgm_key"


class Prometheus:
    """A Prometheus that runs; asked over HTTP."""

    def __init__(self, port: int) -> None:
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20)

    def get(self, path: str, **parameters: str) -> Any:
        answer = self._client.get(path, params=parameters).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def numbers(self, expression: str) -> list[float]:
        """What a query gives now; `[]` until there is something to give."""
        samples = self.get("/api/v1/query", query=expression)["result"]
        return [float(sample["value"][1]) for sample in samples]

    def is_up(self) -> bool:
        try:
            return self._client.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False


def wait_for(condition: Callable[[], Any]) -> None:
    give_up_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < give_up_s
        time.sleep(0.5)


@contextmanager
def prometheus(directory: Path, rules: Path, target: RunningServer) -> Iterator[Prometheus]:
    """Debian's, with our rules, looking at a server every second."""
    port = free_port()
    configuration = directory / "prometheus.yml"
    configuration.write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(rules)],
                "scrape_configs": [
                    {"job_name": "dragoman", "static_configs": [{"targets": [f"127.0.0.1:{target.port}"]}]}
                ],
            }
        )
    )
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={configuration}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ],
        stdout=(directory / "prometheus.log").open("w"),
        stderr=subprocess.STDOUT,
    )
    try:
        found = Prometheus(port)
        wait_for(found.is_up)
        yield found
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def load(server: RunningServer) -> Iterator[None]:
    """Clients that send old and new sentences, some of them together, some with a beam."""
    stop = threading.Event()

    def send(number: int) -> None:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            count = 0
            while not stop.is_set():
                count += 1
                texts = ["the cat sees a bird.", f"the old lamp {number} {count}.", "a cat."]
                body = {
                    "q": texts,
                    "source": "en",
                    "target": "de",
                    "api_key": KEY,
                    "beam_size": 1 + number % 2,
                }
                assert client.post("/translate", json=body).status_code == 200
                time.sleep(0.05)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.fixture(scope="module")
def scraped(
    tiny_bundle: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    directory = tmp_path_factory.mktemp("prometheus")
    keys = directory / "keys"
    keys.write_text(key_line("weblate", KEY, ClientLimits()))
    rules = repository / "deploy/prometheus/dragoman.rules.yml"
    with (
        serving(tiny_bundle, directory / "log", workers=2, api_keys_file=keys, cache_bytes=1 << 20) as server,
        prometheus(directory, rules, server) as found,
        load(server),
    ):
        wait_for(lambda: found.numbers('up{job="dragoman"}') == [1.0])
        yield found


def queries(repository: Path) -> dict[str, str]:
    """Every query of every panel, by the dashboard and the panel's name."""
    found = {}
    for file in sorted((repository / "deploy/grafana/dashboards").glob("*.json")):
        for panel in json.loads(file.read_text(encoding="utf-8"))["panels"]:
            for number, target in enumerate(panel.get("targets", [])):
                expression = target["expr"]
                for variable, value in VARIABLES.items():
                    expression = expression.replace(variable, value)
                found[f"{file.stem}: {panel['title']} {number}"] = expression
    return found


def test_every_panel_shows_numbers(scraped: Prometheus, repository: Path) -> None:
    missing = queries(repository)
    assert len(missing) > 50

    def ask() -> bool:
        for name in list(missing):
            numbers = scraped.numbers(missing[name])
            if numbers and all(number == number for number in numbers):  # NaN is of nothing
                del missing[name]
        return not missing

    give_up_s = time.monotonic() + TIMEOUT_S
    while not ask() and time.monotonic() < give_up_s:
        time.sleep(1)
    assert missing == {}


def test_panels_show_what_is_going_on(scraped: Prometheus, repository: Path) -> None:
    """Not only numbers, but ones that such a load has to give."""
    expected = {
        "service: Requests/s 0": lambda rate: 1 < rate < 1000,
        "service: Ready replicas 0": lambda count: count == 1,
        "service: Error ratio 0": lambda ratio: ratio == 0,
        "service: Cache hits 0": lambda ratio: 0.3 < ratio < 0.8,  # two of three sentences are old
        "engine: Batch occupancy 0": lambda ratio: 0 < ratio < 1,
        "models: Engines alive 0": lambda alive: alive == 1,
    }
    asked = queries(repository)
    for name, holds in expected.items():
        wait_for(lambda holds=holds, name=name: [holds(n) for n in scraped.numbers(asked[name])] == [True])  # type: ignore[misc]


def test_every_rule_is_evaluated_and_none_rings(scraped: Prometheus) -> None:
    def rules() -> list[dict[str, Any]]:
        groups = scraped.get("/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    wait_for(lambda: all(rule["health"] == "ok" for rule in rules()))
    assert len(rules()) > 30
    assert [
        rule["name"] for rule in rules() if rule["type"] == "alerting" and rule["state"] == "firing"
    ] == []
    recorded = [rule["name"] for rule in rules() if rule["type"] == "recording"]
    wait_for(lambda: all(scraped.numbers(name) for name in recorded))
