"""Nothing is left behind: neither memory nor connections, tasks, threads, rows or places in the line."""

import asyncio
import itertools
import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from loadgen.connection import Connection, Target
from server.engine.worker.loop import IDLE_S
from server.metrics.process import anonymous_bytes
from tests.support.server_process import RunningServer, free_port, serving, wait_for

FIELDS = {"source": "en", "target": "de"}
WORDS = ("the", "a", "old", "small", "red", "cat", "bird", "lamp", "city", "flower", "sees", "loves", "knows")
MIXED_S = float(os.environ.get("DRAGOMAN_TEST_MIXED_S", "7200"))
CLIENTS = 8
MOST_GROWTH_BYTES, MOST_SLOPE_BYTES = 32 << 20, 100
LEAK_BYTES = 32 << 10  # of each run of the encoder: a seventh of the requests, or more


def short_text(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(1, 12))) + "."


def send_all(server: RunningServer, count: int, look: Callable[[], int]) -> list[int]:
    """Send so many requests of mixed lengths on 8 connections; gives what `look` saw after each hundredth."""
    draw = random.Random(count)
    texts = [short_text(draw) for _ in range(997)]
    # Nonsense makes the model write until it may not any more, which takes time and proves nothing.
    fields = FIELDS | {"max_decoding_length": 8}
    bodies = itertools.cycle([json.dumps({"q": text, **fields}).encode() for text in texts])
    seen: list[int] = []

    def answered(number: int) -> None:
        if number % (count // 100) == 0:
            seen.append(look())

    send_bodies(server, itertools.islice(bodies, count), answered)
    return seen


def send_bodies(
    server: RunningServer, bodies: Iterable[bytes], answered: Callable[[int], None] = lambda number: None
) -> None:
    """Send requests on 8 connections; `answered` gets the number of each that was, from 0 on."""
    left = enumerate(bodies)

    async def client() -> None:
        connection = Connection(Target.parse(server.url))
        for number, body in left:
            answer = await connection.send(body)
            assert answer.status == 200
            answered(number)
        connection.close()

    async def main() -> None:
        await asyncio.gather(*(client() for _ in range(CLIENTS)))

    asyncio.run(main())


def mixed_bodies(count: int) -> Iterator[bytes]:
    """Requests as different as they come: of one word to 150, arrays, beams, samples, what is forbidden."""
    draw = random.Random(count)
    ways: list[dict[str, Any]] = [
        {},
        {},
        {"beam_size": 4},
        {"beam_size": 4, "num_hypotheses": 3, "scores": True},
        {"beam_size": 2, "length_penalty": 0.6},
        {"sampling_topk": 5, "sampling_temperature": 0.7},
        {"repetition_penalty": 1.2, "no_repeat_ngram_size": 3},
        {"min_decoding_length": 12, "max_decoding_length": 30},
    ]
    for number in range(count):
        words = 150 if number % 20 == 0 else draw.choice((1, 4, 9, 15, 15, 30))
        text = " ".join(draw.choices(WORDS, k=words)) + "."
        texts = text if draw.random() < 0.8 else [short_text(draw) for _ in range(draw.randint(1, 12))]
        yield json.dumps({"q": texts, **FIELDS, **draw.choice(ways)}).encode()


def growth(sizes: list[int], requests: int) -> tuple[float, float]:
    """Bytes by which memory grew after the first fifth, and bytes a request, of a line through the rest."""
    rest = sizes[len(sizes) // 5 :]
    each = requests / len(sizes)
    middle, mean = (len(rest) - 1) / 2, sum(rest) / len(rest)
    above = sum((place - middle) * (size - mean) for place, size in enumerate(rest))
    slope = above / sum((place - middle) ** 2 for place in range(len(rest))) / each
    return rest[-1] - rest[0], slope


def is_flat(sizes: list[int], requests: int, most_slope: float) -> bool:
    grown, slope = growth(sizes, requests)
    print(f"{requests} requests: {sizes[0] >> 20} to {sizes[-1] >> 20} MiB, {slope:.0f} bytes a request")
    return grown < MOST_GROWTH_BYTES and slope < most_slope


def memory_of(server: RunningServer) -> Callable[[], int]:
    """What the server and its engine processes have."""
    process = psutil.Process(server.process.pid)
    others = [child.pid for child in process.children(recursive=True)]
    return lambda: int(process.memory_info().rss) + sum(map(anonymous_bytes, others))


def leaking(directory: Path) -> tuple[object, ...]:
    switch = directory / "leak.on"
    switch.touch()
    return ("tests.support.faulty_server", "leak", switch, LEAK_BYTES)


@pytest.mark.parametrize("count", [2000, pytest.param(5000, marks=pytest.mark.slow)])
def test_memory_is_flat_over_some_thousand_requests(tiny_bundle: Path, tmp_path: Path, count: int) -> None:
    with serving(tiny_bundle, tmp_path / "log", workers=2, log_level="warning") as server:
        sizes = send_all(server, count, memory_of(server))
    # So few requests are over before the last cache has its size: a megabyte is 625 bytes a request.
    assert is_flat(sizes, count, most_slope=2500)


def test_a_server_that_leaks_is_found_out(tiny_bundle: Path, tmp_path: Path) -> None:
    """The same measurement, on a server that does keep something."""
    with serving(tiny_bundle, tmp_path / "log", leaking(tmp_path), workers=2, log_level="warning") as server:
        sizes = send_all(server, 1000, memory_of(server))
    assert not is_flat(sizes, 1000, most_slope=2500)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_memory_is_flat_over_100000_requests(tiny_bundle: Path, tmp_path: Path) -> None:
    with serving(tiny_bundle, tmp_path / "log", workers=2, log_level="warning") as server:
        sizes = send_all(server, 100_000, memory_of(server))
        assert_nothing_is_left(server)
    assert is_flat(sizes, 100_000, MOST_SLOPE_BYTES)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_20000_mixed_requests_leave_memory_where_2000_did(repository: Path, tmp_path: Path) -> None:
    """With the shipped model, at both looks a minute after the last request."""
    with serving(repository / "bundles" / "en-de", tmp_path / "log", log_level="warning") as server:
        look, sizes, bodies = memory_of(server), [], mixed_bodies(20_000)
        for count in (2_000, 18_000):
            send_bodies(server, itertools.islice(bodies, count))
            assert_nothing_is_left(server)
            wait_for(lambda: server.metrics()["dragoman_kv_cache_bytes"] == 0, 2 * IDLE_S)
            time.sleep(1.0)  # what was freed is given back after that
            sizes.append(look())
    print(f"after 2,000 requests {sizes[0] / 2**20:.1f} MiB, after 20,000 {sizes[1] / 2**20:.1f}")
    assert sizes[1] < 1.05 * sizes[0]


def assert_nothing_is_left(server: RunningServer, files: int | None = None) -> None:
    """No rows, no places in the line, no requests, no connections."""
    process = psutil.Process(server.process.pid)
    wait_for(lambda: server.metrics()['dragoman_decode_slots{state="busy"}'] == 0)
    metrics = server.metrics()
    assert metrics["dragoman_queue_sentences"] == metrics["dragoman_queue_tokens"] == 0
    assert metrics["dragoman_http_requests_in_flight"] == 1
    if files is not None:
        wait_for(lambda: process.num_fds() <= files + 2)


class Peers:
    """Clients that behave as some do, by chance."""

    def __init__(self, server: RunningServer, admin_port: int) -> None:
        self.server, self.admin_port = server, admin_port
        self.wrong: list[Any] = []
        self.done: dict[str, int] = {}
        self.stop = threading.Event()
        self._lock = threading.Lock()

    def run(self, seed: int, end_s: float) -> None:
        draw = random.Random(seed)
        kinds = [self.normal, self.impatient, self.killed, self.invalid, self.reloading]
        with httpx.Client(base_url=self.server.url, timeout=60) as client:
            while time.monotonic() < end_s and not self.stop.is_set():
                (kind,) = draw.choices(kinds, weights=(60, 15, 10, 10, 5))
                try:
                    kind(client, draw)
                except (AssertionError, OSError, httpx.HTTPError) as error:
                    self.wrong.append((kind.__name__, error))
                with self._lock:
                    self.done[kind.__name__] = self.done.get(kind.__name__, 0) + 1

    def normal(self, client: httpx.Client, draw: random.Random) -> None:
        texts = [short_text(draw) for _ in range(draw.choice((1, 1, 1, 20)))]
        answer = client.post("/translate", json=FIELDS | {"q": texts, "beam_size": draw.choice((1, 1, 4))})
        assert (answer.status_code, len(answer.json()["translatedText"])) == (200, len(texts))

    def impatient(self, client: httpx.Client, draw: random.Random) -> None:
        headers = {"X-Request-Timeout-Ms": str(draw.randint(1, 30))}
        body = FIELDS | {"q": [short_text(draw) for _ in range(10)], "min_decoding_length": 60}
        answer = client.post("/translate", json=body, headers=headers)
        assert answer.status_code in (200, 504)

    def killed(self, _client: httpx.Client, draw: random.Random) -> None:
        body = json.dumps(FIELDS | {"q": short_text(draw), "min_decoding_length": 100}).encode()
        head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
            connection.sendall((head % len(body) + body)[: draw.randint(1, len(head) + len(body))])
            time.sleep(draw.uniform(0, 0.05))

    def invalid(self, client: httpx.Client, draw: random.Random) -> None:
        bodies = (
            b"{",
            b"\xff",
            b"[]",
            b'{"q":5}',
            b'{"q":"a","source":"en","target":"xx"}',
            b"x" * 2_000_000,
        )
        answer = client.post(
            "/translate", content=draw.choice(bodies), headers={"Content-Type": "application/json"}
        )
        assert 400 <= answer.status_code < 500

    def reloading(self, client: httpx.Client, _draw: random.Random) -> None:
        answer = client.post(f"http://127.0.0.1:{self.admin_port}/admin/reload")
        assert answer.status_code in (200, 409)


@contextmanager
def misbehaving(server: RunningServer, admin_port: int, seconds: float) -> Iterator[Peers]:
    peers = Peers(server, admin_port)
    end_s = time.monotonic() + seconds
    threads = [threading.Thread(target=peers.run, args=(seed, end_s)) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield peers
    except BaseException:
        peers.stop.set()
        raise
    finally:
        for thread in threads:
            thread.join()


def check_mixed_load(bundle: Path, log: Path, seconds: float) -> None:
    port = free_port()
    with serving(bundle, log, workers=2, admin_port=port, log_level="warning") as server:
        with misbehaving(server, port, min(2.0, seconds / 4)):
            pass  # warm
        assert_nothing_is_left(server)
        process = psutil.Process(server.process.pid)
        files, threads = process.num_fds(), process.num_threads()
        with misbehaving(server, port, seconds) as peers:
            pass
        print(peers.done)
        assert peers.wrong == []
        assert len(peers.done) == 5
        assert_nothing_is_left(server, files)
        assert process.num_threads() <= threads + 4  # those for text start when they are needed
        failed = {series for series, count in server.metrics().items() if 'code="5' in series and count}
        assert all('code="504"' in series for series in failed)
        assert httpx.get(f"{server.url}/livez").status_code == 200
    assert "Traceback" not in log.read_text(encoding="utf-8")


def test_peers_that_misbehave_leave_nothing_behind(tiny_bundle: Path, tmp_path: Path) -> None:
    check_mixed_load(tiny_bundle, tmp_path / "log", 4.0)


@pytest.mark.exhaustive
@pytest.mark.timeout(MIXED_S + 600)
def test_peers_that_misbehave_for_hours_leave_nothing_behind(tiny_bundle: Path, tmp_path: Path) -> None:
    """Two hours, or `DRAGOMAN_TEST_MIXED_S` seconds."""
    check_mixed_load(tiny_bundle, tmp_path / "log", MIXED_S)
