"""Short requests beside documents: what a document of 200 sentences does to the latency of everyone else.

Starts a real server, sends short requests one after another over loopback, alone and while another client
sends documents without a pause, in turn; prints both latencies, their ratio, and what the short requests cost
the documents. With random weights every sentence of a document gets 25 target tokens, every short one 5.

    python -m benchmarks.fairness [--models base,default] [--sentences 200] [--short 60] [--rounds 5]
"""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import threading
import time
from typing import Any

from benchmarks.concurrency import sentences
from benchmarks.models import RANDOM_SIZES, prepare
from benchmarks.peers import http_servers
from benchmarks.peers.contest import command_line
from benchmarks.peers.turns import ended_by_signals
from benchmarks.reporting import machine, results
from benchmarks.reporting.progress import Progress
from benchmarks.reporting.spread import ratios

_ROUNDS, _QUICK_ROUNDS = 5, 2
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


def measure(port: int, sentence_count: int, short_count: int, rounds: int, *, forced: bool) -> dict[str, Any]:
    """Measure a server that runs.

    Args:
        port: of the server.
        sentence_count: of a document.
        short_count: short requests of a round.
        rounds: of everything, in turns.
        forced: whether lengths are forced, as random weights need it.

    Returns:
        A value for each round: ``quiet_p50_ms``, ``quiet_p95_ms``, ``busy_p50_ms``, ``busy_p95_ms``,
        ``alone_s`` and ``beside_s``, seconds of a document.
    """
    short: dict[str, Any] = {"q": "Thank you."}
    document: dict[str, Any] = {"q": [f"{n}: {text}" for n, text in enumerate(sentences(sentence_count))]}
    if forced:
        short |= {"min_decoding_length": 5, "max_decoding_length": 5}
        document |= {"min_decoding_length": 25, "max_decoding_length": 25}
    client = Client(port)
    for _ in range(2):  # warm
        client.translate(document)
        client.translate(short)
    found: dict[str, Any] = {"sentences": sentence_count, "short": short_count}
    for _ in range(rounds):
        quiet = latencies(port, short, short_count)
        alone_s = client.translate(document)
        with Documents(port, document) as documents:
            busy = latencies(port, short, short_count)
        values = dict(zip(("quiet_p50_ms", "quiet_p95_ms"), percentiles(quiet), strict=True))
        values |= dict(zip(("busy_p50_ms", "busy_p95_ms"), percentiles(busy), strict=True))
        values |= {"alone_s": alone_s, "beside_s": statistics.median(documents.durations_s)}
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return found


def summary(found: dict[str, Any]) -> str:
    """Put a measurement into a line."""
    middle = {name: statistics.median(values) for name, values in found.items() if isinstance(values, list)}
    ratio = ratios(found["busy_p95_ms"], found["quiet_p95_ms"])
    return (
        f"short requests alone p50 {middle['quiet_p50_ms']:.1f} ms, p95 {middle['quiet_p95_ms']:.1f} ms; "
        f"beside documents p50 {middle['busy_p50_ms']:.1f} ms, p95 {middle['busy_p95_ms']:.1f} ms; "
        f"p95 {ratio.median:.2f} times ({ratio.least:.2f}-{ratio.most:.2f}); "
        f"a document {middle['alone_s']:.2f} s, beside them {middle['beside_s']:.2f} s"
    )


def main() -> None:
    """Run the benchmark for every model and write its JSON."""
    parser = command_line(__doc__)
    parser.add_argument("--models", default="base,default", help="names separated by commas")
    parser.add_argument("--sentences", type=int, default=200, help="of a document")
    parser.add_argument("--short", type=int, default=60, help="short requests of a round")
    arguments = parser.parse_args()
    cache = arguments.cache.resolve()
    out = results.folder(cache, quick=arguments.quick) / "fairness.json"
    names = arguments.models.split(",")
    progress, facts = Progress(len(names)), machine.describe()
    rounds = arguments.rounds or (_QUICK_ROUNDS if arguments.quick else _ROUNDS)
    with ended_by_signals():
        for name in names:
            shipped, keep = arguments.bundle.resolve(), arguments.keep_models
            model = prepare(name, cache, progress.say, shipped=shipped, keep=keep)
            with http_servers.serving(http_servers.dragoman(model)) as (port, _):
                forced = name in RANDOM_SIZES
                found = measure(port, arguments.sentences, arguments.short, rounds, forced=forced)
            results.write(out, {"machine": facts, "models": {name: found}})
            progress.say(f"{name}: {summary(found)}", done=1.0)
    progress.say(f"wrote {out}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
