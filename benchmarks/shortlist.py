"""What a shortlist is worth: dragoman with and without one, CTranslate2 with its own and without, in turns.

"base" with random weights; every sentence has about 2,000 candidates of 32,000 words (see
`benchmarks.candidates`), the same for both systems. CTranslate2's settings are searched for both of its ways.

    python -m benchmarks.shortlist [--rows base-greedy-64,base-beam4-32] [--quick]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks import candidates, machine, results
from benchmarks.contest import (
    DRAGOMAN_BEST,
    USUAL,
    Contest,
    Entrant,
    command_line,
    ending,
    start,
    start_ctranslate2,
)
from benchmarks.ctranslate2_search import Search, Settings
from benchmarks.models import RANDOM_SIZES, Model, prepare
from benchmarks.progress import Progress
from benchmarks.spread import ratios
from benchmarks.turns import Peer, ended_by_signals
from benchmarks.workload import FORCED_TOKENS, Row, parse_row

ROWS = "base-greedy-64,base-beam4-32"
_BUDGET_S, _QUICK_BUDGET_S = 30.0, 6.0
_SMALL_BATCHES = (4, 8)
"""CTranslate2 joins the candidates of a batch: smaller batches have fewer."""

OURS, OURS_WHOLE = "dragoman, shortlist", "dragoman"
THEIRS, THEIRS_WHOLE = "CTranslate2, vmap", "CTranslate2"


def _draw(row: Row) -> tuple[list[list[str]], int]:
    return candidates.sentences(RANDOM_SIZES[row.model].vocabulary, row.sentences), FORCED_TOKENS


def _settings(
    model: Model, rows: list[Row], arguments: argparse.Namespace, progress: Progress, name: str
) -> dict[Row, Settings]:
    """Search CTranslate2's settings with this model folder, or take the usual ones."""
    search = Search(
        arguments.cache / f"{name}.json",
        lambda settings: start_ctranslate2(model, settings),
        lambda line: progress.say(line, done=1.0),
        _SMALL_BATCHES,
    )
    if not arguments.quick:
        progress.say(f"searching: {name}", done=sum(search.known(row) is not None for row in rows))
        search.run(rows, _draw)
    return {row: search.known(row) or USUAL for row in rows}


def measure(
    whole: Model, mapped: Model, row: Row, settings: tuple[Settings, Settings], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Measure one row; returns it as the offline benchmark does.

    Args:
        whole: the model as it is.
        mapped: the same with candidates.
        row: which.
        settings: of CTranslate2 with its map and without.
        arguments: of the command line.
    """
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
        contest.run(entrants, _QUICK_BUDGET_S if arguments.quick else _BUDGET_S, arguments.rounds)
    sizes = candidates.mean_candidates(
        RANDOM_SIZES[row.model].vocabulary, sentences, (1, _batch(row, settings[0]))
    )
    return contest.result | {
        "ctranslate2": {THEIRS: settings[0].label, THEIRS_WHOLE: settings[1].label},
        "candidates": {"sentence": sizes[1], "batch": sizes[_batch(row, settings[0])]},
    }


def _batch(row: Row, settings: Settings) -> int:
    """Sentences that CTranslate2 decodes over their candidates together."""
    return int(settings.call.get("max_batch_size") or row.sentences)


def main() -> None:
    """Run the benchmark and write its JSON."""
    parser = command_line(__doc__)
    parser.add_argument("--rows", default=ROWS, help=f"names separated by commas; {ROWS} by default")
    arguments = parser.parse_args()
    try:
        rows = [parse_row(name) for name in arguments.rows.split(",")]
        if any(row.model not in RANDOM_SIZES for row in rows):
            raise ValueError("only models with random weights have candidates here")
    except ValueError as error:
        parser.error(str(error))
    arguments.cache = arguments.cache.resolve()
    out = results.folder(arguments.cache, quick=arguments.quick) / "shortlist.json"
    progress = Progress(len(rows) * (1 if arguments.quick else 4))
    facts = machine.describe()
    with ended_by_signals():
        for name in dict.fromkeys(row.model for row in rows):
            size = RANDOM_SIZES[name].vocabulary
            whole = prepare(name, arguments.cache, progress.say, keep=arguments.keep_models)
            mapped = candidates.prepare_candidates(whole, size, progress.say)
            mine = [row for row in rows if row.model == name]
            with_map = _settings(mapped, mine, arguments, progress, "ctranslate2-vmap")
            without = _settings(whole, mine, arguments, progress, "ctranslate2-no-vmap")
            for row in mine:
                found = measure(whole, mapped, row, (with_map[row], without[row]), arguments)
                results.write(out, {"machine": facts, "rows": {row.name: found}})
                gain = ratios(found["seconds"][OURS_WHOLE], found["seconds"][OURS])
                other = ratios(found["seconds"][THEIRS], found["seconds"][OURS])
                progress.say(
                    f"{row.name}: {gain.median:.2f} x ourselves without ({gain.least:.2f}-{gain.most:.2f}), "
                    f"{other.median:.2f} x CTranslate2 with its map ({other.least:.2f}-{other.most:.2f})",
                    done=2.0,
                )
    progress.say(f"wrote {out}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
