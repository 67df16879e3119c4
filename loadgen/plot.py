"""A run as a PNG picture: latencies over time and by percentile, and what came of the requests."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from loadgen.generator import Plan
from loadgen.samples import ANSWERED, Samples
from loadgen.summary import counted_latencies_s, percentile

_DPI = 90
_DOTS = 20_000
_NINES = (50.0, 90.0, 99.0, 99.9, 99.99)


class PlotError(Exception):
    """The library that draws is not installed, or the picture cannot be written."""


def require_pyplot() -> Any:
    """Load the library that draws, before any load is made.

    Raises:
        PlotError: it is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise PlotError("--plot needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def draw(samples: Samples, plan: Plan, file: Path) -> None:
    """Draw a run.

    Args:
        samples: of the run.
        plan: of the same; the warm-up is shaded.
        file: PNG to write.

    Raises:
        PlotError: it cannot be drawn or written.
    """
    plt = require_pyplot()
    figure, (over_time, outcomes, nines) = plt.subplots(1, 3, figsize=(13, 3.8))
    kinds = samples.kinds
    step = max(1, len(kinds) // _DOTS)
    good = [at for at in range(0, len(kinds), step) if kinds[at] == ANSWERED]
    over_time.plot(
        [samples.meant_s[at] for at in good],
        [1e3 * (samples.finished_s[at] - samples.meant_s[at]) for at in good],
        ".",
        markersize=2,
        alpha=0.5,
    )
    over_time.set_ylim(bottom=0)
    over_time.set(xlabel="meant to be sent, s", ylabel="latency, ms")
    seconds = range(math.ceil(max(samples.finished_s, default=0.0)) + 1)
    for kind in sorted(set(kinds), key=lambda kind: (kind != ANSWERED, kind)):
        ends = zip(kinds, samples.finished_s, strict=True)
        counted = Counter(int(finished_s) for name, finished_s in ends if name == kind)
        label = "translated" if kind == ANSWERED else kind
        outcomes.step(seconds, [counted[second] for second in seconds], where="post", label=label)
    outcomes.set_ylim(bottom=0)
    outcomes.set(xlabel="s", ylabel="ended in this second")
    if kinds:
        outcomes.legend(fontsize=8)
    for axis in (over_time, outcomes):
        axis.axvspan(0, plan.warm_s, alpha=0.1, color="black")
    latencies_s = sorted(counted_latencies_s(samples, plan))
    shown = [percent for percent in _NINES if len(latencies_s) >= 1 / (1 - percent / 100) / 2]
    nines.plot(range(len(shown)), [1e3 * percentile(latencies_s, percent) for percent in shown], "o-")
    nines.set_xticks(range(len(shown)), [f"p{percent:g}" for percent in shown])
    nines.set_ylim(bottom=0)
    nines.set(ylabel="latency, ms")
    for axis in (over_time, outcomes, nines):
        axis.grid(alpha=0.3)
    figure.tight_layout()
    try:
        figure.savefig(file, dpi=_DPI, metadata={"Software": None})
    except (OSError, ValueError) as error:
        raise PlotError(f"{file}: cannot be written: {error}") from None
    finally:
        plt.close(figure)
