"""Start, overload and end of a real server process."""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.app import create_app
from server.settings import Settings
from tests.server.live_app import serving as in_this_process
from tests.support.server_process import RunningServer, command, free_port, serving, wait_for

BODY = {"q": "the cat sees a bird.", "source": "en", "target": "de"}
# Makes the tiny model write until it may not any more: a request that takes a while.
LONG = {"q": [f"the cat sees {n} birds." for n in range(30)], "source": "en", "target": "de", "beam_size": 4}
LONG |= {"min_decoding_length": 120, "max_decoding_length": 120}


def post(server: RunningServer, body: dict[str, Any], timeout_s: float = 60.0) -> httpx.Response:
    return httpx.post(f"{server.url}/translate", json=body, timeout=timeout_s)


def metric(server: RunningServer, series: str) -> float:
    for line in httpx.get(f"{server.url}/metrics", timeout=20).text.splitlines():
        if line.startswith(series + " "):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no series {series}")


def refused_start(*arguments: object, **variables: str) -> tuple[int, str]:
    """Run `dragoman serve` that must end by itself; return its code and what it says."""
    ended = subprocess.run(
        command("serve", *arguments), capture_output=True, text=True, timeout=60, env=os.environ | variables
    )
    return ended.returncode, ended.stderr


@pytest.fixture(scope="module")
def small_server(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    log = tmp_path_factory.mktemp("server") / "log"
    with serving(tiny_bundle, log, max_rows=8, max_queue_sentences=64) as server:
        yield server


def damage_last_byte(bundle: Path) -> str:
    file = next(bundle.glob("*.weights"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    return file.name


def cut_in_half(bundle: Path) -> str:
    file = bundle / "encoder.onnx"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    return file.name


def take_tokenizer_away(bundle: Path) -> str:
    (bundle / "source.spm").unlink()
    return "source.spm"


def take_manifest_away(bundle: Path) -> str:
    (bundle / "manifest.json").unlink()
    return "manifest.json"


def another_format(bundle: Path) -> str:
    file = bundle / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format_version": 2}))
    return file.name


def other_golden_sentence(bundle: Path) -> str:
    file = bundle / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["golden"][0]["target_ids"][0] ^= 1
    file.write_text(json.dumps(manifest))
    return file.name


@pytest.mark.parametrize(
    "damage",
    [
        damage_last_byte,
        cut_in_half,
        take_tokenizer_away,
        take_manifest_away,
        another_format,
        other_golden_sentence,
    ],
)
def test_a_bad_bundle_is_refused_with_one_line_and_code_3(
    tiny_bundle: Path, tmp_path: Path, damage: Callable[[Path], str]
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(tiny_bundle, bundle)
    file = damage(bundle)
    code, said = refused_start(bundle, "--port", free_port())
    assert code == 3
    assert said.startswith(f"dragoman serve: cannot load bundle {bundle}: {file}: ")
    assert said.count("\n") == 1


def test_a_directory_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    code, said = refused_start(tmp_path / "nothing")
    assert (code, said.count("\n")) == (3, 1)
    assert "no such bundle directory" in said


def test_a_port_that_is_taken_is_named(tiny_bundle: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused_start(tiny_bundle, "--port", port)
    assert code == 1
    assert said == f"dragoman serve: cannot listen on 127.0.0.1 port {port}: Address already in use\n"


def test_a_bad_setting_is_named(tiny_bundle: Path) -> None:
    code, said = refused_start(tiny_bundle, DRAGOMAN_MAX_ROWS="many")
    assert code == 2
    assert said.startswith("dragoman serve: setting max_rows: ")
    assert said.count("\n") == 1


def test_a_bound_that_holds_no_request_is_named_with_its_remedy(repository: Path) -> None:
    code, said = refused_start(repository / "bundles" / "en-de", "--max-kv-cache-mib", 1)
    assert code == 2
    assert said.startswith(
        "dragoman serve: setting max_kv_cache_mib: 1 MiB cannot hold the caches of one sentence"
    )
    assert "raise it to " in said
    assert said.count("\n") == 1


def test_a_small_bound_means_fewer_rows_unless_they_are_given(repository: Path, tmp_path: Path) -> None:
    bundle = repository / "bundles" / "en-de"
    with serving(bundle, tmp_path / "log", max_kv_cache_mib=3) as server:
        assert server.metrics()["dragoman_batch_max_sentences"] == 8
    code, said = refused_start(bundle, "--max-kv-cache-mib", 3, "--max-rows", 16)
    assert code == 2
    assert "with max_rows 16, " in said


def test_without_a_model_the_application_loads_its_bundle(tiny_bundle: Path) -> None:
    """As `uvicorn --factory` and Ray Serve use it."""
    settings = Settings(bundle=tiny_bundle, workers=1, close_timeout_s=1)
    with in_this_process(create_app(settings), settings) as client:
        assert client.post("/translate", json=BODY).json() == {
            "translatedText": "die Katze sieht eine Amsel."
        }


def test_a_full_queue_refuses_at_once_and_recovers(small_server: RunningServer) -> None:
    with ThreadPoolExecutor(12) as callers:
        answers = list(callers.map(lambda _: post(small_server, LONG), range(12)))
    codes = sorted(answer.status_code for answer in answers)
    assert set(codes) == {200, 429}
    for answer in answers:
        if answer.status_code == 429:
            assert answer.json()["code"] == "queue_full"
            assert int(answer.headers["retry-after"]) >= 1
    assert post(small_server, BODY).status_code == 200
    assert metric(small_server, "dragoman_queue_sentences") == 0
    assert metric(small_server, 'dragoman_decode_slots{state="busy"}') == 0
    refused = 'dragoman_requests_rejected_total{reason="queue_full",route="/translate"}'
    wait_for(lambda: metric(small_server, refused) == codes.count(429))


def test_clients_that_go_away_free_their_rows(small_server: RunningServer) -> None:
    body = json.dumps(LONG).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    connections = []
    for _ in range(2):
        connection = small_server.connect()
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        connections.append(connection)
    wait_for(lambda: metric(small_server, 'dragoman_decode_slots{state="busy"}') > 0)
    for connection in connections:
        connection.close()
    started_s = time.monotonic()
    assert post(small_server, BODY, timeout_s=5).status_code == 200
    assert time.monotonic() - started_s < 5
    wait_for(lambda: metric(small_server, 'dragoman_decode_slots{state="busy"}') == 0, 5)
    wait_for(lambda: metric(small_server, 'dragoman_sentences_finished_total{reason="cancelled"}') > 0, 5)
    phases = [f'dragoman_client_disconnects_total{{phase="{phase}"}}' for phase in ("queued", "running")]
    assert sum(metric(small_server, phase) for phase in phases) == 2
    assert metric(small_server, phases[1]) >= 1


def test_a_deadline_ends_a_request(small_server: RunningServer) -> None:
    response = httpx.post(
        f"{small_server.url}/translate", json=LONG, timeout=20, headers={"X-Request-Timeout-Ms": "20"}
    )
    assert (response.status_code, response.json()["code"]) == (504, "deadline_exceeded")
    wait_for(lambda: metric(small_server, 'dragoman_decode_slots{state="busy"}') == 0)


def test_decoding_always_ends(small_server: RunningServer) -> None:
    answer = post(small_server, BODY | {"min_decoding_length": 60, "max_decoding_length": 60}).json()
    assert answer["finishReason"] == "length"
    assert post(small_server, BODY | {"max_decoding_length": 2}).json()["finishReason"] == "length"
    assert post(small_server, BODY | {"scores": True}).json()["finishReason"] == "eos"


def test_health_answers_while_the_engine_is_busy(small_server: RunningServer) -> None:
    with ThreadPoolExecutor(4) as callers:
        load = [callers.submit(post, small_server, LONG) for _ in range(4)]
        slowest_s = 0.0
        while not all(call.done() for call in load):
            started_s = time.monotonic()
            assert httpx.get(f"{small_server.url}/livez", timeout=10).status_code == 200
            slowest_s = max(slowest_s, time.monotonic() - started_s)
    assert slowest_s < 2


def test_sigterm_is_bounded_under_clients_that_stall(tiny_bundle: Path, tmp_path: Path) -> None:
    with serving(tiny_bundle, tmp_path / "log", drain_timeout_s=3, close_timeout_s=1) as server:
        stalled = [server.connect() for _ in range(40)]
        for connection in stalled[:20]:
            connection.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n{")
        answers: list[int] = []
        callers = [
            threading.Thread(target=lambda: answers.append(post(server, BODY).status_code)) for _ in range(5)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        started_s = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started_s < 8
        assert answers == [200] * 5
        for connection in stalled:
            connection.close()


def test_sigterm_while_loading_ends_at_once(tiny_bundle: Path) -> None:
    process = subprocess.Popen(
        command("serve", tiny_bundle, "--port", free_port()), stdout=subprocess.DEVNULL
    )
    time.sleep(0.3)
    process.terminate()
    assert process.wait(10) != 0


def outcome_on_a_connection_of_its_own(server: RunningServer) -> str:
    """Send one request as simple clients do; gives its status, `refused` before it or `lost` after."""
    try:
        connection = server.connect()
    except ConnectionRefusedError:
        return "refused"
    except ConnectionResetError:
        return "lost"
    return outcome_on(connection)


def outcome_on(connection: socket.socket) -> str:
    body = json.dumps(BODY).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with connection:
        try:
            connection.sendall(head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            received = b""
            while block := connection.recv(65536):
                received += block
        except ConnectionError:
            return "lost"
    head, _, _ = received.lower().partition(b"\r\n\r\n")
    if b" 503 " in head[:13]:
        assert b"retry-after: " in head
        assert b"connection: close" in head
    return head[9:12].decode() or "lost"


def test_sigterm_resets_no_connection(tiny_bundle: Path, tmp_path: Path) -> None:
    """Who opens a connection for each request is answered or refused, whenever the listener closes."""
    outcomes: list[str] = []
    with serving(tiny_bundle, tmp_path / "log") as server:

        def call() -> None:
            for _ in range(5000):
                outcomes.append(outcome_on_a_connection_of_its_own(server))
                if outcomes[-1] == "refused":
                    return

        clients = [threading.Thread(target=call) for _ in range(16)]
        for client in clients:
            client.start()
        wait_for(lambda: len(outcomes) > 200)
        assert server.stop() == 0
        for client in clients:
            client.join()
    assert outcomes.count("refused") == len(clients)
    assert set(outcomes) <= {"200", "429", "503", "refused"}, {x: outcomes.count(x) for x in set(outcomes)}


def test_sigterm_answers_on_a_connection_that_has_just_been_opened(tiny_bundle: Path, tmp_path: Path) -> None:
    with serving(tiny_bundle, tmp_path / "log") as server:
        opened_s = time.monotonic()
        connections = [server.connect() for _ in range(20)]
        server.process.terminate()
        wait_for(lambda: '"draining"' in server.log.read_text(encoding="utf-8"))
        time.sleep(0.1)  # a server that closes what is idle has done so
        outcomes = [outcome_on(connection) for connection in connections]
        in_time = time.monotonic() - opened_s < 0.9
        assert server.process.wait(20) == 0
    assert outcomes == ["503"] * 20 or not in_time


def test_ctrl_c_again_and_again_ends_quietly(tiny_bundle: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving(tiny_bundle, log) as server:
        server.process.send_signal(signal.SIGINT)
        wait_for(lambda: "stopped" in log.read_text(encoding="utf-8"))
        while server.process.poll() is None:
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.005)
        assert server.process.returncode == 0
    assert "Traceback" not in log.read_text(encoding="utf-8")


def test_sigterm_finishes_what_runs_and_refuses_what_is_new(small_server: RunningServer) -> None:
    """The last test of this server."""
    with ThreadPoolExecutor(1) as callers, httpx.Client(base_url=small_server.url, timeout=20) as open_client:
        assert open_client.get("/readyz").status_code == 200
        running = callers.submit(post, small_server, LONG)
        wait_for(lambda: metric(small_server, 'dragoman_decode_slots{state="busy"}') > 0)
        small_server.process.terminate()
        wait_for(lambda: open_client.get("/readyz").status_code == 503, 5)
        refused = open_client.post("/translate", json=BODY)
        assert (refused.status_code, refused.json()["code"]) == (503, "draining")
        answer = running.result(60)
        assert answer.status_code == 200
        assert len(answer.json()["translatedText"]) == 30
    assert small_server.process.wait(20) == 0
    log = small_server.log.read_text(encoding="utf-8")
    assert "Traceback" not in log
    assert '"stopped"' in log
