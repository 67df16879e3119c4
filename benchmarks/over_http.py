"""Sentences per second and latencies over HTTP: dragoman against FastAPI with CTranslate2, in turns.

The peers are one server with a dynamic batcher, whose best settings are looked for first, and one without
batching. Texts are of mixed lengths: mostly 5 to 50 words, one in 32 of 200. In a closed loop so many clients
each send a request after the other; in an open loop requests come at fixed times, and their latency counts
from then. The client is a process of its own on the same cores.

    python -m benchmarks.over_http [--models base,default] [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import http_servers, machine, vocabulary
from benchmarks.http_servers import Server
from benchmarks.models import CACHE, RANDOM_SIZES, SHIPPED, Model, prepare
from benchmarks.spread import percentile
from benchmarks.turns import Peer, ended_by_signals
from benchmarks.workload import own_text, read_text, tokenize

CLIENTS = (1, 4, 16, 64)
LOADS = (0.5, 0.8, 1.1)
"""Arrival rates of the open loop, as shares of what the server with the batcher does at 64 clients."""

PERCENTS = (50, 95, 99)
_TEXTS, _ARRAY_TEXTS = 512, 500
_WARM_S, _WINDOW_S, _OPEN_S = 1.0, 4.0, 4.0
_ROUNDS, _QUICK_ROUNDS = 3, 2
_MAX_BATCHES, _WAITS_MS = (8, 16, 32, 64), (0.0, 2.0)
_SEARCH_WINDOW_S = 2.0
_LENGTHS = (5, 8, 12, 18, 25, 10, 35, 15, 7, 50, 20, 12, 9, 30, 16, 6)
_LONG_EVERY = 32
_FIELDS = {"source": "en", "target": "de", "beam_size": 1}


def mixed_lengths(count: int) -> list[int]:
    """Give the words of each text: mostly 5 to 50, every 32nd 200."""
    return [
        vocabulary.LONGEST if i % _LONG_EVERY == _LONG_EVERY // 2 else _LENGTHS[i % len(_LENGTHS)]
        for i in range(count)
    ]


def texts_for(model: str, source: Path | None, count: int) -> list[str]:
    """Write or read the texts that clients send.

    Args:
        model: base, tiny or default.
        source: text for the default model; None takes our own.
        count: how many.
    """
    if model in RANDOM_SIZES:
        size = RANDOM_SIZES[model].vocabulary
        sentences = vocabulary.random_sentences(size, mixed_lengths(count), seed=3, ending=True)
        return [vocabulary.as_text(sentence) for sentence in sentences]
    lines = read_text(source) if source else own_text(count)
    return [lines[i % len(lines)] for i in range(count)]


class Load:
    """The client process. Not thread-safe."""

    def __init__(self, client: Peer) -> None:
        """Wrap the process.

        Args:
            client: runs `benchmarks.load_client`.
        """
        self._client = client

    def prepare(self, texts: Sequence[str]) -> None:
        """Hand over the texts of all later requests."""
        self._client.ask(op="prepare", texts=list(texts), fields=_FIELDS)

    def closed(self, port: int, clients: int, seconds: float) -> dict[str, Any]:
        """Run a closed loop and summarise it."""
        return _summarise(
            self._client.ask(op="closed", port=port, clients=clients, warm_s=_WARM_S, seconds=seconds)
        )

    def open(self, port: int, rate: float, seconds: float) -> dict[str, Any]:
        """Run an open loop and summarise it."""
        return _summarise(self._client.ask(op="open", port=port, rate=rate, seconds=seconds))

    def array(self, port: int) -> float:
        """Send all texts as one request; returns the seconds, NaN if it failed."""
        latencies = self._client.ask(op="array", port=port)["latencies_s"]
        return float(latencies[0]) if latencies else math.nan


def _summarise(answer: dict[str, Any]) -> dict[str, Any]:
    latencies = answer.pop("latencies_s")
    answer["answered"] = len(latencies)
    for percent in PERCENTS:
        answer[f"p{percent}_ms"] = percentile(latencies, percent) * 1e3 if latencies else None
    return answer


def search_batcher(model: Model, load: Load, variables: dict[str, str]) -> tuple[int, float]:
    """Find the batcher's best settings: the most sentences/s at 16 and at 64 clients, geometric mean.

    Args:
        model: to serve.
        load: client with its texts.
        variables: environment of CTranslate2.

    Returns:
        Texts of a batch and milliseconds to wait.
    """
    best, settings = 0.0, (0, 0.0)
    for max_batch in _MAX_BATCHES:
        for wait_ms in _WAITS_MS:
            server = http_servers.ctranslate2(model, "candidate", max_batch, wait_ms, variables)
            with http_servers.serving(server) as (port, _):
                speeds = [load.closed(port, clients, _SEARCH_WINDOW_S)["per_s"] for clients in (16, 64)]
            mean = math.sqrt(speeds[0] * speeds[1])
            _say(f"{model.name}: batches of {max_batch}, {wait_ms:g} ms: {speeds[0]:.0f}, {speeds[1]:.0f} /s")
            if mean > best:
                best, settings = mean, (max_batch, wait_ms)
    return settings


def measure(
    model: Model, servers: Sequence[Server], load: Load, texts: Sequence[str], rounds: int
) -> dict[str, Any]:
    """Measure all loads with all servers up at once, one after the other in every round.

    Args:
        model: of the servers.
        servers: dragoman, the one with the batcher, the one without.
        load: the client.
        texts: to send.
        rounds: of every load.

    Returns:
        Loads by name, each with a list of rounds for every server, and what dragoman does without HTTP.
    """
    with contextlib.ExitStack() as running:
        ports = {server.name: running.enter_context(http_servers.serving(server)) for server in servers}
        engine = running.enter_context(contextlib.closing(_offline_engine(model, texts)))
        load.prepare(texts)
        for port, _ in ports.values():
            load.closed(port, 16, 0.5)  # warm
        loads: dict[str, Any] = {}

        def take_turns(name: str, run: Callable[[int], Any], before: Callable[[], Any] | None = None) -> None:
            found = loads[name] = {server: [] for server in ports}
            for _ in range(rounds):
                if before is not None:
                    before()
                for server, (port, _) in ports.items():
                    found[server].append(run(port))
            _say(f"{model.name} {name}: {_one_line(found)}")

        alone: list[float] = []

        def run_offline() -> None:
            answer = engine.ask(op="run", key="texts")
            alone.append(answer["tokens"] / answer["seconds"])

        for clients in CLIENTS:
            take_turns(
                f"closed {clients}",
                lambda port, n=clients: load.closed(port, n, _WINDOW_S),
                run_offline if clients == CLIENTS[-1] else None,
            )
        _say(f"{model.name}: without HTTP {statistics.median(alone):.0f} tokens/s")
        capacity = statistics.median(entry["per_s"] for entry in loads["closed 64"][servers[1].name])
        for share in LOADS:
            rate = round(share * capacity, 1)
            take_turns(f"open {rate}", lambda port, r=rate: load.open(port, r, _OPEN_S))
        load.prepare(texts[:_ARRAY_TEXTS])
        take_turns(f"array {_ARRAY_TEXTS}", load.array)
        memory = {name: http_servers.memory_bytes(pid) for name, (_, pid) in ports.items()}
    # Words of the default model's translations are not its tokens: nothing to compare there.
    known = {"offline_words_per_s": alone} if model.name in RANDOM_SIZES else {}
    return {"loads": loads, "memory_bytes": memory, **known}


def _offline_engine(model: Model, texts: Sequence[str]) -> Peer:
    """Start dragoman without HTTP, with the server's settings and the same texts, warm."""
    folders = json.dumps({key: str(value) for key, value in vars(model).items()})
    peer = Peer("dragoman without HTTP", "benchmarks.engine_process", ["dragoman", folders, "{}"], {})
    peer.ask(op="prepare", key="texts", sentences=tokenize(model, texts), beam=1, length=None)
    peer.ask(op="run", key="texts")
    return peer


def _one_line(found: dict[str, list[Any]]) -> str:
    parts = []
    for server, entries in found.items():
        if isinstance(entries[0], float):
            parts.append(f"{server} {statistics.median(entries):.2f} s")
            continue
        speed = f"{statistics.median(e['per_s'] for e in entries):.0f}/s " if "per_s" in entries[0] else ""
        p95 = [e["p95_ms"] for e in entries if e["p95_ms"] is not None]
        failures = sum(sum(e["failures"].values()) for e in entries)
        shown = f"p95 {statistics.median(p95):.0f} ms" if p95 else "nothing answered"
        parts.append(f"{server} {speed}{shown}" + (f", {failures} failed" if failures else ""))
    return "; ".join(parts)


_STARTED_S = time.monotonic()


def _say(line: str) -> None:
    print(f"[{time.monotonic() - _STARTED_S:6.1f} s] {line}", file=sys.stderr, flush=True)


def _variables(cache: Path) -> dict[str, str]:
    """Take the instruction set that the offline benchmark found best most often."""
    file = cache / "ctranslate2.json"
    known = json.loads(file.read_text(encoding="ascii")).values() if file.exists() else ()
    chosen = [json.dumps(settings["variables"]) for settings in known]
    return json.loads(statistics.mode(chosen)) if chosen else {}


def main() -> None:
    """Run the benchmark and write its JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="base,default", help="names separated by commas")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; the batcher's usual settings")
    parser.add_argument("--batcher", help="its settings instead of a search, as 32,2 (texts, ms)")
    parser.add_argument("--source", type=Path, help="text for the default model, a sentence a line")
    parser.add_argument("--bundle", type=Path, default=SHIPPED, help="the default model")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for models and results")
    parser.add_argument("--keep-models", action="store_true", help="do not export anew after changes")
    arguments = parser.parse_args()
    cache = arguments.cache.resolve()
    variables = _variables(cache)
    result: dict[str, Any] = {"machine": machine.describe(), "variables": variables, "models": {}}
    with ended_by_signals(), contextlib.closing(Peer("client", "benchmarks.load_client", [], {})) as client:
        load = Load(client)
        for name in arguments.models.split(","):
            shipped, keep = arguments.bundle.resolve(), arguments.keep_models
            model = prepare(name, cache, _say, shipped=shipped, keep=keep)
            texts = texts_for(name, arguments.source, _TEXTS)
            load.prepare(texts)
            if arguments.batcher or arguments.quick:
                size, wait = (arguments.batcher or "32,2").split(",")
                settings = int(size), float(wait)
            else:
                settings = search_batcher(model, load, variables)
            servers = [
                http_servers.dragoman(model),
                http_servers.ctranslate2(model, "CTranslate2, batcher", *settings, variables),
                http_servers.ctranslate2(model, "CTranslate2, no batching", 1, 0.0, variables),
            ]
            rounds = _QUICK_ROUNDS if arguments.quick else _ROUNDS
            found = measure(model, servers, load, texts, rounds)
            result["models"][name] = found | {"batcher": {"max_batch": settings[0], "wait_ms": settings[1]}}
    out = cache / "results" / ("http-quick.json" if arguments.quick else "http.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="ascii")
    _say(f"wrote {out}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
