"""Memory of a real server process over thousands of mixed requests of its shipped model.

`DRAGOMAN_TEST_SOAK=22000 pytest tests/e2e/operations/test_soak.py` is the long version: 20,000 after the
first 2,000.
What a hundred thousand requests leave behind is measured in `test_leaks.py`.
"""

import itertools
import json
import os
import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.server_process import RunningServer, serving

REQUESTS = int(os.environ.get("DRAGOMAN_TEST_SOAK", "2200"))
WARM_REQUESTS = max(1000, REQUESTS // 11)
# Which large requests meet is chance: it takes some thousands of requests until all that can have met.
ALLOWED_GROWTH = 1.05 if REQUESTS >= 20_000 else 1.1
CLIENTS = 8
SENTENCE = "We have bought the old red house before winter and they have seen a new garden after it"
WORDS = SENTENCE.lower().split()


def requests(seed: int, light: int = 30) -> Iterator[dict[str, Any]]:
    """Endless requests: arrays, documents, beams, cut and forced lengths, HTML, nonsense, and short ones.

    Args:
        seed: of the draw.
        light: short requests for each of the others.
    """
    draw = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(draw.choices(WORDS, k=words)).capitalize() + "."

    makers = (
        *[lambda: {"q": text(draw.randint(1, 12))}] * light,
        lambda: {"q": [text(draw.randint(1, 20)) for _ in range(draw.randint(2, 12))]},
        lambda: {"q": " ".join(text(8) for _ in range(30))},
        lambda: {"q": text(6), "beam_size": draw.choice((2, 4, 8)), "alternatives": 1},
        lambda: {"q": text(150), "max_decoding_length": 200},
        lambda: {"q": text(3), "min_decoding_length": 100, "max_decoding_length": 250},
        lambda: {"q": f"<p>{text(9)}</p>", "format": "html"},
        lambda: {"q": text(5), "target": "xx"},
        lambda: {"q": "x" * 6000},
    )
    while True:
        yield {"source": "en", "target": "de", **draw.choice(makers)()}


def give_up_early(server: RunningServer, fields: dict[str, Any]) -> None:
    """Send a request and close the connection without reading the answer."""
    body = json.dumps(fields).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def send(server: RunningServer, count: int, seed: int, light: int = 30) -> set[int]:
    """Send `count` requests over some connections; returns the status codes."""

    def client(number: int) -> set[int]:
        codes = set()
        with httpx.Client(base_url=server.url, timeout=60) as http:
            drawn = itertools.islice(requests(seed + number, light), count // CLIENTS)
            for position, fields in enumerate(drawn):
                if position % 25 == 24:
                    give_up_early(server, fields)
                codes.add(http.post("/translate", json=fields).status_code)
        return codes

    with ThreadPoolExecutor(CLIENTS) as clients:
        return set().union(*clients.map(client, range(CLIENTS)))


def resident_bytes(server: RunningServer) -> int:
    memory = psutil.Process(server.process.pid).memory_info()
    return int(memory.rss)


@pytest.mark.slow
def test_memory_stays_where_it_was(repository: Path, tmp_path: Path) -> None:
    with serving(
        repository / "bundles" / "en-de",
        tmp_path / "log",
        workers=2,
        max_kv_cache_mib=256,
        cache_bytes=1 << 20,  # full when the measurement begins
    ) as server:
        # Memory grows to what the largest requests need when they meet: let them do so.
        assert send(server, 160, seed=50, light=0) == {200, 400}
        warm = resident_bytes(server)
        assert send(server, WARM_REQUESTS - 160, seed=0) == {200, 400}
        warm = max(warm, resident_bytes(server))  # arenas that are empty keep more or less
        sizes = []
        for part in range(1, 5):
            assert send(server, (REQUESTS - WARM_REQUESTS) // 4, seed=100 * part) == {200, 400}
            sizes.append(resident_bytes(server))
        print("MiB:", warm >> 20, [size >> 20 for size in sizes])
        assert sizes[-1] <= ALLOWED_GROWTH * warm
        metrics = httpx.get(f"{server.url}/metrics").text
    series = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    assert 0 < float(series["dragoman_kv_cache_bytes"]) <= 256 << 20
    assert float(series['dragoman_decode_slots{state="busy"}']) == 0
    assert float(series["dragoman_queue_sentences"]) == 0
    assert float(series['dragoman_engine_errors_total{kind="out_of_memory"}']) == 0
