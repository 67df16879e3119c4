"""A run as a page: what was trained, its curves, translations over time, and where the model looks.

One HTML file without scripts or anything from elsewhere; plots are SVG in it.
"""

from __future__ import annotations

import html
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

PAGE_NAME = "report.html"
_MOST_POINTS = 400
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem } svg { max-width: 100%; height: auto }
table { border-collapse: collapse; width: 100% } th { white-space: nowrap; font-weight: 600; width: 8rem }
td, th { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #d8dee4 }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1rem }
"""


@dataclass(frozen=True)
class Sample:
    """A dev sentence and what the model made of it at some point.

    Attributes:
        update: number of the update after which it was translated.
        source: the sentence.
        reference: its translation in the corpus.
        translation: the model's.
    """

    update: int
    source: str
    reference: str
    translation: str


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
    parts = [f"<h1>{html.escape(title)}</h1>", _table(facts.items()), "<h2>Curves</h2><div class=plots>"]
    parts.append(_curves("loss a token", {"training": (train, "loss"), "dev": (valid, "smoothed_loss")}))
    parts.append(_curves("dev scores", {"BLEU": (valid, "bleu"), "chrF": (valid, "chrf")}))
    parts.append(_curves("learning rate", {"": (train, "lr")}))
    parts.append(_curves("target tokens a second", {"": (train, "tokens_per_second")}))
    parts.append("</div>")
    samples = read_samples(run / "samples.jsonl")
    if samples:
        parts.append("<h2>Translations over time</h2>")
        parts += [_history(source, of_one) for source, of_one in samples.items()]
    maps = [_heat_map(one) for one in attention]
    if maps:
        parts += ["<h2>Where the last layer looks</h2><div class=plots>", *maps, "</div>"]
    head = f"<meta charset=utf-8><title>{html.escape(title)}</title><style>{_STYLE}</style>"
    page = run / PAGE_NAME
    page.write_text(
        f"<!doctype html><html lang=en>{head}<body>{''.join(parts)}</body></html>\n", encoding="utf-8"
    )
    return page


def read_metrics(file: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read training and dev records by update; of two for one, as after resuming, the later one counts."""
    kinds: dict[str, dict[int, dict[str, Any]]] = {"train": {}, "valid": {}}
    for line in _lines(file):
        if line["kind"] in kinds:
            kinds[line["kind"]][line["update"]] = line
    train, valid = ([found[update] for update in sorted(found)] for found in kinds.values())
    return train, valid


def read_samples(file: Path) -> dict[str, list[Sample]]:
    """Read samples by their source, each by update; later ones count, as in ``read_metrics``."""
    found: dict[str, dict[int, Sample]] = {}
    for line in _lines(file):
        sample = Sample(**line)
        found.setdefault(sample.source, {})[sample.update] = sample
    return {source: [of_one[update] for update in sorted(of_one)] for source, of_one in found.items()}


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


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = (f"<tr><th>{html.escape(name)}<td>{html.escape(value)}" for name, value in rows)
    return f"<table>{''.join(cells)}</table>"


def _history(source: str, samples: Sequence[Sample]) -> str:
    rows = [("source", source), ("reference", samples[-1].reference)]
    before = None
    for sample in samples:
        if sample.translation != before:  # what stays the same needs no line
            rows.append((f"update {sample.update:,}", sample.translation))
        before = sample.translation
    return _table(rows) + "<br>"


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
    return _svg(figure)


def _heat_map(one: AttentionMap) -> str:
    width, height = 1.4 + 0.32 * len(one.source), 1.2 + 0.26 * len(one.target)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(one.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(one.source)), [_shown(piece) for piece in one.source], rotation=90, fontsize=8)
    axes.set_yticks(range(len(one.target)), [_shown(piece) for piece in one.target], fontsize=8)
    return _svg(figure)


def _shown(piece: str) -> str:
    return piece.replace("$", r"\$")  # matplotlib reads text between dollars as a formula


def _svg(figure: Figure) -> str:
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    text = drawn.getvalue()
    return text[text.index("<svg") :]
