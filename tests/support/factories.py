"""Small things that tests are made of: a tiny trained model and bundles of it, exported for real."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from export.bundle import Precision
from export.pipeline import ExportOptions, export_bundle
from export.shortlist.build import ShortlistOptions
from export.text_measures.learn_lexicon import LexiconTexts
from export.text_measures.measure import MeasureOptions
from model.checkpoint import CheckpointConfig, SpecialTokens, model_tensors, write_directory
from model.config import TransformerConfig
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from model.vocabulary.learning import train_sentencepiece

# A language of its own: every English word has one German word, so that a model of 70,000 weights learns it.
_WORDS = {
    "articles": {"the": "die", "a": "eine", "this": "diese", "every": "jede"},
    "adjectives": {"old": "alte", "small": "kleine", "red": "rote", "tired": "müde", "clever": "kluge"},
    "nouns": {"cat": "Katze", "bird": "Amsel", "lamp": "Lampe", "city": "Stadt", "flower": "Blume"},
    "verbs": {"sees": "sieht", "looks for": "sucht", "finds": "findet", "loves": "liebt", "knows": "kennt"},
    "ends": {".": ".", "?": "?", "!": "!", " today.": " heute."},
}
_SPECIAL = SpecialTokens()
FIREFOX = {
    "norm": "post",
    "final_norm": False,
    "decoder_mixer": "ssru",
    "positions": "sinusoidal_t2t",
    "output_bias": True,
}


def parallel_text(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Make ``count`` different sentences and their translations, of 3 to 16 words."""
    draw = random.Random(seed)
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        clauses = [_clause(draw) for _ in range(draw.choice((1, 1, 1, 2)))]
        end = draw.choice(list(_WORDS["ends"].items()))
        source = " and ".join(clause[0] for clause in clauses) + end[0]
        pairs[source] = " und ".join(clause[1] for clause in clauses) + end[1]
    return list(pairs), list(pairs.values())


def _clause(draw: random.Random) -> tuple[str, str]:
    kinds = ["articles", "adjectives", "nouns", "verbs", "articles", "nouns"]
    if draw.random() < 0.4:
        del kinds[1]
    if draw.random() < 0.3:
        kinds = kinds[:-2]
    chosen = [draw.choice(list(_WORDS[kind].items())) for kind in kinds]
    return " ".join(pair[0] for pair in chosen), " ".join(pair[1] for pair in chosen)


def tiny_config(vocab_size: int, **changes: object) -> TransformerConfig:
    """Describe a Transformer that trains in seconds; ``changes`` are fields of TransformerConfig."""
    values = {
        "source_vocab_size": vocab_size,
        "target_vocab_size": vocab_size,
        "d_model": 48,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_heads": 4,
        "decoder_heads": 2,
        "encoder_ffn_dim": 96,
        "decoder_ffn_dim": 96,
        "max_positions": 128,
        "dropout": 0.0,
    }
    return TransformerConfig.model_validate(values | changes)


def tiny_tokenizer(file: Path) -> Tokenizer:
    """Train a joint SentencePiece model on the factory's language and write it to ``file``."""
    sources, targets = parallel_text(400)
    train_sentencepiece(itertools.chain(sources, targets), file, vocab_size=360, kind="bpe")
    return Tokenizer.load(file)


def tiny_checkpoint(directory: Path, updates: int = 300, **changes: object) -> Path:
    """Train a tiny translator for some seconds, write its checkpoint below ``directory``, return the path.

    ``changes`` are fields of TransformerConfig.
    """
    file = directory / "source.spm"
    tokenizer = tiny_tokenizer(file)
    generator = torch.random.get_rng_state()
    torch.manual_seed(0)
    model = Transformer(tiny_config(tokenizer.target_vocab_size, **changes))
    _train(model, tokenizer, updates)
    torch.random.set_rng_state(generator)
    config = CheckpointConfig(
        name="tiny-en-de",
        model=model.config,
        special_tokens=_SPECIAL,
        source_language="en",
        target_language="de",
        attribution="Sentences made for the tests.",
        updates=updates,
    )
    target = directory / "tiny"
    write_directory(
        target,
        {"model.safetensors": model_tensors(model)},
        {"config.json": config.model_dump_json(indent=1)},
        {file.name: file},
    )
    return target


def _train(model: Transformer, tokenizer: Tokenizer, updates: int) -> None:
    sources, targets = parallel_text(2000, seed=1)
    source_ids = [[*ids, _SPECIAL.eos_id] for ids in tokenizer.encode_batch(sources)]
    target_ids = [[_SPECIAL.bos_id, *ids, _SPECIAL.eos_id] for ids in tokenizer.encode_target_batch(targets)]
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=updates)
    draw = random.Random(0)
    model.train()
    for _ in range(updates):
        chosen = draw.sample(range(len(sources)), 48)
        lengths = torch.tensor([len(source_ids[i]) for i in chosen])
        source, target = _pad([source_ids[i] for i in chosen]), _pad([target_ids[i] for i in chosen])
        logits = model(source, lengths, target[:, :-1])
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=_SPECIAL.pad_id
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()


def _pad(rows: list[list[int]]) -> torch.Tensor:
    width = max(len(row) for row in rows)
    return torch.tensor([row + [_SPECIAL.pad_id] * (width - len(row)) for row in rows])


def write_text(directory: Path, count: int = 220, seed: int = 7) -> tuple[Path, Path]:
    """Write ``count`` sentences and their translations to ``dev.en`` and ``dev.de``; return both paths."""
    files = directory / "dev.en", directory / "dev.de"
    for file, lines in zip(files, parallel_text(count, seed), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


def tiny_bundle(
    directory: Path,
    checkpoint: Path,
    precision: Precision = "fp32",
    multi_step_widths: Sequence[int] | None = (2, 4),
) -> Path:
    """Export a checkpoint with every gate, beam widths 1, 2 and 4, below ``directory``; return the bundle."""
    source, target = write_text(directory)
    out = directory / "bundle"
    options = ExportOptions(
        precision=precision,
        dev_source=[source],
        dev_target=[target],
        beam_widths=(1, 2, 4),
        multi_step_widths=multi_step_widths,
        # So small a model loses some tenths, more or less of them from machine to machine.
        allow_quality_loss=True,
    )
    export_bundle(checkpoint, out, options)
    return out


def renamed(bundle: Path, out: Path, name: str, *pairs: str, **changes: object) -> Path:
    """Copy a bundle that claims another name and other directions, ``en-de`` for instance."""
    shutil.copytree(bundle, out)
    file = out / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    directions = [dict(zip(("source", "target"), pair.split("-"), strict=True)) for pair in pairs]
    file.write_text(
        json.dumps(manifest | {"name": name, "directions": directions} | changes), encoding="utf-8"
    )
    return out


def shortlist_options(directory: Path, pairs: int = 300, **changes: Any) -> ShortlistOptions:
    """Write what a shortlist is learnt from and measured on into ``directory``; say so.

    More than half of the tiny vocabulary spells bytes, so every table is wide.
    """
    changes = {"allow_wide": True, **changes}
    dev = write_text(directory)
    train = directory / "train.en", directory / "train.de"
    for file, lines in zip(train, parallel_text(pairs, seed=3), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return ShortlistOptions(dev_source=dev[0], dev_target=dev[1], source=train[0], target=train[1], **changes)


def measure_options(directory: Path, pairs: int = 300) -> MeasureOptions:
    """Write what a bundle is measured on into ``directory``; say so."""
    dev = write_text(directory)
    train = directory / "train.en", directory / "train.de"
    for file, lines in zip(train, parallel_text(pairs, seed=3), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return MeasureOptions(*dev, LexiconTexts(*train))
