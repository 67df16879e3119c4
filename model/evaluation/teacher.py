"""A teacher's translations of a corpus, for a student to learn (Kim and Rush, 2016)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import torch

from model.checkpoint import load_checkpoint
from model.data.corpus import CorpusError, iterate_lines
from model.evaluation.evaluation import translate

_LINES = 1 << 15
"""Sentences that are sorted by length together."""

_ROWS = {"cpu": 64, "cuda": 1024}
_MOST_TIMES, _FEW_CHARACTERS = 1.8, 20
"""A translation that is longer than so many times its reference, and by more than so many characters, has run
away."""


def taught(directory: Path, source: Path, reference: Path) -> Iterator[str]:
    """Yield for each line the translation of a checkpoint, greedily, or the reference where that failed.

    Args:
        directory: the checkpoint; runs on a GPU if there is one.
        source: text of its first direction, plain or .gz.
        reference: its translation by people; stands in for what is empty, ran away, or is too long to read.

    Raises:
        CheckpointError: the checkpoint is damaged.
        CorpusError: the files cannot be read, or one has fewer lines.
    """
    read = load_checkpoint(directory)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, special = read.model.to(device).eval(), read.config.special_tokens
    direction = read.config.all_directions[0]
    around = len(direction.source_prefix_ids) + len(direction.source_suffix_ids)
    limit = model.config.max_positions - around - 2
    pairs = itertools.zip_longest(iterate_lines(source), iterate_lines(reference))
    while some := list(itertools.islice(pairs, _LINES)):
        if None in some[-1]:
            raise CorpusError(f"{source}, {reference}: differ in their number of lines")
        lengths = map(len, read.tokenizer.encode_batch([line for line, _ in some]))
        fit = [number for number, length in enumerate(lengths) if 0 < length <= limit]
        texts = translate(
            model,
            read.tokenizer,
            [some[number][0] for number in fit],
            special,
            direction,
            batch_size=_ROWS[device],
            max_length=limit,
        )
        found = dict(zip(fit, texts, strict=True))
        for number, (_, line) in enumerate(some):
            yield _usable(found.get(number, ""), line)


def _usable(translation: str, reference: str) -> str:
    text = " ".join(translation.split())
    longest = max(_MOST_TIMES * len(reference), len(reference) + _FEW_CHARACTERS)
    return text if text and len(text) <= longest else reference
