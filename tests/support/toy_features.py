"""A toy task: sources are feature vectors, and every word has a shape of three. And a bundle of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from export.pipeline import ExportOptions, export_bundle
from model.features.files import Features, write_features
from model.training.trainer import Trainer

WORDS = ("sun", "moon", "star", "cloud", "rain", "snow")
SIZE = 5
RECIPE = """
name = "toy-features"
task = "naming"
[corpus]
source_language = "zxx"
target_language = "en"
train_source = ["train.npz"]
train_target = ["train.words"]
dev_source = ["dev.npz"]
dev_target = ["dev.words"]
[vocabulary]
kind = "word"
size = 300
[model]
d_model = 32
encoder_layers = 1
decoder_layers = 1
encoder_heads = 2
decoder_heads = 2
encoder_ffn_dim = 64
decoder_ffn_dim = 64
max_positions = 32
dropout = 0.0
[training]
threads = 1
max_updates = 240
batch_tokens = 800
warmup_updates = 40
learning_rate = 0.01
cooldown_updates = 100
validate_every = 1000
validate_sentences = 60
stop_metric = "loss"
average_checkpoints = 0
"""


def described(count: int, seed: int) -> tuple[list[Features], list[str]]:
    """Draw sequences of 9 to 18 vectors, and the three to six words that they are."""
    shapes = np.random.default_rng(0).uniform(-1, 1, (len(WORDS), 3, SIZE)).astype(np.float32)
    rng = np.random.default_rng(seed)
    rows = [rng.integers(len(WORDS), size=int(rng.integers(3, 7))) for _ in range(count)]
    features = [shapes[row].reshape(-1, SIZE) for row in rows]
    noisy = [one + rng.normal(0, 0.05, one.shape).astype(np.float32) for one in features]
    return noisy, [" ".join(WORDS[i] for i in row) for row in rows]


def write_corpus(folder: Path, train: int = 1500, dev: int = 220) -> None:
    """Write ``train`` and ``dev``, .npz and .words."""
    for seed, (part, count) in enumerate((("train", train), ("dev", dev)), start=1):
        features, lines = described(count, seed)
        write_features(folder / f"{part}.npz", features)
        (folder / f"{part}.words").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def train(folder: Path) -> Path:
    """Write the corpus and train on it for some seconds; returns the checkpoint."""
    write_corpus(folder)
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    return Trainer(folder / "recipe.toml", folder / "run", quiet=True).run()


def features_bundle(folder: Path, precision: str = "int8") -> Path:
    """Train and export, below ``folder``; returns the bundle."""
    out = folder / "bundle"
    options = ExportOptions(
        precision=precision,  # type: ignore[arg-type]
        dev_source=[folder / "dev.npz"],
        dev_target=[folder / "dev.words"],
        calibration=[folder / "train.npz"],
        beam_widths=(1, 2),
    )
    export_bundle(train(folder), out, options)
    return out
