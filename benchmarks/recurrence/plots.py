"""Pictures of the comparison, small enough for the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.recurrence.contenders import ARCHITECTURES
from benchmarks.recurrence.probes import TRAINED
from benchmarks.reporting.plots import pyplot, save

_COLORS = {"transformer": "#c0392b", "rnn": "#2c3e50"}


def draw_quality(corpora: dict[str, Any], file: Path) -> None:
    """Draw dev loss against processor time and BLEU against length: a row a corpus, a line a run."""
    plt = pyplot()
    figure, axes = plt.subplots(len(corpora), 2, figsize=(8.4, 3 * len(corpora)), squeeze=False)
    for line, (name, found) in zip(axes, corpora.items(), strict=True):
        for run, entry in found["runs"].items():
            kind, seed = run.split("-")
            style = {
                "color": _COLORS[kind],
                "label": run,
                "markersize": 3,
                "alpha": 1 if seed == "1" else 0.5,
            }
            cost = found["cost"][kind]["seconds_per_update"]
            line[0].plot([p[0] * cost for p in entry["curve"]], [p[1] for p in entry["curve"]], "o-", **style)
            parts = entry["scores"]["equal_updates"]["by_length"]
            line[1].plot([part["words"] for part in parts], [part["bleu"] for part in parts], "o-", **style)
        line[0].set_xlabel("processor seconds of training")
        line[0].set_ylabel("dev loss a token")
        line[0].set_title(name, fontsize=10)
        line[1].set_xlabel("words of the source")
        line[1].set_ylabel("BLEU, equal updates")
        line[1].set_ylim(bottom=0)
        line[0].legend(fontsize=8)
    _finish(axes, figure, file)


def draw_speed(speed: dict[str, Any], file: Path) -> None:
    """Draw training speed and the time to decode a sentence against length."""
    figure, axes = pyplot().subplots(1, 2, figsize=(8.4, 3), squeeze=False)
    for axis, key, label in (
        (axes[0][0], "training_tokens_per_s", "training, tokens/s"),
        (axes[0][1], "decoding_ms", "decoding a sentence, ms"),
    ):
        for kind in ARCHITECTURES:
            axis.plot(speed["lengths"], speed[kind][key], "o-", color=_COLORS[kind], label=kind, markersize=4)
        axis.set_xscale("log", base=2)
        axis.set_xticks(speed["lengths"], [str(length) for length in speed["lengths"]])
        axis.set_xlabel("tokens of a sentence")
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[0][0].legend(fontsize=8)
    _finish(axes, figure, file)


def draw_probes(probes: dict[str, Any], file: Path) -> None:
    """Draw right answers against length, with the longest trained one marked."""
    figure, axes = pyplot().subplots(1, 2, figsize=(8.4, 3), squeeze=False)
    for axis, key, label in (
        (axes[0][0], "copied symbols", "copy: right symbols, %"),
        (axes[0][1], "agreement", "agreement: right, %"),
    ):
        for run, found in probes.items():
            kind, seed = run.split("-")
            shares = [100 * share for share in found[key]]
            alpha = 1 if seed == "1" else 0.5
            axis.plot(
                found["lengths"], shares, "o-", color=_COLORS[kind], label=run, markersize=4, alpha=alpha
            )
        axis.axvline(TRAINED, color="#95a5a6", linestyle="--")
        axis.set_xlabel("symbols; trained up to the dashed line")
        axis.set_ylabel(label)
        axis.set_ylim(0, 104)
    axes[0][0].legend(fontsize=8)
    _finish(axes, figure, file)


def _finish(axes: Any, figure: Any, file: Path) -> None:
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    save(figure, file)
