"""Results as PNG pictures, small enough for the repository."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.inputs.workload import COUNTS
from benchmarks.reporting.tables import throughput

_COLOURS = {"dragoman": "#c0392b", "CTranslate2": "#2c3e50", "transformers": "#95a5a6"}
_STYLES = {"CTranslate2, no batching": "--"}
_DPI = 90


def draw_offline(rows: dict[str, Any], models: Sequence[str], file: Path) -> None:
    """Draw tokens/s against the number of sentences: a column for each model, greedy above beams.

    Args:
        rows: of the offline results.
        models: to draw.
        file: PNG to write.
    """
    plt = pyplot()
    figure, axes = plt.subplots(2, len(models), figsize=(3.4 * len(models), 5.2), squeeze=False)
    for column, model in enumerate(models):
        for line, beam in enumerate((1, 4)):
            axis = axes[line][column]
            for system, colour in _COLOURS.items():
                points = [
                    (count, speed)
                    for count in COUNTS
                    if (found := _find(rows, model, beam, count))
                    and (speed := throughput(found, system)) is not None
                ]
                if points:
                    axis.plot(*zip(*points, strict=True), "o-", color=colour, label=system, markersize=4)
            if not axis.lines:
                axis.set_visible(False)
            axis.set_xscale("log", base=2)
            axis.set_xticks(COUNTS, [str(count) for count in COUNTS])
            axis.set_xlim(COUNTS[0] * 0.8, COUNTS[-1] * 1.25)
            axis.set_ylim(bottom=0)
            axis.set_title(f"{model}, {'greedy' if beam == 1 else f'beam {beam}'}", fontsize=10)
            axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("tokens/s")
    axes[1][0].set_ylabel("tokens/s")
    axes[1][len(models) // 2].set_xlabel("sentences in one call")
    axes[0][0].legend(fontsize=8)
    save(figure, file)


def draw_http(models: dict[str, Any], file: Path) -> None:
    """Draw sentences/s and p95 against clients, and p95 against the arrival rate, a row for each model.

    Args:
        models: of the HTTP results.
        file: PNG to write.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    plt = pyplot()
    figure, axes = plt.subplots(len(models), 3, figsize=(10.2, 2.9 * len(models)), squeeze=False)
    for line, (model, found) in enumerate(models.items()):
        panels = (
            ("closed", "per_s", "sentences/s", "clients"),
            ("closed", "p95_ms", "p95, ms", "clients"),
            ("open", "p95_ms", "p95, ms", "requests/s, fixed"),
        )
        for axis, (kind, key, label, below) in zip(axes[line], panels, strict=True):
            for server, points in curves(found["loads"], kind, key).items():
                colour = _COLOURS[server.partition(",")[0]]
                style = _STYLES.get(server, "-")
                axis.plot(*zip(*points, strict=True), f"o{style}", color=colour, label=server, markersize=4)
            if kind == "closed":
                axis.set_xscale("log", base=4)
                axis.set_xticks([1, 4, 16, 64], ["1", "4", "16", "64"])
                axis.set_xlim(0.8, 80)
                axis.minorticks_off()
            if key == "p95_ms":
                axis.set_yscale("log")
                axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                axis.yaxis.set_major_formatter("{x:g}")
                axis.yaxis.set_minor_locator(NullLocator())
            else:
                axis.set_ylim(bottom=0)
            axis.set_ylabel(label)
            axis.set_xlabel(below)
            axis.grid(alpha=0.3)
        axes[line][1].set_title(model, fontsize=10)
    axes[0][0].legend(fontsize=8)
    save(figure, file)


def curves(loads: dict[str, Any], kind: str, key: str) -> dict[str, list[tuple[float, float]]]:
    """Collect the median over rounds of one figure, for each server, by clients or rate.

    Args:
        loads: of one model.
        kind: closed or open.
        key: of a round's summary; rounds without it are left out.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for load, servers in loads.items():
        sort, _, amount = load.partition(" ")
        if sort != kind:
            continue
        for server, entries in servers.items():
            values = [entry[key] for entry in entries if entry[key] is not None]
            if values:
                found.setdefault(server, []).append((float(amount), statistics.median(values)))
    return found


def _find(rows: dict[str, Any], model: str, beam: int, count: int) -> dict[str, Any] | None:
    name = f"{model}-{'greedy' if beam == 1 else f'beam{beam}'}-{count}"
    found: dict[str, Any] | None = rows.get(name)
    return found


def pyplot() -> Any:
    """Import matplotlib, without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save(figure: Any, file: Path) -> None:
    """Write a figure and close it."""
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    # Without the program's name and version the file changes only if the figures do.
    figure.savefig(file, dpi=_DPI, metadata={"Software": None})
    close: Callable[[Any], None] = pyplot().close
    close(figure)
