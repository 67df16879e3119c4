"""Recipes of both architectures: the same corpus, batches and schedule, and as many parameters."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from model.checkpoint import new_model
from model.config import AnyConfig, RnnConfig, TransformerConfig
from model.tokenizer import Tokenizer

ARCHITECTURES = ("transformer", "rnn")
SEEDS = (1, 2)
CHECKPOINTS = 12
"""Checkpoints of a run, at even distances: that of equal time is the last one within it."""


@dataclass(frozen=True)
class Corpus:
    """A corpus and what both architectures are made of on it.

    Attributes:
        name: of the corpus.
        parts: train, dev and test: paths of both sides below ``data/``.
        vocabulary: settings of the recipe's section.
        transformer: settings of the recipe's [model]; the RNN gets the same width of embeddings.
        updates: of each run.
        batch_tokens: of each update.
        dropout: of both.
        tokenize: sacreBLEU's tokenizer, "none" for text that is cut already.
    """

    name: str
    parts: dict[str, tuple[str, str]]
    vocabulary: dict[str, Any]
    transformer: dict[str, Any]
    updates: int
    batch_tokens: int = 2048
    dropout: float = 0.3
    tokenize: str = "none"
    languages: tuple[str, str] = ("en", "de")
    max_positions: int = 256
    data: Path = field(default=Path("data"))

    def files(self, part: str) -> tuple[Path, Path]:
        """Give the paths of one part."""
        source, target = self.parts[part]
        return (self.data / source).resolve(), (self.data / target).resolve()


_TINY = {"encoder_heads": 4, "decoder_heads": 4, "norm": "pre", "d_model": 128}
CORPORA = {
    "multi30k": Corpus(
        "multi30k",
        {
            part: (f"multi30k-bpe-en-de/{name}.bpe.en.gz", f"multi30k-bpe-en-de/{name}.bpe.de.gz")
            for part, name in (("train", "train"), ("dev", "valid"), ("test", "test2016"))
        },
        {"kind": "word", "joint": True, "size": 20000},
        _TINY | {"encoder_layers": 4, "decoder_layers": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256},
        updates=1320,
    ),
    "tatoeba": Corpus(
        "tatoeba",
        {
            part: (f"tatoeba-en-de/{part}.en.gz", f"tatoeba-en-de/{part}.de.gz")
            for part in ("train", "dev", "test")
        },
        {"kind": "unigram", "joint": True, "size": 6000},
        _TINY | {"encoder_layers": 4, "decoder_layers": 4, "encoder_ffn_dim": 512, "decoder_ffn_dim": 512},
        updates=1800,
        dropout=0.1,
        tokenize="13a",
    ),
}


def parameters(config: AnyConfig) -> int:
    """Count the parameters of an architecture, tied ones once."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in new_model(config).parameters())


def matched_rnn(config: TransformerConfig, encoder_layers: int = 2, decoder_layers: int = 2) -> RnnConfig:
    """Describe the RNN whose parameters are as many as a Transformer's, as nearly as its width allows.

    Args:
        config: of the Transformer.
        encoder_layers: of the RNN, each in both directions.
        decoder_layers: of the RNN.
    """
    wanted = parameters(config)

    def rnn(width: int) -> RnnConfig:
        return RnnConfig(
            architecture="rnn",
            source_vocab_size=config.source_vocab_size,
            target_vocab_size=config.target_vocab_size,
            d_model=config.d_model,
            state_dim=width,
            encoder_layers=encoder_layers,
            decoder_layers=decoder_layers,
            max_positions=config.max_positions,
            share_source_target_embeddings=config.share_source_target_embeddings,
            dropout=config.dropout,
        )

    low, high = 1, 2048  # halves of widths
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if parameters(rnn(2 * middle)) <= wanted else (low, middle)
    return min((rnn(2 * half) for half in (low, high)), key=lambda found: abs(parameters(found) - wanted))


def architecture(corpus: Corpus, kind: str, tokenizer: Tokenizer) -> AnyConfig:
    """Complete an architecture with the vocabulary of the corpus."""
    transformer = TransformerConfig(
        source_vocab_size=tokenizer.source_vocab_size,
        target_vocab_size=tokenizer.target_vocab_size,
        dropout=corpus.dropout,
        max_positions=corpus.max_positions,
        **corpus.transformer,
    )
    return transformer if kind == "transformer" else matched_rnn(transformer)


def write_recipe(
    corpus: Corpus,
    folder: Path,
    name: str,
    model: dict[str, Any],
    *,
    training: dict[str, Any],
    vocabulary: Path | None = None,
) -> Path:
    """Write a recipe.

    Args:
        corpus: to train on.
        folder: gets ``NAME.toml``.
        name: of the recipe and the model.
        model: settings of [model].
        training: settings of [training] beside those that all runs share.
        vocabulary: a run whose vocabulary is taken; it is learned otherwise.
    """
    shared = {
        "batch_tokens": corpus.batch_tokens,
        "warmup_updates": min(400, int(training["max_updates"]) // 4),
        "precision": "fp32",
        "threads": 1,
        "device": "cpu",
        "validate_every": int(training["max_updates"]),
        "validate_sentences": 50,
        "stop_metric": "loss",
        "keep_checkpoints": CHECKPOINTS + 2,
        "average_checkpoints": 0,
    }
    train, dev = corpus.files("train"), corpus.files("dev")
    sections = {
        "corpus": {
            "source_language": corpus.languages[0],
            "target_language": corpus.languages[1],
            "train_source": [str(train[0])],
            "train_target": [str(train[1])],
            "dev_source": [str(dev[0])],
            "dev_target": [str(dev[1])],
        },
        "vocabulary": {"path": str(vocabulary.resolve())} if vocabulary else corpus.vocabulary,
        "model": model,
        "training": shared | training,
    }
    lines = [f"name = {json.dumps(name)}"]
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def model_settings(corpus: Corpus, kind: str, tokenizer: Tokenizer) -> dict[str, Any]:
    """Give the settings of [model]: all but what the vocabulary says."""
    values = architecture(corpus, kind, tokenizer).model_dump(mode="json", exclude_none=True)
    return {name: value for name, value in values.items() if not name.endswith("vocab_size")}
