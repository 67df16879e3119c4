"""Systems that take turns on one row of a table: warm, then round after round, nobody else computing."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.inputs.workload import Row
from benchmarks.models import CACHE, SHIPPED, Model
from benchmarks.peers.ctranslate2_search import Settings
from benchmarks.peers.turns import TURN_S, Peer, wait_for_calm

LEAST_ROUNDS, MOST_ROUNDS, QUICK_ROUNDS = 3, 11, 2
DRAGOMAN_BEST = {"max_rows": 128, "max_kv_cache_mib": 4096}
"""What an operator would set for throughput; beside it the defaults are measured."""

_LONG_S = 3.0


def usual(row: Row) -> Settings:
    """Give settings of CTranslate2 where nothing was searched: a worker a core, or all cores for one."""
    cores = os.cpu_count() or 1
    workers, threads = (1, cores) if row.is_single else (cores, 1)
    return Settings({}, {"inter_threads": workers, "intra_threads": threads, "compute_type": "int8"}, {})


@dataclass(frozen=True)
class Entrant:
    """A system in one row.

    Attributes:
        peer: its process.
        call: settings of its calls.
    """

    peer: Peer
    call: dict[str, Any] = field(default_factory=dict)


def start(model: Model, name: str, system: str, settings: Mapping[str, Any], **variables: str) -> Peer:
    """Start a system's process with a model.

    Args:
        model: prepared.
        name: for messages.
        system: as `benchmarks.peers.engines.ENGINES` calls it.
        settings: that hold until its end.
        **variables: of its environment.
    """
    folders = json.dumps({key: str(value) for key, value in asdict(model).items()})
    return Peer(name, "benchmarks.peers.engine_process", [system, folders, json.dumps(settings)], variables)


def start_ctranslate2(model: Model, settings: Settings) -> Peer:
    """Start CTranslate2 with settings."""
    return start(model, f"CTranslate2 {settings.process}", "CTranslate2", settings.load, **settings.variables)


@contextlib.contextmanager
def ending(peers: Mapping[str, Peer]) -> Iterator[None]:
    """End all these processes afterwards, those that are added meanwhile, too."""
    try:
        yield
    finally:
        for peer in peers.values():
            peer.close()


class Contest:
    """One row. Not thread-safe."""

    def __init__(self, row: Row, sentences: list[list[str]], length: int | None, peers: list[Peer]) -> None:
        """Keep what is to be measured.

        Args:
            row: of the table.
            sentences: as pieces.
            length: target tokens that each is forced to, or None.
            peers: every process that is up, entrant or not.
        """
        self._row, self._peers = row, peers
        self._question = {"key": row.name, "sentences": sentences, "beam": row.beam, "length": length}
        self._prepared: set[int] = set()
        self.entrants: dict[str, Entrant] = {}
        self.result: dict[str, Any] = {
            "model": row.model,
            "beam": row.beam,
            "sentences": len(sentences),
            "alone": row.is_single,
            "source_tokens": sum(map(len, sentences)),
            "seconds": {},
            "tokens": {},
            "idle_share": 0.0,
        }

    def run(self, entrants: Mapping[str, Entrant], budget_s: float, rounds: int | None) -> None:
        """Measure systems in turns.

        Args:
            entrants: by the name that tables use.
            budget_s: time for the rounds; there are three at least.
            rounds: so many, whatever the budget.
        """
        self._enter(entrants)
        for name in entrants:
            self._turn(name)  # warm: buffers grow, caches fill
        once_s = sum(self._turn(name) for name in entrants)
        wanted = rounds or max(LEAST_ROUNDS, min(MOST_ROUNDS, int(budget_s / once_s)))
        seconds = self.result["seconds"]
        for _ in range(wanted):
            for name in entrants:
                seconds.setdefault(name, []).append(self._turn(name))

    def run_slow(self, name: str, entrant: Entrant) -> None:
        """Measure a system that takes many times as long: once, and more often if that is not too long."""
        self._enter({name: entrant})
        found = self.result["seconds"][name] = [self._turn(name)]
        while len(found) < LEAST_ROUNDS and found[0] < _LONG_S:
            found.append(self._turn(name))

    def agreement(self, ours: str, theirs: str) -> float:
        """Share of sentences that two systems translate into the same tokens."""
        answers = [
            self.entrants[name].peer.ask(op="tokens", key=self._row.name)["tokens"] for name in (ours, theirs)
        ]
        return sum(a == b for a, b in zip(*answers, strict=True)) / len(answers[0])

    def _enter(self, entrants: Mapping[str, Entrant]) -> None:
        self.entrants |= entrants
        for entrant in entrants.values():
            if entrant.peer.pid not in self._prepared:
                entrant.peer.ask(op="prepare", **self._question)
                self._prepared.add(entrant.peer.pid)

    def _turn(self, name: str) -> float:
        entrant = self.entrants[name]
        others = [other for other in self._peers if other is not entrant.peer]
        wait_for_calm(others)
        before = sum(other.cpu_s() for other in others)
        row = self._row
        answer = entrant.peer.ask(
            op="run", key=row.name, alone=row.is_single, call=entrant.call, least_s=TURN_S
        )
        used_s = sum(other.cpu_s() for other in others) - before
        idle_share = used_s / max(answer["seconds"] * answer["passes"], 0.1)
        self.result["idle_share"] = max(self.result["idle_share"], idle_share)
        self.result["tokens"][name] = answer["tokens"]
        return float(answer["seconds"])


def command_line(description: str | None) -> argparse.ArgumentParser:
    """Make a parser with the arguments that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few rounds, for a look after a change")
    parser.add_argument("--rounds", type=int, help="of every measurement; more or fewer than usual")
    parser.add_argument("--bundle", type=Path, default=SHIPPED, help="the default model")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for models and results")
    parser.add_argument("--keep-models", action="store_true", help="do not export anew after changes")
    return parser
