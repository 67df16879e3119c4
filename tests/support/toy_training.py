"""A toy language for tests of training: words are translated one by one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

PAIRS = {
    "the": "das",
    "a": "ein",
    "cat": "Katze",
    "dog": "Hund",
    "bird": "Vogel",
    "house": "Haus",
    "tree": "Baum",
    "sees": "sieht",
    "likes": "mag",
    "finds": "findet",
    "red": "rote",
    "big": "grosse",
    "old": "alte",
    "in": "im",
    "near": "bei",
}
RECIPE = """
name = "toy"
[corpus]
source_language = "en"
target_language = "de"
train_source = ["train.en"]
train_target = ["train.de"]
dev_source = ["dev.en"]
dev_target = ["dev.de"]
[vocabulary]
kind = "bpe"
size = 345
character_coverage = 1.0
[model]
d_model = 64
encoder_layers = 1
decoder_layers = 1
encoder_heads = 2
decoder_heads = 2
encoder_ffn_dim = 128
decoder_ffn_dim = 128
max_positions = 32
[training]
"""


def write_corpus(folder: Path, train: int = 600, dev: int = 30) -> None:
    """Write ``train.en``, ``train.de``, ``dev.en`` and ``dev.de``, of 2 to 6 words a line."""
    rng = np.random.default_rng(0)
    words = list(PAIRS)
    for name, count in (("train", train), ("dev", dev)):
        rows = [
            [words[i] for i in rng.integers(len(words), size=int(rng.integers(2, 7)))] for _ in range(count)
        ]
        (folder / f"{name}.en").write_text("".join(" ".join(row) + "\n" for row in rows))
        (folder / f"{name}.de").write_text("".join(" ".join(PAIRS[w] for w in row) + "\n" for row in rows))


def write_recipe(folder: Path, **training: object) -> Path:
    """Write ``recipe.toml`` beside the corpus; ``training`` are settings of its last section."""
    values = {"threads": 1, "batch_tokens": 400, "warmup_updates": 60, "learning_rate": 0.004, **training}
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in values.items()]
    (folder / "recipe.toml").write_text(RECIPE + "".join(lines))
    return folder / "recipe.toml"


def losses(run: Path) -> dict[tuple[str, int], float]:
    """Read the last record of each measurement: a killed run repeats those after its last checkpoint."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {(record["kind"], record["update"]): record["loss"] for record in records}
