"""Probes of long-range dependency: tasks that are easy but for the distance, trained up to some length.

``copy``: repeat random symbols. ``agreement``: the first word of the source is of one of eight classes,
symbols follow; the target repeats the symbols and ends in the word that agrees with the first one. Both tasks
train one model, up to ``TRAINED`` symbols. Copies are decoded freely; of an agreement the symbols are given
and only the last word is asked for, so that the distance alone makes it hard.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch

from benchmarks.recurrence.contenders import Corpus
from benchmarks.recurrence.runs import Contest
from model.checkpoint import Checkpoint, load_checkpoint
from model.data.batching import pad_rows
from model.evaluation.evaluation import greedy_decode

TRAINED = 20
LENGTHS = (5, 10, 15, 20, 25, 30, 40, 60)
_SYMBOLS, _CLASSES = 20, 8
_PAIRS, _DEV, _TESTED = 20_000, 300, 100


def example(task: str, length: int, draw: random.Random) -> tuple[list[str], list[str]]:
    """Make a source and its target of ``length`` symbols."""
    symbols = [f"s{draw.randrange(_SYMBOLS)}" for _ in range(length)]
    if task == "copy":
        return ["copy", *symbols], symbols
    kind = draw.randrange(_CLASSES)
    return [f"noun{kind}", *symbols], [*symbols, f"verb{kind}"]


def probe_corpus(folder: Path) -> Corpus:
    """Write the text of both tasks, the same every time, and describe it as a corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    for part, count in (("train", _PAIRS), ("dev", _DEV)):
        pairs = [
            example(draw.choice(("copy", "agreement")), draw.randint(1, TRAINED), draw) for _ in range(count)
        ]
        for side, index in (("source", 0), ("target", 1)):
            text = "".join(" ".join(pair[index]) + "\n" for pair in pairs)
            file = folder / f"{part}.{side}"
            if not file.exists() or file.read_text() != text:  # a file of another time is tokenized again
                file.write_text(text)
    layers = {"encoder_layers": 2, "decoder_layers": 2, "encoder_heads": 4, "decoder_heads": 4}
    return Corpus(
        "probes",
        {part: (f"{part}.source", f"{part}.target") for part in ("train", "dev")},
        {"kind": "word", "joint": True, "size": 300},
        layers | {"d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "norm": "pre"},
        updates=1500,
        dropout=0.0,
        data=folder,
    )


def probe(out: Path, kind: str, seed: int) -> dict[str, Any]:
    """Train one architecture on both tasks, once, and tell how often it is right by length.

    Args:
        out: folder of all results.
        kind: of architecture.
        seed: of the run.

    Returns:
        For ``copy`` and ``agreement`` the shares of right answers at each of ``LENGTHS``, and the shares of
        symbols that are copied right.
    """
    contest = Contest(probe_corpus(out / "probes" / "text"), out)
    run = contest.train(kind, seed)
    file = run / "scores.json"
    if not file.exists():
        torch.set_num_threads(1)
        read = load_checkpoint(run / f"checkpoint-{contest.corpus.updates:07d}")
        copies = [copied(read, length) for length in LENGTHS]
        found = {
            "lengths": LENGTHS,
            "copy": [exact for exact, _ in copies],
            "copied symbols": [symbols for _, symbols in copies],
            "agreement": [agreed(read, length) for length in LENGTHS],
        }
        file.write_text(json.dumps(found, indent=1) + "\n")
    return dict(json.loads(file.read_text()))


def copied(read: Checkpoint, length: int) -> tuple[float, float]:
    """Give the shares of sources copied without an error, and of symbols that are right in their place."""
    examples = _examples("copy", length)
    found = _decoded(read, examples, length + 5, [[]] * len(examples))
    wanted = _target_ids(read, examples)
    right = [
        sum(a == b for a, b in zip(ids, row, strict=False)) for ids, row in zip(found, wanted, strict=True)
    ]
    whole = sum(ids == row for ids, row in zip(found, wanted, strict=True))
    return whole / len(wanted), sum(right) / (length * len(wanted))


def agreed(read: Checkpoint, length: int) -> float:
    """Give the share of last words that agree with the first, with the symbols between them given."""
    examples = _examples("agreement", length)
    wanted = _target_ids(read, examples)
    found = _decoded(read, examples, length + 1, [row[:-1] for row in wanted])
    return sum(ids[-1] == row[-1] for ids, row in zip(found, wanted, strict=True)) / len(wanted)


def _examples(task: str, length: int) -> list[tuple[list[str], list[str]]]:
    draw = random.Random(1000 + length)
    return [example(task, length, draw) for _ in range(_TESTED)]


def _target_ids(read: Checkpoint, examples: list[tuple[list[str], list[str]]]) -> list[list[int]]:
    return read.tokenizer.encode_target_batch([" ".join(target) for _, target in examples])


def _decoded(
    read: Checkpoint,
    examples: list[tuple[list[str], list[str]]],
    steps: int,
    prefixes: list[list[int]],
) -> list[list[int]]:
    special = read.config.special_tokens
    pieces = read.tokenizer.encode_batch([" ".join(source) for source, _ in examples])
    rows = [[*ids, *special.source_suffix_ids] for ids in pieces]
    return greedy_decode(
        read.model,
        pad_rows(rows, special.pad_id),
        torch.tensor([len(row) for row in rows]),
        bos=special.decoder_start_id,
        eos=special.eos_id,
        max_length=steps,
        prefixes=prefixes,
    )
