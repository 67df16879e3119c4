"""Reproduce a published table: train a recipe with a seed, average, score every test set as the paper does.

The recipe's corpus is tokenised and cut by byte-pair encoding; the average of its last checkpoints becomes an
fp32 bundle, the server's engine translates with a beam, pieces are joined, and BLEU is computed without any
further tokenisation. The same command goes on with a run that was interrupted; `scores.json` in the run's
directory holds the result.

    python -m benchmarks.training.published_table --seed 1
    python -m benchmarks.training.published_table --summary runs/multi30k-en-de-1 runs/multi30k-en-de-2
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from export.pipeline import ExportOptions, export_bundle
from model.data.corpus import read_parallel
from model.evaluation.scoring import joined, score
from model.recipe import load_recipe
from model.training.trainer import Trainer
from server.service.translation.file_translation import translate_lines

RECIPE = Path("recipes/multi30k-en-de.toml")
SETS = ("test2016", "test2017", "mscoco2017")
PUBLISHED = {"test2016": 41.02, "test2017": 33.36, "mscoco2017": 29.88}
"""Wu et al., ACL 2021, text-only Transformer-Tiny, English to German."""
BEAM = 5


def score_run(recipe_file: Path, run: Path, sets: Sequence[str], *, beam: int = BEAM) -> dict[str, object]:
    """Score the averaged checkpoint of a finished run on test sets that lie beside its dev set.

    Args:
        recipe_file: that the run was trained with; a set's files are named like the dev set's, with the name
            of the set in place of what stands before the first dot.
        run: directory of the run; gets ``scores.json``.
        sets: names of the test sets.
        beam: hypotheses kept at each step.

    Returns:
        What ``scores.json`` holds.

    Raises:
        CorpusError: a test set is missing.
    """
    recipe = load_recipe(recipe_file)
    (text,) = recipe.corpus.directions
    dev_source, dev_target = text.dev_source[0], text.dev_target[0]
    texts = {
        name: read_parallel([named_like(dev_source, name)], [named_like(dev_target, name)]) for name in sets
    }
    scores = {}
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle"
        options = ExportOptions(
            precision="fp32", dev_source=[dev_source], dev_target=[dev_target], beam_widths=(1, beam)
        )
        export_bundle(run / "average", bundle, options, lambda line: print(line, file=sys.stderr))
        for name, text in texts.items():
            print(f"translating {name}, {len(text):,} sentences", file=sys.stderr)
            lines = translate_lines(bundle, text.sources, beam_size=beam, length_penalty=1.0, split=False)
            scores[name] = score(joined(lines), joined(text.targets), tokenize="none").as_dict()
    updates = json.loads((run / "average" / "config.json").read_text(encoding="utf-8"))["updates"]
    result = {"recipe": recipe.name, "beam_size": beam, "updates": updates, "scores": scores}
    (run / "scores.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def named_like(path: Path, name: str) -> Path:
    """Return the path beside ``path`` whose name has ``name`` before the first dot."""
    return path.with_name(".".join([name, *path.name.split(".")[1:]]))


def summary(runs: Sequence[Path]) -> str:
    """Lay out the scores of several seeds as a Markdown table: mean, and lowest to highest."""
    found = [json.loads((run / "scores.json").read_text(encoding="utf-8")) for run in runs]
    lines = ["| BLEU | " + " | ".join(found[0]["scores"]) + " |", "|---|" + "---|" * len(found[0]["scores"])]
    if all(name in PUBLISHED for name in found[0]["scores"]):
        lines.append("| published | " + " | ".join(f"{PUBLISHED[n]:.2f}" for n in found[0]["scores"]) + " |")
    for run, result in zip(runs, found, strict=True):
        values = [f"{entry['bleu']:.2f}" for entry in result["scores"].values()]
        lines.append(f"| {run.name}, {result['updates']:,} updates | " + " | ".join(values) + " |")
    if len(found) > 1:
        cells = []
        for name in found[0]["scores"]:
            bleu = [result["scores"][name]["bleu"] for result in found]
            cells.append(f"{statistics.mean(bleu):.2f} ({min(bleu):.2f}-{max(bleu):.2f})")
        lines.append(f"| mean of {len(found)} seeds (lowest-highest) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and score, or print the table of runs that were scored."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training.published_table", description=__doc__
    )
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="directory of the run; runs/NAME-SEED unless given")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--summary", nargs="+", type=Path, metavar="RUN", help="only print their table")
    chosen = parser.parse_args(arguments)
    if not chosen.summary:
        out = chosen.out or Path("runs") / f"{chosen.recipe.stem}-{chosen.seed}"
        try:
            Trainer(chosen.recipe, out, seed=chosen.seed).run()
        except KeyboardInterrupt:
            sys.exit("stopped; the same command goes on from here")
        score_run(chosen.recipe, out, chosen.sets)
        chosen.summary = [out]
    print(summary(chosen.summary))


if __name__ == "__main__":
    main()
