"""A run as a page: what was trained, its curves, translations over time, and where the model looks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from model.evaluation import page

PAGE_NAME = "report.html"
_MOST_POINTS = 400


@dataclass(frozen=True)
class Sample:
    """A dev sentence and what the model made of it at some point.

    Attributes:
        update: number of the update after which it was translated.
        direction: from which language to which, or empty in files of earlier versions.
        source: the sentence.
        reference: its translation in the corpus.
        translation: the model's.
    """

    update: int
    source: str
    reference: str
    translation: str
    direction: str = ""


@dataclass(frozen=True)
class AttentionMap:
    """Attention of one sentence.

    Attributes:
        source: S pieces.
        target: T pieces, each beside the row in which it was predicted.
        weights: float [T, S], means over the heads of one layer.
    """

    source: Sequence[str]
    target: Sequence[str]
    weights: NDArray[np.floating[Any]]


def write_page(run: Path, title: str, facts: Mapping[str, str], attention: Iterable[AttentionMap]) -> Path:
    """Write ``report.html`` into a run.

    Args:
        run: directory with ``metrics.jsonl`` and, if sentences were translated, ``samples.jsonl``.
        title: name of the model.
        facts: a table at the top.
        attention: maps to draw.

    Returns:
        The page's path.
    """
    train, valid = read_metrics(run / "metrics.jsonl")
    curves = [
        _curves("loss a token", {"training": (train, "loss"), "dev": (valid, "smoothed_loss")}),
        _curves("dev scores", {"BLEU": (valid, "bleu"), "chrF": (valid, "chrf")}),
        _curves("learning rate", {"": (train, "lr")}),
        _curves("target tokens a second", {"": (train, "tokens_per_second")}),
    ]
    parts = [page.table(facts.items()), page.heading("Curves"), page.plots(curves)]
    samples = read_samples(run / "samples.jsonl")
    if samples:
        parts.append(page.heading("Translations over time"))
        parts += [_history(of_one) for of_one in samples]
    maps = [_heat_map(one) for one in attention]
    if maps:
        parts += [page.heading("Where the last layer looks"), page.plots(maps)]
    return page.write(run / PAGE_NAME, title, parts)


def read_metrics(file: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read training and dev records by update; of two for one, as after resuming, the later one counts."""
    kinds: dict[str, dict[int, dict[str, Any]]] = {"train": {}, "valid": {}}
    for line in _lines(file):
        if line["kind"] in kinds:
            kinds[line["kind"]][line["update"]] = line
    train, valid = ([found[update] for update in sorted(found)] for found in kinds.values())
    return train, valid


def read_samples(file: Path) -> list[list[Sample]]:
    """Read what became of each sentence, by update; later ones count, as in ``read_metrics``."""
    found: dict[tuple[str, str], dict[int, Sample]] = {}
    for line in _lines(file):
        sample = Sample(**line)
        found.setdefault((sample.direction, sample.source), {})[sample.update] = sample
    return [[of_one[update] for update in sorted(of_one)] for of_one in found.values()]


def _lines(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    # A run that was killed may have left half a line, with the next run's first one behind it.
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines


def _history(samples: Sequence[Sample]) -> str:
    last = samples[-1]
    rows = [(last.direction or "source", last.source), ("reference", last.reference)]
    before = None
    for sample in samples:
        if sample.translation != before:  # what stays the same needs no line
            rows.append((f"update {sample.update:,}", sample.translation))
        before = sample.translation
    return page.table(rows) + "<br>"


def _curves(title: str, series: Mapping[str, tuple[Sequence[Mapping[str, Any]], str]]) -> str:
    figure = Figure(figsize=(5.2, 3.0), layout="constrained")
    axes = figure.add_subplot()
    for label, (records, key) in series.items():
        points = [(record["update"], record[key]) for record in records if key in record]
        if points:
            stride = -(-len(points) // _MOST_POINTS)
            updates, values = zip(*points[::stride], strict=True)
            axes.plot(updates, values, label=label or None, marker="." if len(values) < 30 else "")
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("update", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)
    return page.svg(figure)


def _heat_map(one: AttentionMap) -> str:
    width, height = 1.4 + 0.32 * len(one.source), 1.2 + 0.26 * len(one.target)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(one.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(
        range(len(one.source)), [page.plain(piece) for piece in one.source], rotation=90, fontsize=8
    )
    axes.set_yticks(range(len(one.target)), [page.plain(piece) for piece in one.target], fontsize=8)
    return page.svg(figure)
