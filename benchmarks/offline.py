"""Tokens per second without HTTP: dragoman, CTranslate2 at its best and transformers in turns in one run.

Every system has a process of its own and gets the same pieces; tokenisation is not timed. A round measures
each system once; tables give the median over rounds and the ratio within each round. With --quick: fewer
rounds, without transformers, and CTranslate2's settings are searched only if this machine has none yet.

    python -m benchmarks.offline [--rows base-greedy-64,tiny-beam4-32] [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.ctranslate2_search import Search, Settings
from benchmarks.models import CACHE, SHIPPED, Model, prepare
from benchmarks.spread import ratios, spread
from benchmarks.turns import Peer, ended_by_signals, wait_for_calm
from benchmarks.workload import EVERY_ROW, Row, parse_row, sentences_of

DRAGOMAN_BEST = {"max_rows": 128}
"""What an operator would set for throughput; beside it the defaults are measured."""

_TIME_PER_ROW_S, _QUICK_TIME_PER_ROW_S = 24.0, 16.0
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 11
_TRANSFORMERS_ROUNDS, _TRANSFORMERS_MOST_SENTENCES = 2, 64
# CTranslate2 where nothing was searched: its best for most rows.
_USUAL = Settings({}, {"inter_threads": 2, "intra_threads": 1, "compute_type": "int8"}, {})


class Contest:
    """One model in several systems, each in its process. Not thread-safe."""

    def __init__(self, model: Model, rows: Sequence[Row], arguments: argparse.Namespace) -> None:
        """Keep what is to be measured.

        Args:
            model: prepared.
            rows: of this model.
            arguments: of the command line.
        """
        self._model, self._rows, self._arguments = model, rows, arguments
        self._search = Search(arguments.cache / "ctranslate2.json", self._start_ctranslate2, _say)

    def run(self) -> dict[str, Any]:
        """Measure every row; returns rows, load times and peak memory, as JSON."""
        self._search.run(self._rows, self._draw)
        chosen = {row: self._search.known(row) or _USUAL for row in self._rows}
        with _ending(peers := {}):
            self._start_all(peers, chosen.values())
            rows = {row.name: self._measure(row, chosen[row], peers) for row in self._rows}
            systems = {
                name: {"load_s": peer.facts["load_s"], **peer.ask(op="memory")}
                for name, peer in peers.items()
            }
        return {"rows": rows, "systems": systems}

    def _draw(self, row: Row) -> tuple[list[list[str]], int | None]:
        return sentences_of(row, self._model, self._arguments.source)

    def _start(
        self, name: str, system: str, settings: dict[str, Any], variables: dict[str, str] | None = None
    ) -> Peer:
        folders = json.dumps({key: str(value) for key, value in asdict(self._model).items()})
        arguments = [system, folders, json.dumps(settings)]
        return Peer(name, "benchmarks.engine_process", arguments, variables or {})

    def _start_ctranslate2(self, settings: Settings) -> Peer:
        name = f"CTranslate2 {settings.process}"
        return self._start(name, "CTranslate2", settings.load, settings.variables)

    def _start_all(self, peers: dict[str, Peer], chosen: Iterator[Settings]) -> None:
        peers["dragoman"] = self._start("dragoman", "dragoman", DRAGOMAN_BEST)
        peers["dragoman, defaults"] = self._start("dragoman, defaults", "dragoman", {})
        for settings in chosen:
            if settings.process not in peers:
                peers[settings.process] = self._start_ctranslate2(settings)
        if not self._arguments.quick:
            peers["transformers"] = self._start("transformers", "transformers", {})

    def _measure(self, row: Row, settings: Settings, peers: dict[str, Peer]) -> dict[str, Any]:
        sentences, length = self._draw(row)
        entrants = {
            "dragoman": (peers["dragoman"], {}),
            "dragoman, defaults": (peers["dragoman, defaults"], {}),
            "CTranslate2": (peers[settings.process], settings.call),
        }
        question = {"key": row.name, "sentences": sentences, "beam": row.beam, "length": length}
        seconds: dict[str, list[float]] = {name: [] for name in entrants}
        tokens: dict[str, int] = {}
        idle_share = 0.0

        def turn(name: str) -> float:
            nonlocal idle_share
            peer, call = entrants[name]
            others = [other for other in peers.values() if other is not peer]
            wait_for_calm(others)
            before = sum(other.cpu_s() for other in others)
            answer = peer.ask(op="run", key=row.name, alone=row.is_single, call=call)
            used = sum(other.cpu_s() for other in others) - before
            idle_share = max(idle_share, used / max(answer["seconds"], 0.1))
            tokens[name] = answer["tokens"]
            return float(answer["seconds"])

        for peer, _ in entrants.values():
            peer.ask(op="prepare", **question)
        for name in entrants:
            turn(name)  # warm: buffers grow, caches fill
        once_s = sum(turn(name) for name in entrants)
        budget_s = _QUICK_TIME_PER_ROW_S if self._arguments.quick else _TIME_PER_ROW_S
        rounds = self._arguments.rounds or max(_LEAST_ROUNDS, min(_MOST_ROUNDS, int(budget_s / once_s)))
        for _ in range(rounds):
            for name in entrants:
                seconds[name].append(turn(name))
        if "transformers" in peers and row.sentences <= _TRANSFORMERS_MOST_SENTENCES:
            peers["transformers"].ask(op="prepare", **question)
            entrants["transformers"] = (peers["transformers"], {})
            seconds["transformers"] = [turn("transformers") for _ in range(_TRANSFORMERS_ROUNDS)]
        result = {
            "model": row.model,
            "beam": row.beam,
            "sentences": len(sentences),
            "alone": row.is_single,
            "source_tokens": sum(map(len, sentences)),
            "seconds": seconds,
            "tokens": tokens,
            "ctranslate2": settings.label,
            "idle_share": idle_share,
        }
        if length is None and not row.is_single:
            result["agreement"] = self._agreement(row, entrants)
        _say(summary(row.name, result))
        return result

    def _agreement(self, row: Row, entrants: dict[str, tuple[Peer, dict[str, Any]]]) -> float:
        """Share of sentences that dragoman and CTranslate2 translate into the same tokens."""
        answers = [
            entrants[name][0].ask(op="tokens", key=row.name)["tokens"] for name in ("dragoman", "CTranslate2")
        ]
        return sum(a == b for a, b in zip(*answers, strict=True)) / len(answers[0])


def summary(name: str, result: dict[str, Any]) -> str:
    """Put a row into a line: tokens/s of each system, and dragoman's ratio to CTranslate2's."""
    speeds = [
        f"{system} {result['tokens'][system] / spread(seconds).median:.0f}"
        for system, seconds in result["seconds"].items()
    ]
    ratio = ratios(result["seconds"]["CTranslate2"], result["seconds"]["dragoman"])
    rounds = len(result["seconds"]["dragoman"])
    return (
        f"{name}: tokens/s {', '.join(speeds)}; dragoman is {ratio.median:.2f} x CTranslate2 "
        f"({ratio.least:.2f}-{ratio.most:.2f}, {rounds} rounds; {result['ctranslate2']})"
    )


@contextlib.contextmanager
def _ending(peers: dict[str, Peer]) -> Iterator[None]:
    try:
        yield
    finally:
        for peer in peers.values():
            peer.close()


_STARTED_S = time.monotonic()


def _say(line: str) -> None:
    print(f"[{time.monotonic() - _STARTED_S:6.1f} s] {line}", file=sys.stderr, flush=True)


def main() -> None:
    """Run the benchmark and write its JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", help="names separated by commas; all by default")
    parser.add_argument("--rounds", type=int, help="of every row; by default as many as fit into its time")
    parser.add_argument("--quick", action="store_true", help="for a look after a change")
    parser.add_argument("--source", type=Path, help="text for the default model, a sentence a line")
    parser.add_argument("--bundle", type=Path, default=SHIPPED, help="the default model")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for models and results")
    parser.add_argument("--keep-models", action="store_true", help="do not export anew after changes")
    parser.add_argument("--out", type=Path, help="result; CACHE/results/offline.json by default")
    arguments = parser.parse_args()
    try:
        rows = [parse_row(name) for name in arguments.rows.split(",")] if arguments.rows else list(EVERY_ROW)
    except ValueError as error:
        parser.error(str(error))
    arguments.cache = arguments.cache.resolve()
    result: dict[str, Any] = {"machine": machine.describe(), "rows": {}, "systems": {}}
    with ended_by_signals():
        for name in dict.fromkeys(row.model for row in rows):
            model = prepare(
                name, arguments.cache, _say, shipped=arguments.bundle.resolve(), keep=arguments.keep_models
            )
            found = Contest(model, [row for row in rows if row.model == name], arguments).run()
            result["rows"] |= found["rows"]
            result["systems"][name] = found["systems"]
    out = arguments.out or arguments.cache / "results" / ("quick.json" if arguments.quick else "offline.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="ascii")
    _say(f"wrote {out}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
