"""What a shortlist is worth: dragoman with and without one, CTranslate2 with its own and without, in turns.

"base" with random weights and a table of candidates (see `benchmarks.inputs.candidates`), the same for both
systems. CTranslate2's settings are searched for both of its ways.

    python -m benchmarks.shortlist [--rows base-greedy-64,base-beam4-32] [--quick]
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from typing import Any

from benchmarks.inputs import candidates
from benchmarks.inputs.workload import FORCED_TOKENS, Row, parse_row
from benchmarks.models import RANDOM_SIZES, Model, prepare
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
from benchmarks.reporting.spread import ratios

ROWS, QUICK_ROWS = "base-greedy-64,base-beam4-32", "base-greedy-64"
_BUDGET_S = 20.0
_SMALL_BATCHES = (8,)
"""CTranslate2 joins the candidates of a batch: smaller batches have fewer."""

OURS, OURS_WHOLE = "dragoman, shortlist", "dragoman"
THEIRS, THEIRS_WHOLE = "CTranslate2, vmap", "CTranslate2"


def _draw(row: Row) -> tuple[list[list[str]], int]:
    return candidates.sentences(RANDOM_SIZES[row.model].vocabulary, row.sentences), FORCED_TOKENS


def _settings(
    model: Model, rows: list[Row], arguments: argparse.Namespace, progress: Progress, kind: str = ""
) -> dict[Row, Settings]:
    """Search CTranslate2's settings with this model folder, or take the usual ones."""
    search = Search(
        arguments.cache / f"ctranslate2{'-' + kind if kind else ''}.json",
        lambda settings: start_ctranslate2(model, settings),
        lambda line: progress.say(line, done=1.0),
        _SMALL_BATCHES if kind else (),
    )
    if not arguments.quick:
        progress.say(
            f"searching CTranslate2's settings {kind}",
            done=sum(search.known(row) is not None for row in rows),
        )
        search.run(rows, _draw)
    return {row: search.known(row) or usual(row) for row in rows}


def measure(
    models: tuple[Model, Model],
    row: Row,
    kind: str,
    settings: tuple[Settings, Settings],
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Measure one row; returns it as the offline benchmark does.

    Args:
        models: with candidates, and as it is.
        row: which.
        kind: of `benchmarks.inputs.candidates.KINDS`.
        settings: of CTranslate2 with its map and without.
        arguments: of the command line.
    """
    mapped, whole = models
    peers: dict[str, Peer] = {}
    with ending(peers):
        peers[OURS] = start(mapped, OURS, "dragoman", DRAGOMAN_BEST)
        peers[OURS_WHOLE] = start(mapped, OURS_WHOLE, "dragoman", DRAGOMAN_BEST | {"shortlist": False})
        peers[THEIRS] = start_ctranslate2(mapped, settings[0])
        peers[THEIRS_WHOLE] = start_ctranslate2(whole, settings[1])
        calls = {THEIRS: settings[0].call, THEIRS_WHOLE: settings[1].call}
        entrants = {name: Entrant(peer, calls.get(name, {})) for name, peer in peers.items()}
        sentences, length = _draw(row)
        contest = Contest(row, sentences, length, list(peers.values()))
        contest.run(entrants, _BUDGET_S, arguments.rounds or (QUICK_ROUNDS if arguments.quick else None))
    ours, theirs = _batch(row, {}), _batch(row, settings[0].call)
    sizes = candidates.mean_candidates(RANDOM_SIZES[row.model].vocabulary, kind, sentences, (1, ours, theirs))
    return contest.result | {
        "row": row.name,
        "kind": kind,
        "ctranslate2": {THEIRS: settings[0].label, THEIRS_WHOLE: settings[1].label},
        "candidates": {"sentence": sizes[1], OURS: sizes[ours], THEIRS: sizes[theirs]},
    }


def _batch(row: Row, call: dict[str, Any]) -> int:
    """Sentences decoded together: a core's share, or as many as CTranslate2 is told to take."""
    return int(call.get("max_batch_size") or math.ceil(row.sentences / (os.cpu_count() or 1)))


def main() -> None:
    """Run the benchmark and write its JSON."""
    parser = command_line(__doc__)
    parser.add_argument("--rows", help=f"names separated by commas; {ROWS} or, quick, {QUICK_ROWS}")
    parser.add_argument("--kinds", help="of tables; both or, quick, narrow")
    arguments = parser.parse_args()
    usual_rows, usual_kinds = (
        (QUICK_ROWS, "narrow") if arguments.quick else (ROWS, ",".join(candidates.KINDS))
    )
    kinds = (arguments.kinds or usual_kinds).split(",")
    try:
        rows = [parse_row(name) for name in (arguments.rows or usual_rows).split(",")]
        if any(row.model != "base" for row in rows):
            raise ValueError("candidates are there for base alone")
        if unknown := set(kinds) - set(candidates.KINDS):
            raise ValueError(f"no such table: {', '.join(unknown)}; there are {', '.join(candidates.KINDS)}")
    except ValueError as error:
        parser.error(str(error))
    arguments.cache = arguments.cache.resolve()
    out = results.folder(arguments.cache, quick=arguments.quick) / "shortlist.json"
    # A unit for every search and two for every row.
    progress = Progress(len(rows) * (2 * len(kinds) if arguments.quick else 1 + 3 * len(kinds)))
    facts, size = machine.describe(), RANDOM_SIZES["base"].vocabulary
    with ended_by_signals():
        whole = prepare("base", arguments.cache, progress.say, keep=arguments.keep_models)
        without = _settings(whole, rows, arguments, progress)
        for kind in kinds:
            mapped = candidates.prepare_candidates(whole, size, kind, progress.say)
            with_map = _settings(mapped, rows, arguments, progress, kind)
            for row in rows:
                settings = with_map[row], without[row]
                found = measure((mapped, whole), row, kind, settings, arguments)
                results.write(out, {"machine": facts, "rows": {f"{row.name} {kind}": found}})
                progress.say(summary(found), done=2.0)
    progress.say(f"wrote {out}")


def summary(found: dict[str, Any]) -> str:
    """Put a measurement into a line."""
    seconds = found["seconds"]
    gain, more = (ratios(seconds[system], seconds[OURS]) for system in (OURS_WHOLE, THEIRS))
    return (
        f"{found['row']} {found['kind']}: {gain.median:.2f} x ourselves without ({gain.least:.2f}-"
        f"{gain.most:.2f}), {more.median:.2f} x CTranslate2 with its map ({more.least:.2f}-{more.most:.2f})"
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
