"""More load than the server can bear: it does as much as before, and is back at once when that is over."""

import asyncio
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from loadgen.connection import Target
from loadgen.generator import Generator, Plan
from loadgen.summary import percentile, summarise
from loadgen.texts import make_bodies
from tests.support.server_process import RunningServer, command, serving, wait_for

FIELDS = {"source": "en", "target": "de"}
TEXTS = [
    "the cat sees a bird.",
    "the old lamp.",
    "every clever flower loves the city.",
    "a red bird knows it.",
]
QUEUE = 24
DEADLINE_S = 5.0
CLIENT_PER_S = 5000.0
"""What a client can send beside a server on the same two cores. Asked for 6,280, it was six seconds late and
had no descriptors left."""


def load(server: RunningServer, plan: Plan, **fields: object) -> dict[str, Any]:
    """Run a load from this process."""
    generator = Generator(Target.parse(server.url), make_bodies(TEXTS, FIELDS | fields), plan)
    asyncio.run(generator.run())
    return summarise(generator.samples, plan)


@contextmanager
def slow_server(
    bundle: Path, directory: Path, step_ms: int, rows: int, **settings: object
) -> Iterator[RunningServer]:
    """A server whose capacity is that of its model, not of this machine: so many rows, so many steps."""
    switch = directory / "slow.on"
    program = ("tests.support.faulty_server", "slow", switch, step_ms)
    with serving(bundle, directory / "log", program, max_rows=rows, **settings) as server:
        switch.touch()
        yield server


@pytest.fixture
def slow(tiny_bundle: Path, tmp_path: Path) -> Iterator[RunningServer]:
    settings = {"max_queue_sentences": QUEUE, "request_timeout_s": DEADLINE_S}
    with slow_server(tiny_bundle, tmp_path, step_ms=20, rows=8, **settings) as server:
        yield server


def keeps_its_goodput(server: RunningServer, seconds: float, least_shares: dict[float, float]) -> bool:
    """Measure the peak, several times as much, and the peak again; check what nothing excuses."""

    def peak() -> float:
        return float(load(server, Plan(seconds, warm_s=0.5, clients=QUEUE))["answered_per_s"])

    before = peak()
    rates = [min(n * before, CLIENT_PER_S) for n in least_shares]
    overloads = [load(server, Plan(seconds, warm_s=0.5, rate=rate, timeout_s=20)) for rate in rates]
    least = min(before, peak())
    print(f"{before:.0f}/s: {overloads}")
    for found in overloads:
        assert set(found["errors"]) == {"429 queue_full"}
        assert found["latency_ms"]["p99"] <= 1e3 * DEADLINE_S + 500
    # Those that are left in the line are translated, and then it is as if nothing had been.
    time.sleep(1)
    assert load(server, Plan(1.0, rate=0.3 * before))["errors"] == {}
    metrics = server.metrics()
    assert metrics["dragoman_queue_sentences"] == 0
    assert metrics["dragoman_http_requests_in_flight"] == 1
    return all(
        found["answered_per_s"] >= share * least
        for found, share in zip(overloads, least_shares.values(), strict=True)
    )


def check_overload(server: RunningServer, seconds: float, least_shares: dict[float, float]) -> None:
    """A machine that others use, too, is not always as fast; a server that collapses does so every time."""
    assert any(keeps_its_goodput(server, seconds, least_shares) for _ in range(3))


def test_at_two_and_four_times_its_capacity_a_server_does_as_much(slow: RunningServer) -> None:
    check_overload(slow, 2.0, {2: 0.8, 4: 0.8})


@pytest.mark.exhaustive
def test_and_so_it_does_when_the_processor_is_what_is_short(repository: Path, tmp_path: Path) -> None:
    """The client takes its part of the same cores.

    Measured with the shipped model on two cores, whose workers are processes: 1,550 requests/s at most, of
    3,100/s 1,860, of 4,400/s 1,490 and of 6,200/s, four times as many, 1,070 to 1,260. But that is about what
    the event loop can refuse beside a client that takes half a core: once, a pause was not caught up with.
    Workers that are threads did 1,160, and 1,220, 910 and 710 to 770 of these rates. On two faster cores (AMD
    EPYC, AVX-512 VNNI) 1,370 to 1,630 at most, of twice as many 1,530 to 1,680, of three times as many 1,090
    to 1,260, which is 0.60 to 0.88 of the peak: the client and what is refused take the rest. Since a
    sentence costs less around the engine, 1,780 to 2,090 at most, of 3,100/s 2,330 to 2,580, of 4,600/s 1,590
    to 2,040 and of 6,200/s 1,180 to 1,260 (the version before, in turns: 1,660, 2,070 to 2,120, 1,480 to
    1,610 and 690 to 990). Since few sentences are packed, 2,600 to 2,900 at most, of 4,200/s 2,050 to 2,450,
    of 5,000/s, all that a client can send, 1,340 to 1,860 (the version before, in turns: 1,740 to 2,320,
    1,490 to 2,190 and 1,230 to 1,820): more than before, and less of a higher peak.
    """
    settings = {
        "workers": 0,
        "max_queue_sentences": QUEUE,
        "request_timeout_s": DEADLINE_S,
        "log_level": "warning",
    }
    with serving(repository / "bundles/en-de", tmp_path / "log", **settings) as server:
        check_overload(server, 8.0, {1.5: 0.6, 3: 0.45})


def test_a_client_that_waits_as_it_is_told_is_served_in_the_end(slow: RunningServer) -> None:
    peak = load(slow, Plan(1.0, warm_s=0.5, clients=QUEUE))["answered_per_s"]
    found = load(slow, Plan(1.0, rate=2.5 * peak, retries=8, timeout_s=30))
    assert found["errors"] == {}
    assert found["retries"] > 10


def test_short_requests_hardly_feel_a_document(tiny_bundle: Path, tmp_path: Path) -> None:
    """20 short requests a second alone, and beside one of the largest requests there can be."""
    plan = Plan(2.0, warm_s=0.2, rate=20, arrivals="fixed")
    texts = [f"the cat sees {n} birds." for n in range(40)]
    document = FIELDS | {"q": texts, "min_decoding_length": 120, "max_decoding_length": 120}
    done: list[int] = []
    with slow_server(tiny_bundle, tmp_path, step_ms=12, rows=16) as server:
        alone = load(server, plan, max_decoding_length=8)

        def send() -> None:
            done.append(httpx.post(f"{server.url}/translate", json=document, timeout=60).status_code)

        thread = threading.Thread(target=send)
        thread.start()
        wait_for(lambda: server.metrics()['dragoman_decode_slots{state="busy"}'] > 0)
        beside = load(server, plan, max_decoding_length=8)
        assert done == []  # it was there all the time
        thread.join()
    assert done == [200]
    assert alone["errors"] == beside["errors"] == {}
    print(alone["latency_ms"], beside["latency_ms"])
    assert beside["latency_ms"]["p95"] <= 2 * alone["latency_ms"]["p95"] + 50  # a busy machine


@contextmanager
def probing(server: RunningServer) -> Iterator[list[float]]:
    """Ask `/livez` all the time; gives the seconds that each answer took."""
    taken_s: list[float] = []
    stop = threading.Event()

    def probe() -> None:
        with httpx.Client(base_url=server.url, timeout=10) as client:
            while not stop.is_set():
                started_s = time.monotonic()
                assert client.get("/livez").status_code == 200
                taken_s.append(time.monotonic() - started_s)
                time.sleep(0.01)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield taken_s
    finally:
        stop.set()
        thread.join()


def check_probes(server: RunningServer, seconds: float, p99_s: float, late_share: float) -> None:
    """64 clients, in a process of their own, and a probe."""
    options = ["--clients", 64, "--duration", seconds, "--warm-up", 0.5, "--lengths", "short", "--json", "-"]
    with probing(server) as taken_s:
        done = subprocess.run(
            command("bench-http", server.url, *options),
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    assert json.loads(done.stdout)["errors"] == {}
    print(f"{len(taken_s)} probes, p99 {percentile(taken_s, 99):.3f} s")
    assert len(taken_s) > 10 * seconds
    assert percentile(taken_s, 99) < p99_s
    lag = server.metrics()
    late = (
        1
        - lag['dragoman_event_loop_lag_seconds_bucket{le="0.25"}']
        / lag["dragoman_event_loop_lag_seconds_count"]
    )
    assert late <= late_share


def test_liveness_answers_under_full_load(tiny_bundle: Path, tmp_path: Path) -> None:
    with serving(tiny_bundle, tmp_path / "log", workers=0) as server:
        check_probes(server, 3.0, p99_s=1.0, late_share=0.3)


@pytest.mark.slow
def test_liveness_answers_under_full_load_for_long(repository: Path, tmp_path: Path) -> None:
    with serving(repository / "bundles/en-de", tmp_path / "log", workers=0) as server:
        check_probes(server, 15.0, p99_s=0.25, late_share=0.02)
