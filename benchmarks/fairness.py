"""Short requests beside documents: what a document of 200 sentences does to the latency of everyone else.

Starts a real server, sends short requests one after another over loopback, alone and while another client
sends documents without a pause, in turn; prints both latencies, their ratio, and what the short requests cost
the documents.

    python benchmarks/fairness.py [BUNDLE] [--forced] [--sentences 200] [--short 60] [--rounds 3]

`--forced` is for random weights: every sentence gets 25 target tokens, every short one 5.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.concurrency import sentences, serving

_THINK_S = 0.02  # between a short answer and the next short request


class Client:
    """A connection that is kept open."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def translate(self, fields: dict[str, Any]) -> float:
        """Send a request; returns the seconds until its answer."""
        body = json.dumps({"source": "en", "target": "de", **fields})
        started_s = time.perf_counter()
        self._connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {answer[:200]!r}")
        return time.perf_counter() - started_s


class Documents:
    """A client that sends documents without a pause while the block runs."""

    def __init__(self, port: int, fields: dict[str, Any]) -> None:
        self.durations_s: list[float] = []
        self._client, self._fields = Client(port), fields
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Documents:
        self._thread.start()
        time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._stop.is_set():
            self.durations_s.append(self._client.translate(self._fields))


def latencies(port: int, fields: dict[str, Any], count: int) -> list[float]:
    """Seconds of each of `count` short requests, one after another."""
    client, found = Client(port), []
    for _ in range(count):
        found.append(client.translate(fields))
        time.sleep(_THINK_S)
    return found


def percentiles(values: list[float]) -> tuple[float, float]:
    """Median and 95th percentile in milliseconds."""
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return cuts[9] * 1e3, cuts[18] * 1e3


def main() -> None:
    """Run the benchmark and print its result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", nargs="?", type=Path, default=Path("bundles/en-de"))
    parser.add_argument("--forced", action="store_true")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--short", type=int, default=60, help="short requests of a round")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    short: dict[str, Any] = {"q": "Thank you."}
    document: dict[str, Any] = {
        "q": [f"{n}: {text}" for n, text in enumerate(sentences(arguments.sentences))]
    }
    if arguments.forced:
        short |= {"min_decoding_length": 5, "max_decoding_length": 5}
        document |= {"min_decoding_length": 25, "max_decoding_length": 25}
    quiet: list[float] = []
    busy: list[float] = []
    alone: list[float] = []
    beside: list[float] = []
    with serving(arguments.bundle) as port:
        client = Client(port)
        for _ in range(2):  # warm
            client.translate(document)
            client.translate(short)
        for _ in range(arguments.rounds):
            quiet += latencies(port, short, arguments.short)
            alone.append(client.translate(document))
            with Documents(port, document) as documents:
                busy += latencies(port, short, arguments.short)
            beside += documents.durations_s
    for name, values in (("alone", quiet), ("beside documents", busy)):
        p50, p95 = percentiles(values)
        print(f"short requests {name:17}: p50 {p50:6.1f} ms, p95 {p95:6.1f} ms")
    print(f"ratio of p95: {percentiles(busy)[1] / percentiles(quiet)[1]:.2f}")
    print(f"document alone {statistics.median(alone):.2f} s, beside them {statistics.median(beside):.2f} s")


if __name__ == "__main__":
    main()
