"""The Transformer against the recurrent network that it replaced: quality, speed, and what distance costs.

Both have as many parameters (to 2 %), the same batches, schedule and updates, and each the learning rate
that is best for it. Parts are made once and interrupted ones resumed, so the same command goes on; it takes
some hours on two quiet cores and prints what ``results.json`` holds. Two commands may share the work:

    python -m benchmarks.rnn_against_transformer --architectures transformer &
    python -m benchmarks.rnn_against_transformer --architectures rnn; wait
    python -m benchmarks.rnn_against_transformer --plots docs/images

Tatoeba and Multi30k lie at data/tatoeba-en-de and data/multi30k-bpe-en-de (docs/training.md). Times are
processor time of one thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.recurrence.contenders import ARCHITECTURES, CORPORA, SEEDS
from benchmarks.recurrence.plots import draw_probes, draw_quality, draw_speed
from benchmarks.recurrence.probes import LENGTHS, TRAINED, probe
from benchmarks.recurrence.runs import Contest, curve
from benchmarks.recurrence.speed import measured_speed
from benchmarks.reporting import results
from benchmarks.reporting.progress import Progress

_OUT = Path("runs/rnn-against-transformer")


def run_corpus(name: str, out: Path, kinds: Sequence[str], seeds: Sequence[int]) -> dict[str, Any]:
    """Train and score what is not there yet; returns the section of one corpus."""
    contest = Contest(CORPORA[name], out)
    runs = {}
    cost = contest.cost()
    for seed in seeds:
        for kind in kinds:
            scores = contest.scores(kind, seed)
            runs[f"{kind}-{seed}"] = {
                "scores": scores,
                "curve": curve(contest.train(kind, seed)),
                "rate": contest.best_rate(kind),
            }
    return {"parameters": contest.sizes(), "cost": cost, "runs": runs}


def tables(found: dict[str, Any]) -> str:
    """Lay out results as Markdown tables."""
    lines = [
        "| corpus | model | parameters | s an update | tokens/s | utilisation | BLEU, equal updates "
        "| BLEU, equal time | chrF, equal time |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, entry in found.get("corpora", {}).items():
        for kind in ARCHITECTURES:
            runs = [run["scores"] for key, run in entry["runs"].items() if key.startswith(kind)]
            if not runs:
                continue
            cost = entry["cost"][kind]
            cells = [
                " ".join(f"{scores[point][metric]:.1f}" for scores in runs)
                for point, metric in (
                    ("equal_updates", "bleu"),
                    ("equal_time", "bleu"),
                    ("equal_time", "chrf"),
                )
            ]
            lines.append(
                f"| {name} | {kind} | {entry['parameters'][kind]:,} | {cost['seconds_per_update']:.3f} "
                f"| {cost['tokens_per_s']:,.0f} | {cost['utilisation']:.2f} | " + " | ".join(cells) + " |"
            )
    if "probes" in found:
        lines += ["", f"| probe (trained to {TRAINED}) | " + " | ".join(map(str, LENGTHS)) + " |"]
        lines.append("|---|" + "---|" * len(LENGTHS))
        for key in ("copied symbols", "copy", "agreement"):
            for kind in ARCHITECTURES:
                rows = [run[key] for name, run in found["probes"].items() if name.startswith(kind)]
                if rows:
                    means = [f"{100 * statistics.mean(shares):.0f}" for shares in zip(*rows, strict=True)]
                    lines.append(f"| {key}, {kind}, % | " + " | ".join(means) + " |")
    if "speed" in found:
        speed = found["speed"]
        lines += ["", "| tokens a sentence | " + " | ".join(map(str, speed["lengths"])) + " |"]
        lines.append("|---|" + "---|" * len(speed["lengths"]))
        for key, label in (("training_tokens_per_s", "training, tokens/s"), ("decoding_ms", "decoding, ms")):
            for kind in ARCHITECTURES:
                lines.append(f"| {label}, {kind} | " + " | ".join(f"{v:,}" for v in speed[kind][key]) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the parts that are asked for, and print all results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rnn_against_transformer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=_OUT)
    parser.add_argument("--parts", nargs="*", default=["speed", "probes", *CORPORA])
    parser.add_argument("--architectures", nargs="+", choices=ARCHITECTURES, default=list(ARCHITECTURES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="also draw the results")
    chosen = parser.parse_args(arguments)
    file = chosen.out / "results.json"
    progress = Progress(len(chosen.parts))
    try:
        for part in chosen.parts:
            progress.say(part)
            results.write(file, _made(part, chosen, results.read(file)))
            progress.say(f"{part}: done", done=1)
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on from here")
    found = results.read(file)
    if chosen.plots:
        if "corpora" in found:
            draw_quality(found["corpora"], chosen.plots / "rnn-quality.png")
        if "speed" in found:
            draw_speed(found["speed"], chosen.plots / "rnn-speed.png")
        if "probes" in found:
            draw_probes(found["probes"], chosen.plots / "rnn-probes.png")
    print(tables(found))


def _made(part: str, chosen: argparse.Namespace, before: dict[str, Any]) -> dict[str, Any]:
    """Make one part; returns what the results get, with what another command put there."""
    if part == "speed":
        if "speed" in before:
            return {}
        contest = Contest(CORPORA["multi30k"], chosen.out)
        return {"speed": measured_speed(contest.corpus, contest.tokenizer)}
    if part == "probes":
        found = {
            f"{kind}-{seed}": probe(chosen.out, kind, seed)
            for seed in chosen.seeds
            for kind in chosen.architectures
        }
        return {"probes": found}
    section = run_corpus(part, chosen.out, chosen.architectures, chosen.seeds)
    known = before.get("corpora", {}).get(part, {}).get("runs", {})
    return {"corpora": {part: section | {"runs": {**known, **section["runs"]}}}}


if __name__ == "__main__":
    main()
