"""What a student learns most from: the text, its teacher's outputs, its teacher's probabilities or logits.

One small student is trained on pronunciations once for each, with the same seed, batches and updates, and
scored on the test part, greedily. `[distillation]` in docs/training.md; Kim and Rush, 2016; Ba and Caruana,
2014.

    python -m benchmarks.training.g2p prepare cmudict.dict.gz data/cmudict
    dragoman import bundles/tasks/g2p --out runs/g2p-teacher
    python -m benchmarks.training.word_losses runs/g2p-teacher data/cmudict --out runs/word-losses
"""

from __future__ import annotations

import gzip
import itertools
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from tqdm import tqdm

from benchmarks.training.g2p import error_rates, read_part
from model.evaluation.evaluation import checkpoint_translator
from model.training.trainer import Trainer

_LINES = 2000
_RECIPE = """
name = "g2p-student"
task = "grapheme-to-phoneme"
[corpus]
source_language = "en"
target_language = "en-x-arpabet"
train_source = ["{data}/train.words.gz"]
train_target = ["{targets}"]
dev_source = ["{data}/dev.words.gz"]
dev_target = ["{data}/dev.phonemes.gz"]
max_tokens = 40
[vocabulary]
path = "{teacher}"
[model]
d_model = 96
encoder_layers = 2
decoder_layers = 1
encoder_heads = 4
decoder_heads = 4
encoder_ffn_dim = 384
decoder_ffn_dim = 384
max_positions = 64
share_source_target_embeddings = false
[training]
seed = {seed}
max_updates = {updates}
batch_tokens = 3000
learning_rate = 0.003
warmup_updates = 200
cooldown_updates = {cooldown}
label_smoothing = {smoothing}
threads = 1
validate_every = {updates}
validate_sentences = 100
stop_metric = "loss"
keep_checkpoints = 1
average_checkpoints = 0
"""
ROWS = {
    "text": (False, ""),
    "text, cross-entropy on the teacher's distribution": (False, "cross_entropy"),
    "text, squared error of logits": (False, "logits"),
    "the teacher's outputs": (True, ""),
    "the teacher's outputs, cross-entropy on its distribution": (True, "cross_entropy"),
}
"""What is learnt: whether the targets are the teacher's outputs, and the loss beside them."""


def write_outputs(teacher: Path, data: Path, out: Path) -> None:
    """Write what the teacher makes of every word, greedily, one a line; the text where it says nothing."""
    pronounce = checkpoint_translator(teacher)
    sides = data / "train.words.gz", data / "train.phonemes.gz"
    with (
        gzip.open(sides[0], "rt") as words,
        gzip.open(sides[1], "rt") as phonemes,
        gzip.open(out, "wt") as file,
    ):
        pairs = zip(words, phonemes, strict=True)
        parts = iter(lambda: [*itertools.islice(pairs, _LINES)], [])
        for part in tqdm(parts, desc="the teacher's outputs", unit="klines", unit_scale=_LINES / 1000):
            said = pronounce([word.strip() for word, _ in part])
            file.writelines(f"{own or text.strip()}\n" for own, (_, text) in zip(said, part, strict=True))


def score(checkpoint: Path, right: dict[str, list[str]]) -> tuple[float, float]:
    """Compute word and phoneme error rates of a checkpoint, in percent."""
    return error_rates(dict(zip(right, checkpoint_translator(checkpoint)([*right]), strict=True)), right)


def table(rows: Iterable[dict[str, object]]) -> str:
    """Lay out results as Markdown."""
    lines = ["| learns from | words wrong, % | phonemes wrong, % | minutes |", "|---|---|---|---|"]
    lines += [
        f"| {row['from']} | {row['words']:.2f} | {row['phonemes']:.2f} | {row['minutes']:.1f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main(
    teacher: Annotated[Path, typer.Argument(help="Checkpoint of a larger model.")],
    data: Annotated[Path, typer.Argument(help="What benchmarks.training.g2p prepare wrote.")],
    out: Annotated[Path, typer.Option(help="Directory of the runs; finished ones are not made again.")],
    updates: Annotated[int, typer.Option(help="Of each student.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of each student.")] = 1,
) -> None:
    """Train a student in each way and print how often it is wrong."""
    out.mkdir(parents=True, exist_ok=True)
    outputs = (out / "train.outputs.gz").resolve()
    if not outputs.exists():
        write_outputs(teacher, data, made := outputs.with_suffix(".part"))
        made.rename(outputs)
    right = read_part(data, "test")
    rows = [{"from": "(the teacher)", "minutes": 0.0} | _rates(score(teacher, right))]
    for number, (name, (taught, loss)) in enumerate(ROWS.items()):
        run = out / f"{number}-{seed}"
        if not (run / "scores.json").exists():
            text = _RECIPE.format(
                data=data.resolve(),
                targets=outputs if taught else data.resolve() / "train.phonemes.gz",
                teacher=teacher.resolve(),
                seed=seed,
                updates=updates,
                cooldown=updates // 2,
                smoothing=0.0 if loss else 0.1,
            )
            if loss:
                text += f'[distillation]\nteacher = "{teacher.resolve()}"\nloss = "{loss}"\n'
            recipe = out / f"{number}-{seed}.toml"
            recipe.write_text(text, encoding="utf-8")
            started = time.monotonic()
            best = Trainer(recipe, run).run()
            row = {"from": name, "minutes": (time.monotonic() - started) / 60} | _rates(score(best, right))
            (run / "scores.json").write_text(json.dumps(row) + "\n", encoding="utf-8")
        rows.append(json.loads((run / "scores.json").read_text(encoding="utf-8")))
    typer.echo(table(rows))


def _rates(rates: tuple[float, float]) -> dict[str, object]:
    return dict(zip(("words", "phonemes"), rates, strict=True))


if __name__ == "__main__":
    typer.run(main)
