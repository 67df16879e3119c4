"""A shortlist for the "base" model with random weights: the same candidates for dragoman and CTranslate2.

In a real table a few words are the candidates of nearly everything and most words of little; here both the
words of the sentences and the candidates of a word are drawn so that the n-th most frequent one comes up in
proportion to 1/n. Both systems multiply with the candidates of all sentences of a batch together; how many
these are depends on how much sentences share. With 8 draws a word, a sentence of 25 words has some 330
candidates and 32 of them have 2,700 together. A table learnt from 100,000 pairs of Tatoeba with 30 targets a
  word gives 375 and 2,800 for 25 words of that text; with 100 targets, 730 and 5,300.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.inputs import vocabulary
from benchmarks.inputs.workload import FORCED_TOKENS
from benchmarks.models import CALIBRATION_LENGTHS, Model, calibration_file, convert, once

KINDS = {"narrow": 8}
"""Draws for the candidates of a word."""

_ALWAYS = 200
# Flatter at the top than 1/n, as texts are.
_TARGET_OFFSET, _SOURCE_OFFSET = 10.0, 3.0
_SEED = 5
_VMAP = "candidates"


def frequent(draw: np.random.Generator, size: int, offset: float, count: int) -> NDArray[np.int64]:
    """Draw ids of ordinary words, the n-th of them in proportion to 1 / (n + offset).

    Args:
        draw: source of chance.
        size: of the vocabulary.
        offset: flattens the top.
        count: how many, repeats included.
    """
    weights = 1.0 / (np.arange(size - 1 - vocabulary.FIRST_ORDINARY_ID) + offset)
    upto = np.cumsum(weights) / weights.sum()
    found: NDArray[np.int64] = np.searchsorted(upto, draw.random(count)) + vocabulary.FIRST_ORDINARY_ID
    return np.minimum(found, size - 2)


def rules(size: int, kind: str) -> dict[tuple[int, ...], list[int]]:
    """Give the candidates of every source id; those of the empty key hold for every sentence.

    Length words get the counting words that they ask for, so that the shortlist passes the exporter's gate.

    Args:
        size: of the vocabulary.
        kind: of `KINDS`.
    """
    draw, drawn_each = np.random.default_rng(_SEED), KINDS[kind]
    ordinary = range(vocabulary.FIRST_ORDINARY_ID, size - 1)
    found: dict[tuple[int, ...], list[int]] = {(): list(ordinary[:_ALWAYS])}
    for words in range(1, vocabulary.LONGEST + 1):
        found[vocabulary.length_id(words),] = [vocabulary.counting_id(n) for n in range(1, words + 1)]
    drawn = frequent(draw, size, _TARGET_OFFSET, drawn_each * len(ordinary)).reshape(
        len(ordinary), drawn_each
    )
    for source, targets in zip(ordinary, drawn, strict=True):
        found[source,] = np.unique(np.append(targets, source)).tolist()
    return found


def write_rules(path: Path, size: int, kind: str) -> None:
    """Write the candidates as a vocabulary map of CTranslate2's."""
    names = vocabulary.pieces(size)
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for key, targets in rules(size, kind).items():
            stream.write(" ".join(names[i] for i in key) + "\t" + " ".join(names[i] for i in targets) + "\n")


def sentences(size: int, count: int) -> list[list[str]]:
    """Draw sentences of 25 words, as pieces; frequent words come up often, as in a text."""
    names = vocabulary.pieces(size)
    draw = np.random.default_rng(_SEED + 1)
    ids = frequent(draw, size, _SOURCE_OFFSET, FORCED_TOKENS * count).reshape(count, FORCED_TOKENS)
    return [[names[i] for i in row] for row in ids.tolist()]


def mean_candidates(
    size: int, kind: str, drawn: Sequence[Sequence[str]], batches: Sequence[int]
) -> dict[int, float]:
    """Count the candidates of batches, on average.

    Args:
        size: of the vocabulary.
        kind: of `KINDS`.
        drawn: sentences as pieces.
        batches: sentences decoded over their candidates together, of each kind of batch.
    """
    numbers = {name: i for i, name in enumerate(vocabulary.pieces(size))}
    found = rules(size, kind)
    each = [set(found[()]).union(*(found[numbers[word],] for word in sentence)) for sentence in drawn]
    return {
        batch: float(np.mean([len(set().union(*each[i : i + batch])) for i in range(0, len(each), batch)]))
        for batch in batches
    }


def prepare_candidates(model: Model, size: int, kind: str, report: Callable[[str], None]) -> Model:
    """Make a bundle with the shortlist, and CTranslate2's model with the same as its map.

    Args:
        model: with random weights, prepared.
        size: of its vocabulary.
        kind: of `KINDS`.
        report: gets a line at every stage.
    """
    home = model.huggingface.parent
    made = replace(model, bundle=home / f"bundle-{kind}", ctranslate2=home / f"ctranslate2-{kind}")
    vmap = home / f"{_VMAP}-{kind}"
    origin = Path(__file__).read_text(encoding="utf-8") + (home / "bundle.made-of").read_text(
        encoding="ascii"
    )
    once(
        vmap,
        origin,
        lambda out: write_rules(out / _VMAP, size, kind),
        lambda: report(f"{kind}: drawing candidates"),
    )
    once(
        made.ctranslate2,
        origin,
        lambda out: convert(model.huggingface, out, vmap / _VMAP),
        lambda: report(f"{model.name}, {kind}: converting for CTranslate2 with a vmap"),
    )
    once(
        made.bundle,
        origin,
        lambda out: _add_shortlist(model, vmap / _VMAP, out, size, report),
        lambda: report(f"{model.name}, {kind}: adding the shortlist for dragoman"),
    )
    return made


def _add_shortlist(model: Model, vmap: Path, out: Path, size: int, report: Callable[[str], None]) -> None:
    """Run the real command's work, gate included: the dev set counts down, as the model does."""
    from export.shortlist.build import ShortlistOptions, shortlist_bundle

    dev_source = calibration_file(model.bundle, size)
    dev_target = dev_source.with_name("calibration.target.txt")
    lines = [
        " ".join(vocabulary.word(vocabulary.counting_id(n)) for n in range(words, 0, -1))
        for words in CALIBRATION_LENGTHS
    ]
    dev_target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.rmtree(out)
    shortlist_bundle(model.bundle, out, ShortlistOptions(dev_source, dev_target, vmap=vmap), report=report)
