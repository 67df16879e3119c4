"""An evaluation as a page: scores, also by length, what damage costs, and the weakest translations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from model.evaluation import page

_ROBUSTNESS = {
    "robustness": "With damaged sources",
    "robustness_served": "With damaged sources, as the server answers",
}
_FEW_LABELS = 8
_SCORES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}


def write_evaluation_page(file: Path, report: Mapping[str, Any]) -> Path:
    """Write the page of what ``Evaluation.report`` tells.

    Args:
        file: where; directories above it are made.
        report: also with ``model`` and ``beam_size``.

    Returns:
        The page's path.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    return page.write(file, f"Evaluation of {report['model']}", _parts(report))


def _parts(report: Mapping[str, Any]) -> Iterator[str]:
    if "sentences" in report:
        yield from _scores(report)
    if "fairness" in report:
        yield page.heading("Women and men")
        yield from _fairness(report["fairness"])


def _fairness(found: Mapping[str, Any]) -> Iterator[str]:
    if (pairs := found.get("mt_geneval")) is not None:
        shares = ("accuracy", "decided", "decided_sentences")
        of_pairs = [(name, *(str(pairs[name][key]) for key in shares)) for name in ("female", "male")]
        head = ("MT-GenEval", "accuracy %", "right of decided %", "decided sentences")
        yield page.table([head, *of_pairs, ("gap", "", str(pairs["gap"]), "")])
    if (sets := found.get("winomt")) is not None:
        numbers = ("accuracy", "delta_g", "undecided", "sentences")
        kinds = [kind for kind in ("all", "pro", "anti") if kind in sets]
        of_sets = [(kind, *(str(sets[kind][key]) for key in numbers)) for kind in kinds]
        yield page.table([("WinoMT", "accuracy %", "ΔG", "undecided %", "sentences"), *of_sets])


def _scores(report: Mapping[str, Any]) -> Iterator[str]:
    facts = [("sentences", f"{report['sentences']:,}", ""), ("beam size", str(report["beam_size"]), "")]
    scores = [(_SCORES[key], f"{report[key]:.2f}", report[f"{key}_signature"]) for key in _SCORES]
    yield page.table([*facts, *scores])
    buckets = report["by_length"]
    yield page.heading("By words of the source")
    labels = [f"{bucket['words']}\n({bucket['sentences']:,})" for bucket in buckets]
    yield page.plots(_bars(_SCORES[key], labels, [one[key] for one in buckets]) for key in ("bleu", "chrf"))
    for key, title in _ROBUSTNESS.items():
        if key in report:
            yield page.heading(title)
            yield from _robustness(report[key])
    if "against" in report:
        yield page.heading(f"Against {report['against']['model']}")
        yield from _comparison(report["against"])
    yield page.heading("Furthest from their references, by chrF")
    for weak in report["weakest"]:
        yield page.table(
            [
                ("source", weak["source"]),
                ("reference", weak["reference"]),
                (f"chrF {weak['chrf']:.1f}", weak["translation"]),
            ]
        )
        yield "<br>"


def _robustness(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield page.plots(
        _bars(title, list(found), [one[key] for one in found.values()], shown)
        for key, title, shown in (
            ("ratio", "chrF by that without damage", "%.2f"),
            ("consistency", "chrF of the translations against those without", "%.0f"),
        )
    )
    numbers = ("bleu", "bleu_lost", "chrf", "chrf_lost", "consistency")
    rows = [
        (
            kind,
            *(f"{one[key]:.2f}" for key in numbers),
            f"{one['ratio']:.3f}",
            f"{one['changed_sentences']:,}",
        )
        for kind, one in found.items()
    ]
    head = ("", "BLEU", "lost", "chrF", "lost", "consistency", "ratio", "sentences changed")
    yield page.table([head, *rows])


def _comparison(found: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for key in ("bleu", "chrf"):
        one = found[key]
        systems = (f"{one[side]:.2f} ({_between(one[f'{side}_interval'])})" for side in ("ours", "theirs"))
        rows.append(
            (_SCORES[key], *systems, f"{one['difference']:+.2f}", f"{one['p_value']:.4f}", one["signature"])
        )
    yield page.table([("", "this (95 %)", "the other (95 %)", "difference", "p", "paired bootstrap"), *rows])


def _between(interval: Sequence[float]) -> str:
    return f"{interval[0]:.2f} to {interval[1]:.2f}"


def _bars(title: str, labels: Sequence[str], values: Sequence[float], shown: str = "%.1f") -> str:
    figure = Figure(figsize=(5.2, 3.0), layout="constrained")
    axes = figure.add_subplot()
    axes.margins(y=0.12)
    axes.bar_label(axes.bar(range(len(values)), values, width=0.6), fmt=shown, fontsize=8)
    many = len(labels) > _FEW_LABELS
    axes.set_xticks(
        range(len(labels)), [page.plain(label) for label in labels], fontsize=8, rotation=90 if many else 0
    )
    axes.set_title(title, fontsize=10)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3, axis="y")
    return page.svg(figure)
