"""The image and the compose file, on a real engine: `make containers`.

Needs a container engine with compose, and the image; skipped unless `DRAGOMAN_TEST_CONTAINERS=1`.
"""

import itertools
import json
import os
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = [
    pytest.mark.container,
    pytest.mark.skipif(
        os.environ.get("DRAGOMAN_TEST_CONTAINERS") != "1", reason="DRAGOMAN_TEST_CONTAINERS is not 1"
    ),
]

DOCKER = shlex.split(os.environ.get("DOCKER", "docker"))
COMPOSE = shlex.split(os.environ.get("COMPOSE", "docker compose"))
TIMEOUT_S = 90.0
SENTENCES = (
    "Where is the train station?",
    "The weather is nice today.",
    "I would like a cup of tea.",
    "Thank you.",
)
NOUNS = ("cat", "dog", "bird", "house", "car", "tree", "book", "lamp")  # in any order
# Grafana's variables, as it would fill them in.
VARIABLES = {"$__rate_interval": "1m", "$instance": ".*"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def output(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def eventually(check: Callable[[], bool], what: str) -> None:
    """Wait until `check` holds; a container that is coming up refuses connections."""
    give_up_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < give_up_s:
        try:
            if check():
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    pytest.fail(f"not within {TIMEOUT_S:.0f} s: {what}")


class Stack:
    """The server and Prometheus, brought up by compose under a name and on ports of their own."""

    def __init__(self, root: Path, name: str = "test", further_ports: int = 0) -> None:
        ports = free_port(), free_port(), free_port()
        self.url, self.prometheus, self.nginx = (f"http://127.0.0.1:{port}" for port in ports)
        self._root = root
        published = f"{ports[0]}-{ports[0] + further_ports}" if further_ports else str(ports[0])
        self._environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": f"dragoman-{name}-{os.getpid()}",
            "DRAGOMAN_PUBLISHED_PORT": published,
            "PROMETHEUS_PUBLISHED_PORT": str(ports[1]),
            "NGINX_PUBLISHED_PORT": str(ports[2]),
        }

    def compose(self, *arguments: str) -> str:
        done = subprocess.run(
            [*COMPOSE, *arguments],
            cwd=self._root,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    @property
    def container(self) -> str:
        return self.container_of("dragoman")

    def container_of(self, service: str) -> str:
        return self.compose("ps", "-q", service)

    def inspect(self, service: str = "dragoman") -> dict[str, Any]:
        (found,) = json.loads(output(*DOCKER, "inspect", self.container_of(service)))
        return dict(found)

    def execute(self, code: str) -> str:
        """Run Python inside the server's container."""
        return output(*DOCKER, "exec", self.container, "python", "-c", code, check=False)

    def translate(self, text: str | list[str], **options: int | str) -> Any:
        fields = {"q": text, "source": "en", "target": "de", **options}
        answer = httpx.post(f"{self.url}/translate", json=fields, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()["translatedText"]

    def scrape(self) -> str:
        return httpx.get(f"{self.url}/metrics", timeout=10).text

    def query(self, expression: str) -> list[dict[str, Any]]:
        answer = httpx.get(f"{self.prometheus}/api/v1/query", params={"query": expression}, timeout=10).json()
        assert answer["status"] == "success", answer
        return list(answer["data"]["result"])


@pytest.fixture(scope="module")
def stack(repository: Path) -> Iterator[Stack]:
    stack = Stack(repository)
    try:
        stack.compose("up", "-d", "--no-build", "dragoman", "prometheus", "nginx")
        eventually(lambda: httpx.get(f"{stack.url}/readyz").status_code == 200, "the server is ready")
        eventually(lambda: httpx.get(f"{stack.nginx}/languages").status_code == 200, "nginx reaches it")
        yield stack
    finally:
        print(stack.compose("logs", "--tail", "10", "dragoman"))  # shown if a test fails
        stack.compose("down", "--volumes")


def test_translates(stack: Stack) -> None:
    assert stack.translate(SENTENCES[0])
    assert len(stack.translate(list(SENTENCES))) == len(SENTENCES)


def test_the_engine_sees_it_healthy(stack: Stack) -> None:
    eventually(lambda: stack.inspect()["State"]["Health"]["Status"] == "healthy", "the health check passes")


@pytest.mark.parametrize("service", ["dragoman", "nginx"])
def test_has_no_rights(stack: Stack, service: str) -> None:
    inspected = stack.inspect(service)
    assert inspected["Config"]["User"] == "10001:10001"
    assert inspected["HostConfig"]["ReadonlyRootfs"] is True
    assert inspected["HostConfig"]["CapDrop"] == ["ALL"]
    assert inspected["HostConfig"]["SecurityOpt"] == ["no-new-privileges:true"]
    assert inspected["HostConfig"]["PidsLimit"] <= 256
    (published,) = inspected["HostConfig"]["PortBindings"].values()
    assert [binding["HostIp"] for binding in published] == ["127.0.0.1"]


def test_clients_come_through_nginx(stack: Stack) -> None:
    """What nginx does in detail is in `tests/e2e/wire/test_nginx.py`; here it is the container's."""
    fields = {"q": SENTENCES[0], "source": "en", "target": "de"}
    through = httpx.post(f"{stack.nginx}/translate", json=fields, timeout=30)
    assert (through.status_code, through.json()["translatedText"]) == (200, stack.translate(SENTENCES[0]))
    for path in ("/metrics", "/readyz"):
        assert httpx.get(f"{stack.nginx}{path}").json()["code"] == "not_found"
    large = httpx.post(f"{stack.nginx}/translate", content=b" " * (2 << 20))
    assert (large.status_code, large.json()["code"]) == (413, "body_too_large")
    almost = httpx.post(f"{stack.nginx}/translate", json=fields | {"x": "y" * 900_000}, timeout=30)
    assert almost.status_code == 200


def test_runs_without_rights(stack: Stack) -> None:
    inspected = stack.inspect()
    assert inspected["Config"]["User"] == "10001:10001"
    assert inspected["HostConfig"]["ReadonlyRootfs"] is True
    assert inspected["HostConfig"]["CapDrop"] == ["ALL"]
    assert stack.execute("import os; print(os.getuid())").strip() == "10001"
    assert "Read-only file system" in stack.execute("open('/bundles/en-de/new', 'w')")


@pytest.mark.parametrize("module", ["torch", "onnx", "pip", "setuptools", "ensurepip"])
def test_holds_only_what_serving_needs(stack: Stack, module: str) -> None:
    assert "ModuleNotFoundError" in stack.execute(f"import {module}")


def test_serves_with_a_full_disk(stack: Stack) -> None:
    stack.execute("open('/tmp/full', 'wb').write(bytes(64 << 20))")
    try:
        assert stack.translate(SENTENCES[1])
    finally:
        stack.execute("import os; os.unlink('/tmp/full')")


def test_prometheus_scrapes_it(stack: Stack) -> None:
    eventually(
        lambda: [sample["value"][1] for sample in stack.query('up{job="dragoman"}')] == ["1"],
        "the target is up",
    )
    groups = httpx.get(f"{stack.prometheus}/api/v1/rules").json()["data"]["groups"]
    assert sum(len(group["rules"]) for group in groups) >= 8


def test_every_panel_shows_data(stack: Stack, repository: Path) -> None:
    """Some seconds of traffic, then every query of the dashboards gives numbers.

    The stack serves without API keys; `tests/test_dashboards.py` asks what is about them.
    """
    expressions = [
        target["expr"]
        for path in (repository / "deploy/grafana/dashboards").glob("*.json")
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]
        for target in panel.get("targets", [])
    ]
    for variable, value in VARIABLES.items():
        expressions = [expression.replace(variable, value) for expression in expressions]
    of_keys = [expression for expression in expressions if "dragoman_key_" in expression]
    assert of_keys
    expressions = [expression for expression in expressions if expression not in of_keys]
    stop = threading.Event()

    things = itertools.cycle(itertools.permutations(NOUNS))

    def send() -> None:
        while not stop.is_set():
            # Old ones, which the sentence cache has, and new ones, which the engine has to decode.
            stack.translate([*SENTENCES, f"I see the {', the '.join(next(things))} again."])

    clients = [threading.Thread(target=send) for _ in range(4)]
    for client in clients:
        client.start()
    missing = expressions
    try:
        give_up_s = time.monotonic() + TIMEOUT_S
        while missing and time.monotonic() < give_up_s:
            time.sleep(5)
            missing = [expression for expression in missing if not shows_data(stack.query(expression))]
    finally:
        stop.set()
        for client in clients:
            client.join()
    assert missing == []


def shows_data(samples: list[dict[str, Any]]) -> bool:
    return bool(samples) and all(sample["value"][1] != "NaN" for sample in samples)


def test_stops_after_finishing_its_work(stack: Stack) -> None:
    """Comes last: `compose stop` sends SIGTERM; what was accepted is answered, and the exit is clean."""
    texts = [f"{SENTENCES[1]} It is {hour} degrees. {SENTENCES[2]}" for hour in range(200)]
    # Seconds of work, because compose takes its time to send the signal.
    slow: dict[str, int | str] = {"beam_size": 4, "min_decoding_length": 120, "max_decoding_length": 120}
    slow["guard"] = (
        "off"  # what is made this long repeats itself, and mending it would take longer than the drain
    )
    answers: list[Any] = []
    client = threading.Thread(target=lambda: answers.append(stack.translate(texts, **slow)))
    container = stack.container
    client.start()
    eventually(
        lambda: "dragoman_http_requests_in_flight 2.0" in stack.scrape(), "the request is being handled"
    )
    started_s = time.monotonic()
    stack.compose("stop", "dragoman")
    client.join()
    assert [len(answer) for answer in answers] == [200]
    assert time.monotonic() - started_s < 35
    log = output(*DOCKER, "logs", container)
    assert (
        log.index('"msg": "draining"') < log.rindex('"route": "/translate"') < log.index('"msg": "stopped"')
    )
    (inspected,) = json.loads(output(*DOCKER, "inspect", container))
    assert inspected["State"]["ExitCode"] == 0


def test_replicas_share_the_work_and_are_scraped_each(repository: Path) -> None:
    stack = Stack(repository, "replicas", further_ports=3)
    try:
        stack.compose("up", "-d", "--no-build", "--scale", "dragoman=2", "dragoman", "prometheus", "nginx")
        eventually(lambda: len(stack.query('dragoman_ready{job="dragoman"} == 1')) == 2, "both are ready")
        fields = {"q": SENTENCES[0], "source": "en", "target": "de"}
        for _ in range(10):
            assert httpx.post(f"{stack.nginx}/translate", json=fields, timeout=30).status_code == 200
        served = 'dragoman_http_requests_total{route="/translate",code="200"} > 0'
        eventually(lambda: len(stack.query(served)) == 2, "nginx gives work to both")
    finally:
        stack.compose("down", "--volumes")
