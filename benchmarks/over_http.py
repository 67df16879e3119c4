"""Sentences per second and latencies over HTTP: dragoman against FastAPI with CTranslate2, in turns.

The peers are one server with a dynamic batcher, whose best settings are looked for first, and one without
batching. Texts are of mixed lengths: for random weights mostly 5 to 50 words and one in 32 of 200, for the
default model sentences and one text in 32 of so many sentences that it has 150 words. In a closed loop so
many clients each send a request after the other; in an open loop requests come at fixed times, and their
latency counts from then. The client is a process of its own on the same cores.

    python -m benchmarks.over_http [--models base,default] [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.inputs import vocabulary
from benchmarks.inputs.workload import pick, read_text, text_name, tokenize, with_long_texts
from benchmarks.models import RANDOM_SIZES, Model, prepare
from benchmarks.peers import http_servers
from benchmarks.peers.contest import command_line
from benchmarks.peers.http_servers import Server
from benchmarks.peers.turns import Peer, ended_by_signals
from benchmarks.reporting import machine, results
from benchmarks.reporting.progress import Progress
from loadgen.summary import percentile

PERCENTS = (50, 95, 99)
TEXTS, _ARRAY_TEXTS = 512, 500
_CHECKED_TOGETHER = 32
_WARM_S = 1.0
_LONG_WARM_S = 8.0
"""Before a loop with most clients, as long as base-sized models take for a text of 200 words there. Words
count when their text ends: in a window that opens earlier, those of the long texts that are under way at its
end are missing, and none from before its beginning make up for them (a tenth of 12 s of base)."""
_BATCHERS = ((16, 0.0), (32, 0.0), (32, 2.0), (64, 0.0))
_SEARCH_WEIGHT = 2.0
"""Of the search, against one load."""

_LENGTHS = (5, 8, 12, 18, 25, 10, 35, 15, 7, 50, 20, 12, 9, 30, 16, 6)
_LONG_EVERY, _LONG_WORDS = 32, 150
_FIELDS = {"source": "en", "target": "de", "beam_size": 1}
_PAIRED = 3
"""Times as many rounds for what HTTP costs: a tenth is to be told from less, and rounds differ by 6 %."""


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
        source: text for the default model, or None; see `benchmarks.inputs.workload.read_text`.
        count: how many.
    """
    if model in RANDOM_SIZES:
        size = RANDOM_SIZES[model].vocabulary
        sentences = vocabulary.random_sentences(size, mixed_lengths(count), seed=3, ending=True)
        return [vocabulary.as_text(sentence) for sentence in sentences]
    return with_long_texts(pick(read_text(source), count), count, _LONG_EVERY, _LONG_WORDS)


def keep_ending(model: Model, texts: Sequence[str], progress: Progress) -> list[str]:
    """Keep the texts whose translation by random weights ends where it should, in both systems.

    The counter that ends them (`benchmarks.inputs.random_model`) fails for some: they would run to the
    longest length, which is another in each system, and take most of the time.

    Args:
        model: with random weights.
        texts: of `texts_for`.
        progress: hears how many stay.
    """
    kept = list(texts)
    for system, settings in (("dragoman", {}), ("CTranslate2", {"compute_type": "int8", "inter_threads": 1})):
        found: list[list[str]] = []
        with contextlib.closing(_engine(model, system, settings)) as peer:
            sentences = tokenize(model, kept)
            for first in range(0, len(kept), _CHECKED_TOGETHER):
                some = sentences[first : first + _CHECKED_TOGETHER]
                peer.ask(op="prepare", key="some", sentences=some, beam=1, length=None)
                found += peer.ask(op="tokens", key="some")["tokens"]
        kept = [text for text, pieces in zip(kept, found, strict=True) if len(pieces) == text.count(" ") + 1]
        progress.say(
            f"{model.name}: {len(kept)} of {len(texts)} texts end where they should in {system}, too"
        )
    return kept


@dataclass(frozen=True)
class Plan:
    """What is measured of a model, and for how long.

    Attributes:
        rounds: of every load.
        window_s: of a loop.
        clients: of the closed loops.
        shares: arrival rates of the open loops, of what the server with the batcher does at 64 clients.
        long_warm_s: before the window of a loop with most clients opens.
    """

    rounds: int
    window_s: float
    clients: tuple[int, ...]
    shares: tuple[float, ...]
    long_warm_s: float = _WARM_S

    def seconds(self, clients: int) -> tuple[float, float]:
        """Seconds of a closed loop and of its warm-up; more with most clients, whose words are counted."""
        if clients == self.clients[-1]:
            return 2 * self.window_s, self.long_warm_s
        return self.window_s, _WARM_S

    @property
    def loads(self) -> int:
        """How many there are, the array included."""
        return len(self.clients) + len(self.shares) + 1


# Base-sized models take seconds for a batch with a text of 200 words in it.
FULL = {"base": Plan(3, 6.0, (1, 4, 16, 64), (0.5, 0.8, 1.1), _LONG_WARM_S)}
FULL_SMALL = Plan(3, 3.0, (1, 4, 16, 64), (0.5, 0.8, 1.1))
QUICK = Plan(2, 2.0, (1, 64), (0.5,))


class Load:
    """The client process. Not thread-safe."""

    def __init__(self, client: Peer) -> None:
        """Wrap the process.

        Args:
            client: runs `benchmarks.peers.load_client`.
        """
        self._client = client

    def prepare(self, texts: Sequence[str], **fields: int) -> None:
        """Hand over the texts of all later requests, and what they ask for besides."""
        self._client.ask(op="prepare", texts=list(texts), fields=_FIELDS | fields)

    def closed(self, port: int, clients: int, seconds: float, warm_s: float = _WARM_S) -> dict[str, Any]:
        """Run a closed loop and summarise it."""
        return _summarise(
            self._client.ask(op="closed", port=port, clients=clients, warm_s=warm_s, seconds=seconds)
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


def search_batcher(
    model: Model, load: Load, variables: dict[str, str], progress: Progress
) -> tuple[int, float]:
    """Find the batcher's best settings: the most sentences/s at 16 and at 64 clients, geometric mean.

    Args:
        model: to serve.
        load: client with its texts.
        variables: environment of CTranslate2.
        progress: hears of every candidate.

    Returns:
        Texts of a batch and milliseconds to wait.
    """
    best, settings = -1.0, _BATCHERS[0]
    window_s = FULL.get(model.name, FULL_SMALL).window_s
    for max_batch, wait_ms in _BATCHERS:
        server = http_servers.ctranslate2(model, "candidate", max_batch, wait_ms, variables)
        with http_servers.serving(server) as (port, _):
            speeds = [load.closed(port, clients, window_s)["per_s"] for clients in (16, 64)]
        mean = math.sqrt(speeds[0] * speeds[1])
        progress.say(
            f"{model.name}: batches of {max_batch}, {wait_ms:g} ms: {speeds[0]:.1f}, {speeds[1]:.1f} /s",
            done=_SEARCH_WEIGHT / len(_BATCHERS),
        )
        if mean > best:
            best, settings = mean, (max_batch, wait_ms)
    return settings


def measure(
    model: Model, servers: Sequence[Server], load: Load, texts: Sequence[str], plan: Plan, progress: Progress
) -> dict[str, Any]:
    """Measure all loads with all servers up at once, one after the other in every round.

    Args:
        model: of the servers.
        servers: dragoman, the one with the batcher, the one without.
        load: the client.
        texts: to send.
        plan: what and for how long.
        progress: hears of every load.

    Returns:
        Loads by name, each with a list of rounds for every server, and what dragoman does without HTTP.
    """
    with contextlib.ExitStack() as running:
        ports = {server.name: running.enter_context(http_servers.serving(server)) for server in servers}
        engine = _offline_engine(model, texts) if model.name in RANDOM_SIZES else None
        if engine is not None:
            running.enter_context(contextlib.closing(engine))
        load.prepare(texts)
        for port, _ in ports.values():
            load.closed(port, 16, 0.5)  # warm
        loads: dict[str, Any] = {}

        def take_turns(name: str, run: Callable[[int], Any], before: Callable[[], Any] | None = None) -> None:
            found = loads[name] = {server: [] for server in ports}
            for _ in range(plan.rounds):
                if before is not None:
                    before()
                for server, (port, _) in ports.items():
                    found[server].append(run(port))
            progress.say(f"{model.name} {name}: {_one_line(found)}", done=1.0)

        most = plan.clients[-1]
        without: dict[str, list[float]] = {"in_flight_words_per_s": [], "offline_words_per_s": []}
        served: list[float] = []

        def run_without() -> None:
            assert engine is not None
            seconds, warm_s = plan.seconds(most)
            kept = engine.ask(op="keep", key="as sent", count=most, warm_s=warm_s, seconds=seconds)
            without["in_flight_words_per_s"].append(kept["tokens_per_s"])
            answer = engine.ask(op="run", key="texts")
            without["offline_words_per_s"].append(answer["tokens"] / answer["seconds"])

        for clients in plan.clients:
            take_turns(
                f"closed {clients}",
                lambda port, n=clients: load.closed(port, n, *plan.seconds(n)),
                run_without if engine is not None and clients == most else None,
            )
        if engine is not None:
            served += [entry["words_per_s"] for entry in loads[f"closed {most}"][servers[0].name]]
            for _ in range(plan.rounds * (_PAIRED - 1)):
                run_without()
                port = ports[servers[0].name][0]
                served.append(load.closed(port, most, *plan.seconds(most))["words_per_s"])
            kept, call = (statistics.median(found) for found in without.values())
            progress.say(
                f"{model.name}: without HTTP {kept:.0f} tokens/s with {most} sentences under way, "
                f"{call:.0f} with all in one call"
            )
        capacity = statistics.median(e["per_s"] for e in loads[f"closed {most}"][servers[1].name])
        for share in plan.shares:
            rate = round(share * capacity, 1)
            take_turns(f"open {rate}", lambda port, r=rate: load.open(port, r, plan.window_s))
        load.prepare(texts[:_ARRAY_TEXTS])
        take_turns(f"array {_ARRAY_TEXTS}", load.array)
        memory = {name: http_servers.memory_bytes(pid) for name, (_, pid) in ports.items()}
    # Words of the default model's translations are not its tokens: nothing to compare there.
    costs = {} if engine is None else {"served_words_per_s": served, **without}
    return {"loads": loads, "memory_bytes": memory, **costs}


def _offline_engine(model: Model, texts: Sequence[str]) -> Peer:
    """Start dragoman without HTTP, with the server's settings and the same texts, warm."""
    peer = _engine(model, "dragoman", {})
    sentences = tokenize(model, texts)
    peer.ask(op="prepare", key="as sent", sentences=sentences, beam=1, length=None)
    # The longest first: otherwise the last of them would be decoded alone, and HTTP would seem to cost less.
    sentences.sort(key=len, reverse=True)
    peer.ask(op="prepare", key="texts", sentences=sentences, beam=1, length=None)
    peer.ask(op="run", key="texts")
    return peer


def _engine(model: Model, system: str, settings: dict[str, Any]) -> Peer:
    """Start a system without HTTP."""
    folders = json.dumps({key: str(value) for key, value in vars(model).items()})
    arguments = [system, folders, json.dumps(settings)]
    return Peer(f"{system} without HTTP", "benchmarks.peers.engine_process", arguments, {})


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


def _variables(cache: Path) -> dict[str, str]:
    """Take the instruction set that the offline benchmark found best most often."""
    file = cache / "ctranslate2.json"
    known = json.loads(file.read_text(encoding="ascii")).values() if file.exists() else ()
    chosen = [json.dumps(settings["variables"]) for settings in known]
    return json.loads(statistics.mode(chosen)) if chosen else {}


def main() -> None:
    """Run the benchmark and write its JSON."""
    parser = command_line(__doc__)
    parser.add_argument("--models", help="names separated by commas; base,default or, quick, default")
    parser.add_argument("--batcher", help="its settings instead of a search, as 32,2 (texts, ms)")
    parser.add_argument("--source", type=Path, help="text for the default model, a sentence a line")
    arguments = parser.parse_args()
    cache, quick = arguments.cache.resolve(), arguments.quick
    names = (arguments.models or ("default" if quick else "base,default")).split(",")
    given = _batcher(arguments.batcher or ("32,2" if quick else None), parser)
    variables, facts = _variables(cache), machine.describe()
    out = results.folder(cache, quick=quick) / "http.json"
    progress = Progress(len(names) * (FULL_SMALL.loads + (0 if given else _SEARCH_WEIGHT)))
    peer = Peer("client", "benchmarks.peers.load_client", [], {})
    with ended_by_signals(), contextlib.closing(peer) as client:
        load = Load(client)
        for name in names:
            shipped, keep = arguments.bundle.resolve(), arguments.keep_models
            model = prepare(name, cache, progress.say, shipped=shipped, keep=keep)
            plan = QUICK if quick else FULL.get(name, FULL_SMALL)
            plan = replace(plan, rounds=arguments.rounds or plan.rounds)
            texts = texts_for(name, arguments.source, TEXTS)
            if name in RANDOM_SIZES:
                texts = keep_ending(model, texts, progress)
            load.prepare(texts)
            settings = given or search_batcher(model, load, variables, progress)
            servers = [
                http_servers.dragoman(model),
                http_servers.ctranslate2(model, "CTranslate2, batcher", *settings, variables),
                http_servers.ctranslate2(model, "CTranslate2, no batching", 1, 0.0, variables),
            ]
            found = measure(model, servers, load, texts, plan, progress)
            found |= {"batcher": {"max_batch": settings[0], "wait_ms": settings[1]}}
            found |= {"text": text_name(arguments.source)} if name == "default" else {}
            results.write(out, {"machine": facts, "variables": variables, "models": {name: found}})
    progress.say(f"wrote {out}")


def _batcher(text: str | None, parser: argparse.ArgumentParser) -> tuple[int, float] | None:
    """Read texts and milliseconds."""
    if text is None:
        return None
    try:
        size, wait = text.split(",")
        return int(size), float(wait)
    except ValueError:
        parser.error(f"--batcher takes texts and milliseconds, as 32,2; not {text!r}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
