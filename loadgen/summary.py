"""A run's figures, as JSON and for a person."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from loadgen.generator import Plan
from loadgen.samples import ANSWERED, Samples

PERCENTS = (50.0, 95.0, 99.0, 99.9)
_LATE_S = 0.01


def percentile(values: Sequence[float], percent: float) -> float:
    """Give the smallest value that at least this share of the values does not exceed.

    Args:
        values: in any order.
        percent: above 0, at most 100.

    Raises:
        ValueError: there are no values, or the share is out of range.
    """
    if not values or not 0 < percent <= 100:
        raise ValueError(f"percentile {percent} of {len(values)} values")
    return sorted(values)[math.ceil(percent / 100 * len(values)) - 1]


def counted_latencies_s(samples: Samples, plan: Plan) -> list[float]:
    """Latencies of the translated requests that count.

    Of an open loop those that were meant to be sent in the window, however late they were answered; of a
    closed loop those that were answered in it.

    Args:
        samples: of a run.
        plan: of the same.
    """
    decisive = samples.meant_s if plan.rate is not None else samples.finished_s
    return [
        finished_s - meant_s
        for kind, at_s, meant_s, finished_s in zip(
            samples.kinds, decisive, samples.meant_s, samples.finished_s, strict=True
        )
        if kind == ANSWERED and plan.warm_s <= at_s < plan.end_s
    ]


def summarise(samples: Samples, plan: Plan, interrupted_s: float | None = None) -> dict[str, Any]:
    """Put a run into numbers.

    Args:
        samples: of the run.
        plan: of the same.
        interrupted_s: when it was interrupted; None if it was not.

    Returns:
        What can be written as JSON. Rates are of what ended within the window.
    """
    end_s = plan.end_s if interrupted_s is None else min(interrupted_s, plan.end_s)
    seconds = max(1e-9, end_s - plan.warm_s)
    latencies_s = counted_latencies_s(samples, plan)
    decisive = samples.meant_s if plan.rate is not None else samples.finished_s
    kinds: Counter[str] = Counter()
    late_s, in_window, words = [], 0, 0
    for kind, at_s, late, finished_s, written in zip(
        samples.kinds, decisive, samples.late_s, samples.finished_s, samples.words, strict=True
    ):
        if plan.warm_s <= at_s < plan.end_s:
            kinds[kind] += 1
            late_s.append(late)
        if kind == ANSWERED and plan.warm_s <= finished_s < plan.end_s:
            in_window += 1
            words += written
    return {
        "loop": "open" if plan.rate is not None else "closed",
        "rate": plan.rate,
        "arrivals": plan.arrivals if plan.rate is not None else None,
        "clients": plan.clients,
        "seconds": round(seconds, 3),
        "warm_up_s": plan.warm_s,
        "requests": sum(kinds.values()),
        "answered": len(latencies_s),
        "answered_per_s": in_window / seconds,
        "words_per_s": words / seconds,
        "errors": {kind: number for kind, number in sorted(kinds.items()) if kind != ANSWERED},
        "retries": samples.retries,
        "latency_ms": _latency(latencies_s),
        "client_late_p99_ms": 1e3 * percentile(late_s, 99) if late_s else None,
    }


def _latency(latencies_s: list[float]) -> dict[str, float] | None:
    if not latencies_s:
        return None
    ordered = sorted(latencies_s)
    found = {f"p{percent:g}": 1e3 * percentile(ordered, percent) for percent in PERCENTS}
    return found | {"mean": 1e3 * math.fsum(ordered) / len(ordered), "max": 1e3 * ordered[-1]}


def describe(summary: dict[str, Any]) -> str:
    """Write a summary as lines for a terminal.

    Args:
        summary: of `summarise`.
    """
    load = (
        f"{summary['rate']:g} requests/s, {summary['arrivals']}"
        if summary["rate"]
        else f"{summary['clients']} clients"
    )
    times = f"{summary['seconds']:.1f} s after {summary['warm_up_s']:g} s of warm-up"
    lines = [
        f"{summary['loop']} loop, {load}, {times}",
        f"  requests   {summary['requests']}, translated {summary['answered']}",
        f"  throughput {summary['answered_per_s']:.1f} translated/s, {summary['words_per_s']:.0f} words/s",
    ]
    latency = summary["latency_ms"]
    if latency is None:
        lines.append("  latency    nothing was translated")
    else:
        shown = ", ".join(f"{name} {value:.1f}" for name, value in latency.items())
        since = "the time it was meant to be sent" if summary["rate"] else "sending"
        lines.append(f"  latency    {shown} ms, from {since}")
    errors = ", ".join(f"{number} x {kind}" for kind, number in summary["errors"].items())
    lines.append(f"  errors     {errors or 'none'}")
    if summary["retries"]:
        lines.append(f"  retries    {summary['retries']}, as Retry-After said")
    late_ms = summary["client_late_p99_ms"]
    if late_ms is not None and late_ms > 1e3 * _LATE_S:
        lines.append(
            f"  warning    p99 of sending late is {late_ms:.0f} ms: this client is short of processor time, "
            "and latencies have that in them"
        )
    return "\n".join(lines)
