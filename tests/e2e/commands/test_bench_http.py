"""`dragoman bench-http` as a command, against a server of known behaviour and against the real one."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.known_server import KnownServer
from tests.support.known_server import serving as knowing
from tests.support.server_process import command, free_port, serving


@pytest.fixture
def known() -> Iterator[KnownServer]:
    with knowing(KnownServer(delay_s=0.02)) as server:
        yield server


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("bench-http", *arguments), capture_output=True, text=True, check=False, timeout=60
    )


def test_an_open_loop_with_everything(known: KnownServer, tmp_path: Path) -> None:
    figures, picture = tmp_path / "load.json", tmp_path / "load.png"
    options = ["--rate", 50, "--arrivals", "fixed", "--duration", 1, "--warm-up", 0.5, "--lengths", "3-5"]
    options += ["--field", "beam_size=4", "--field", "format=text", "--api-key", "secret", "--progress"]
    done = bench(f"http://127.0.0.1:{known.port}", *options, "--json", figures, "--plot", picture)
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text())
    assert (found["requests"], found["answered"], found["errors"]) == (50, 50, {})
    assert found["seconds"] == 1
    assert found["latency_ms"]["p50"] >= 20
    assert list(found["latency_ms"]) == ["p50", "p95", "p99", "p99.9", "mean", "max"]
    assert {len(str(text).split()) for text in known.texts} == {3, 4, 5}
    assert len(known.texts) == 75
    assert b"authorization: bearer secret\r\n" in known.headers
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "sending: " in done.stderr
    assert "errors     none" in done.stdout


def test_a_closed_loop_of_arrays_of_lines(known: KnownServer, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("eins\nzwei\ndrei\n")
    options = ["--clients", 3, "--duration", 0.5, "--warm-up", 0, "--text", text, "--array", 2]
    done = bench(f"127.0.0.1:{known.port}", *options, "--json", "-")
    found = json.loads(done.stdout)
    assert known.most_at_once == 3
    assert known.texts[:2] == [["eins", "zwei"], ["drei", "eins"]]
    assert (found["loop"], found["clients"], found["rate"]) == ("closed", 3, None)
    assert found["answered_per_s"] > 20
    assert found["words_per_s"] == pytest.approx(2 * found["answered_per_s"])
    assert done.stderr == ""


def test_ctrl_c_shows_what_there_is(known: KnownServer) -> None:
    process = subprocess.Popen(
        command("bench-http", f"127.0.0.1:{known.port}", "--rate", 50, "--duration", 60, "--warm-up", 0),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    give_up_s = time.monotonic() + 30
    while len(known.texts) < 20 and time.monotonic() < give_up_s:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=20)
    assert (process.returncode, error) == (130, "")
    assert "p99.9" in out
    assert "open loop, 50 requests/s, poisson" in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["ftp://x"], 2, "give it as http://HOST:PORT"),
        (["localhost", "--lengths", "long"], 2, "no mix of lengths"),
        (["localhost", "--text", "/nothing/here"], 2, "/nothing/here: cannot be read"),
        (["localhost", "--rate", 5, "--clients", 5], 2, "not both"),
        (["localhost", "--rate", "inf"], 2, "'--rate': inf: must be a number"),
        (["localhost", "--rate", "nan"], 2, "'--rate': nan: must be a number"),
        (["localhost", "--rate", "0"], 2, "'--rate': 0: must be a number of at least 0.001"),
        (["localhost", "--rate", "many"], 2, "'--rate': "),
        (["localhost", "--field", "beam_size"], 2, "name=value"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(arguments: list[object], code: int, said: str) -> None:
    done = bench(*arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_where_nobody_is_that_is_said() -> None:
    done = bench(f"http://127.0.0.1:{free_port()}")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Connection refused" in done.stderr
    done = bench(f"http://127.0.0.1:{free_port()}", "--source", "en", "--target", "de", "--duration", 0.1)
    assert (done.returncode, "connection refused" in done.stdout) == (1, True)


def test_the_server_counts_the_same(tiny_bundle: Path, tmp_path: Path) -> None:
    with serving(tiny_bundle, tmp_path / "log") as server:
        options = ["--rate", 40, "--duration", 1, "--warm-up", 0, "--lengths", "3-8", "--json", "-"]
        found = json.loads(bench(server.url, *options).stdout)
    lines = map(json.loads, (tmp_path / "log").read_text(encoding="utf-8").splitlines())
    served = [line for line in lines if line.get("route") == "/translate"]
    assert {line["code"] for line in served} == {200}
    assert len(served) == found["answered"] == found["requests"] > 20
    assert found["latency_ms"]["max"] >= max(line["duration_ms"] for line in served) * 0.9
