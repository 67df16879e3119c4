"""What the project set out to reach, and what was measured of it. Pure: JSON in, text out."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.spread import Spread, ratios
from benchmarks.tables import latency_ratio, offline_ratio, shown, table

_OFFLINE = (("base-greedy-64", 1.25), ("base-beam4-32", 1.2), ("tiny-greedy-32", 1.5))
_ALONE = (("base-greedy-1", 0.5), ("tiny-greedy-1", 0.5))
_SERVED, _OVERHEAD = 1.5, 0.10
_BATCHER = "CTranslate2, batcher"


def targets_table(offline: dict[str, Any], http: dict[str, Any]) -> str:
    """Compare every target with what was measured.

    Args:
        offline: results of `benchmarks.offline`, or an empty dictionary.
        http: results of `benchmarks.over_http`, or an empty dictionary.
    """
    rows = offline.get("rows", {})
    lines = [*_offline_lines(rows), *_http_lines(http), *_overhead_lines(http)]
    return table(["", "target", "measured, median (least-most)", "met"], lines)


def overhead(model: dict[str, Any]) -> float | None:
    """Share of our own offline speed that HTTP, tokenisation and scheduling cost at 64 clients.

    Args:
        model: HTTP results of one model, with ``offline_words_per_s`` for the same texts.
    """
    alone = model.get("offline_words_per_s")
    served = model["loads"].get("closed 64")
    if not alone or not served:
        return None
    pairs = zip(served["dragoman"], alone, strict=True)
    return 1.0 - statistics.median(entry["words_per_s"] / words for entry, words in pairs)


def _line(what: str, target: str, value: Spread, met: bool) -> list[str]:
    return [what, target, shown(value), "yes" if met else "no"]


def _offline_lines(rows: dict[str, Any]) -> Iterator[list[str]]:
    for name, target in _OFFLINE:
        if name in rows:
            found = offline_ratio(rows[name])
            what = f"{name}, tokens/s against CTranslate2"
            yield _line(what, f"at least {target:g} x", found, found.median >= target)
    for name, target in _ALONE:
        if name in rows:
            found = latency_ratio(rows[name])
            what = f"{name}, latency against CTranslate2"
            yield _line(what, f"at most {target:g} x", found, found.median <= target)


def _http_lines(http: dict[str, Any]) -> Iterator[list[str]]:
    for model, found in http.get("models", {}).items():
        for clients in (16, 64):
            servers = found["loads"].get(f"closed {clients}")
            if servers is None:
                continue
            ours, theirs = servers["dragoman"], servers[_BATCHER]
            speed = ratios([e["per_s"] for e in ours], [e["per_s"] for e in theirs])
            tail = ratios([e["p95_ms"] for e in ours], [e["p95_ms"] for e in theirs])
            what = f"{model} over HTTP, {clients} clients, against the batcher"
            yield _line(f"{what}: sentences/s", f"at least {_SERVED:g} x", speed, speed.median >= _SERVED)
            yield _line(f"{what}: p95", "below 1 x", tail, tail.median < 1)


def _overhead_lines(http: dict[str, Any]) -> Iterator[list[str]]:
    for model, found in http.get("models", {}).items():
        share = overhead(found)
        if share is not None and model == "base":
            what = f"{model}: HTTP, tokenisation and scheduling at 64 clients"
            met = "yes" if share <= _OVERHEAD else "no"
            yield [what, f"at most {_OVERHEAD:.0%}", f"{share:.1%} of our offline speed", met]
