"""Trains both architectures and scores what they translate, at equal updates and at equal time.

A run is made once and resumed if it was interrupted; its folder then holds ``scores.json``. Time is processor
time of one thread: what an update of each architecture costs is measured in turns on the same batches, so a
busy machine changes no result.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from benchmarks.recurrence.contenders import (
    ARCHITECTURES,
    CHECKPOINTS,
    SEEDS,
    Corpus,
    architecture,
    model_settings,
    parameters,
    write_recipe,
)
from model.data.batching import Batch
from model.data.corpus import read_parallel
from model.evaluation.evaluation import checkpoint_translator
from model.evaluation.evaluation_report import Evaluation
from model.tokenizer import Tokenizer
from model.training.trainer import Trainer

RATES = (0.001, 0.002, 0.004, 0.008)
"""Peak learning rates, of which each architecture gets the one that is best for it: by whole runs, since the
RNN is fastest with the highest for 200 updates, and then stands still."""

_COST_BATCHES = 24
_PEAK_WIDTH = 2048


class Contest:
    """Both architectures on one corpus. Owned by the calling thread.

    Args:
        corpus: to train and to score on.
        out: folder of all results; those of the corpus lie in one of its name.
    """

    def __init__(self, corpus: Corpus, out: Path) -> None:
        self.corpus = corpus
        self.folder = out / corpus.name

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary, learned once; all runs take it."""
        recipe = write_recipe(
            self.corpus,
            self.folder,
            "vocabulary",
            {"d_model": 8, "encoder_heads": 1, "decoder_heads": 1, "encoder_layers": 1, "decoder_layers": 1},
            training={"max_updates": 1, "learning_rate": 0.001},
        )
        trainer = Trainer(recipe, self.folder / "vocabulary", quiet=True)
        trainer.prepare()
        return trainer.tokenizer

    def trainer(self, kind: str, name: str, *, seed: int, rate: float, updates: int) -> Trainer:
        """Make the trainer of a run, or that of one to be resumed."""
        settings = model_settings(self.corpus, kind, self.tokenizer)
        training = {"seed": seed, "max_updates": updates, "learning_rate": rate}
        if updates == self.corpus.updates:
            training["validate_every"] = updates // CHECKPOINTS
        recipe = write_recipe(
            self.corpus,
            self.folder,
            name,
            settings,
            training=training,
            vocabulary=self.folder / "vocabulary",
        )
        return Trainer(recipe, self.folder / name, quiet=True)

    def sizes(self) -> dict[str, int]:
        """Count the parameters of both."""
        return {kind: parameters(architecture(self.corpus, kind, self.tokenizer)) for kind in ARCHITECTURES}

    def best_rate(self, kind: str) -> float:
        """Try the learning rates with the first seed; the lowest dev loss at the end decides."""
        runs = {rate: self._trained(kind, SEEDS[0], rate) for rate in RATES}
        return min(RATES, key=lambda rate: float(last_of_kind(runs[rate], "valid")["loss"]))

    def train(self, kind: str, seed: int) -> Path:
        """Train one run to its end with the best rate; returns its folder."""
        return self._trained(kind, seed, self.best_rate(kind))

    def _trained(self, kind: str, seed: int, rate: float) -> Path:
        name = f"{kind}-{rate}-{seed}"
        run = self.folder / name
        if not (run / "finished").exists():
            self.trainer(kind, name, seed=seed, rate=rate, updates=self.corpus.updates).run()
            (run / "finished").touch()
        return run

    def cost(self) -> dict[str, Any]:
        """Measure what an update costs, once: seconds of one thread, in turns on the same batches."""
        file = self.folder / "cost.json"
        if not file.exists():
            file.write_text(json.dumps(self._measured_cost(), indent=1) + "\n")
        return dict(json.loads(file.read_text()))

    def _measured_cost(self) -> dict[str, Any]:
        torch.set_num_threads(1)
        trainers = {
            kind: self.trainer(kind, f"cost-{kind}", seed=1, rate=0.001, updates=10_000)
            for kind in ARCHITECTURES
        }
        batches = list(_first(trainers["rnn"].data.epoch(1, 0, self.corpus.batch_tokens), _COST_BATCHES + 2))
        seconds: dict[str, list[float]] = {kind: [] for kind in ARCHITECTURES}
        for batch in batches:
            for kind, trainer in trainers.items():
                seconds[kind].append(update_seconds(trainer, batch))
        counted = batches[2:]
        tokens = sum(batch.target_tokens for batch in counted)
        peak = _peak_products_per_s()
        found: dict[str, Any] = {"peak_products_per_s": peak, "batches": len(counted)}
        for kind, trainer in trainers.items():
            total = sum(seconds[kind][2:])
            found[kind] = {
                "seconds_per_update": total / len(counted),
                "tokens_per_s": tokens / total,
                "utilisation": 3 * _products(trainer, counted) / total / peak,
            }
        ratios = [r / t for r, t in zip(seconds["rnn"][2:], seconds["transformer"][2:], strict=True)]
        ratio = found["rnn"]["seconds_per_update"] / found["transformer"]["seconds_per_update"]
        return found | {"ratio": ratio, "ratio_quartiles": statistics.quantiles(ratios, n=4)}

    def scores(self, kind: str, seed: int) -> dict[str, Any]:
        """Score a finished run on the test set: its end, and where equal time ends it."""
        run = self.train(kind, seed)
        file = run / "scores.json"
        if not file.exists():
            ratio = self.cost()["ratio"]
            slower = "rnn" if ratio > 1 else "transformer"
            end = self.corpus.updates
            points = {"equal_updates": end, "equal_time": end}
            if kind == slower:
                points["equal_time"] = equal_time_updates(end, max(ratio, 1 / ratio))
            found = {point: self._score(run, updates) for point, updates in points.items()}
            file.write_text(json.dumps(found, indent=1) + "\n")
        return dict(json.loads(file.read_text()))

    def _score(self, run: Path, updates: int) -> dict[str, Any]:
        source, target = self.corpus.files("test")
        tokenized = self.corpus.tokenize == "none"
        text = read_parallel([source], [target])
        evaluation = Evaluation(text, tokenize=self.corpus.tokenize, join_bpe=tokenized)
        lines = evaluation.translations(checkpoint_translator(run / f"checkpoint-{updates:07d}"))
        return {"updates": updates, **evaluation.scores(lines)}


def equal_time_updates(updates: int, ratio: float) -> int:
    """Give the last checkpoint of the slower one within the time of the faster one's run.

    Args:
        updates: of the run; a checkpoint at every twelfth part.
        ratio: of the slower one's update to the faster one's, at least 1.
    """
    every = updates // CHECKPOINTS
    return max(every, int(updates / ratio) // every * every)


def update_seconds(trainer: Trainer, batch: Batch) -> float:
    """Make one update without a recipe's schedule; returns its processor time in seconds."""
    start = time.process_time()
    loss, _ = trainer.batch_loss(batch, 0.1)
    (loss / batch.target_tokens).backward()
    torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
    trainer.optimizer.step()
    trainer.optimizer.zero_grad(set_to_none=True)
    return time.process_time() - start


def last_of_kind(run: Path, kind: str) -> dict[str, Any]:
    """Read the last record of one kind of a run."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return dict([record for record in records if record["kind"] == kind][-1])


def curve(run: Path) -> list[tuple[int, float, float]]:
    """Read updates, dev loss and dev BLEU of every validation of a run."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    records = {r["update"]: r for r in map(json.loads, lines) if r["kind"] == "valid"}
    return [(update, r["loss"], r["bleu"]) for update, r in sorted(records.items())]


def _products(trainer: Trainer, batches: list[Batch]) -> float:
    """Count multiplications of a forward pass: weights of each side by its tokens, attention's left out."""
    weights = {"encoder": 0, "decoder": trainer.model.projection.weight.numel()}
    for name, parameter in trainer.model.named_parameters():
        if parameter.dim() == 2 and "embedding" not in name and not name.startswith("projection"):
            weights["encoder" if name.startswith("encoder") else "decoder"] += parameter.numel()
    sources = sum(int(batch.source_lengths.sum()) for batch in batches)
    targets = sum(batch.target_tokens for batch in batches)
    return weights["encoder"] * sources + weights["decoder"] * targets


def _peak_products_per_s() -> float:
    """Measure a product of fp32 matrices on one thread: multiplications a second, the best of five."""
    left, right = (torch.randn(_PEAK_WIDTH, _PEAK_WIDTH) for _ in range(2))
    times = []
    for _ in range(6):
        start = time.process_time()
        left @ right
        times.append(time.process_time() - start)
    return float(_PEAK_WIDTH**3 / min(times[1:]))


def _first(batches: Iterator[Batch], count: int) -> Iterator[Batch]:
    for _, batch in zip(range(count), batches, strict=False):
        yield batch
