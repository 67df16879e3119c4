"""Tokens per second without HTTP: dragoman, CTranslate2 at its best and transformers in turns in one run.

Every system has a process of its own and gets the same pieces; tokenisation is not timed. A round measures
each system once; tables give the median over rounds and the ratio within each round. Rows that are named
replace those of an earlier run and leave the others. With --quick: few rows and rounds, no transformers, and
CTranslate2 with its usual settings where this machine has not been searched for better ones.

    python -m benchmarks.offline [--rows base-greedy-64,tiny-beam4-32] [--quick]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.inputs.workload import EVERY_ROW, QUICK_ROWS, Row, parse_row, sentences_of, text_name
from benchmarks.models import Model, prepare
from benchmarks.peers.contest import (
    DRAGOMAN_BEST,
    QUICK_ROUNDS,
    Contest,
    Entrant,
    command_line,
    ending,
    start,
    start_ctranslate2,
    usual,
)
from benchmarks.peers.ctranslate2_search import Search, Settings
from benchmarks.peers.turns import Peer, ended_by_signals
from benchmarks.reporting import machine, results
from benchmarks.reporting.progress import Progress
from benchmarks.reporting.spread import ratios, spread

_TIME_PER_ROW_S = 12.0
_SEARCH_WEIGHT = 1.0
_TRANSFORMERS_MOST_ROWS = 128


class Rows:
    """All rows of one model: the search for CTranslate2's settings, then the contest. Not thread-safe."""

    def __init__(
        self, model: Model, rows: Sequence[Row], arguments: argparse.Namespace, progress: Progress
    ) -> None:
        """Keep what is to be measured.

        Args:
            model: prepared.
            rows: of this model.
            arguments: of the command line.
            progress: of the whole run, a unit for each row.
        """
        self._model, self._rows, self._arguments, self._progress = model, rows, arguments, progress
        self._search = Search(
            arguments.cache / "ctranslate2.json",
            lambda settings: start_ctranslate2(model, settings),
            lambda line: progress.say(line, done=_SEARCH_WEIGHT),
        )

    def run(self) -> dict[str, Any]:
        """Measure every row; returns rows, load times and peak memory, as JSON."""
        if not self._arguments.quick:
            known = sum(self._search.known(row) is not None for row in self._rows)
            self._progress.say(f"{self._model.name}: searching CTranslate2's settings", done=known)
            self._search.run(self._rows, self._draw)
        chosen = {row: self._search.known(row) or usual(row) for row in self._rows}
        peers: dict[str, Peer] = {}
        with ending(peers):
            self._start_all(peers, chosen.values())
            rows = {row.name: self._measure(row, chosen[row], peers) for row in self._rows}
            systems = {
                name: {"load_s": peer.facts["load_s"], **peer.ask(op="memory")}
                for name, peer in peers.items()
            }
        return {"rows": rows, "systems": {self._model.name: systems}}

    def _draw(self, row: Row) -> tuple[list[list[str]], int | None]:
        return sentences_of(row, self._model, self._arguments.source)

    def _start_all(self, peers: dict[str, Peer], chosen: Iterable[Settings]) -> None:
        peers["dragoman"] = start(self._model, "dragoman", "dragoman", DRAGOMAN_BEST)
        peers["dragoman, defaults"] = start(self._model, "dragoman, defaults", "dragoman", {})
        for settings in chosen:
            if settings.process not in peers:
                peers[settings.process] = start_ctranslate2(self._model, settings)
        if not self._arguments.quick:
            peers["transformers"] = start(self._model, "transformers", "transformers", {})

    def _measure(self, row: Row, settings: Settings, peers: dict[str, Peer]) -> dict[str, Any]:
        contest = Contest(row, *self._draw(row), list(peers.values()))
        entrants = {
            "dragoman": Entrant(peers["dragoman"]),
            "dragoman, defaults": Entrant(peers["dragoman, defaults"]),
            "CTranslate2": Entrant(peers[settings.process], settings.call),
        }
        quick = self._arguments.quick
        contest.run(entrants, _TIME_PER_ROW_S, self._arguments.rounds or (QUICK_ROUNDS if quick else None))
        if "transformers" in peers and row.sentences * row.beam <= _TRANSFORMERS_MOST_ROWS:
            contest.run_slow("transformers", Entrant(peers["transformers"]))
        found = contest.result | {"ctranslate2": settings.label}
        if row.model == "default" and not row.is_single:
            found["text"] = text_name(self._arguments.source)
            found["agreement"] = contest.agreement("dragoman", "CTranslate2")
        self._progress.say(summary(row.name, found), done=1.0)
        return found


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


def main() -> None:
    """Run the benchmark and write its JSON."""
    parser = command_line(__doc__)
    parser.add_argument("--rows", help="names separated by commas; all by default")
    parser.add_argument("--source", type=Path, help="text for the default model, a sentence a line")
    arguments = parser.parse_args()
    usual = QUICK_ROWS if arguments.quick else EVERY_ROW
    try:
        rows = [parse_row(name) for name in arguments.rows.split(",")] if arguments.rows else list(usual)
    except ValueError as error:
        parser.error(str(error))
    arguments.cache = arguments.cache.resolve()
    out = results.folder(arguments.cache, quick=arguments.quick) / "offline.json"
    progress = Progress(len(rows) * (1.0 if arguments.quick else 1.0 + _SEARCH_WEIGHT))
    facts = machine.describe()
    with ended_by_signals():
        for name in dict.fromkeys(row.model for row in rows):
            bundle, keep = arguments.bundle.resolve(), arguments.keep_models
            model = prepare(name, arguments.cache, progress.say, shipped=bundle, keep=keep)
            found = Rows(model, [row for row in rows if row.model == name], arguments, progress).run()
            results.write(out, {"machine": facts, **found})
    progress.say(f"wrote {out}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
