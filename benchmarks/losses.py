"""Where dragoman loses, read off the results so that nobody can leave a row out. Pure: JSON in, text out."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.spread import Spread, ratios
from benchmarks.tables import latency_ratio, offline_ratio, shown
from benchmarks.targets import targets

_NOTHING = "Nowhere in what was measured."


def losses(found: dict[str, dict[str, Any]]) -> str:
    """List every comparison in which a peer is ahead in the median, and every target that is not met.

    Args:
        found: results by the name of their part; parts that have not run are missing or empty.
    """
    lines = [
        *_offline(found.get("offline", {})),
        *_http(found.get("http", {}).get("models", {})),
        *_shortlist(found.get("shortlist", {}).get("rows", {})),
        *(
            f"Target missed: {what}: {measured} ({target})"
            for what, target, measured, met in targets(found)
            if met == "no"
        ),
    ]
    return "\n".join(f"- {line}." for line in lines) or _NOTHING


def _offline(offline: dict[str, Any]) -> Iterator[str]:
    for name, row in offline.get("rows", {}).items():
        if row["alone"] and (latency := latency_ratio(row)).median > 1:
            yield f"{name}: latency {shown(latency)} x CTranslate2's"
        if not row["alone"] and (speed := offline_ratio(row)).median < 1:
            yield f"{name}: {shown(speed)} x CTranslate2's tokens/s"
    for model, systems in offline.get("systems", {}).items():
        ours = systems.get("dragoman, defaults")
        theirs = [entry for name, entry in systems.items() if name.startswith(("[", "CTranslate2"))]
        if ours is None or not theirs:
            continue
        for key, what, unit in (("peak_bytes", "peak memory", 2**20), ("load_s", "time to load", 1)):
            other = min(entry[key] for entry in theirs)
            if ours[key] > other:
                shown_as = "{:.0f} MiB against {:.0f}" if key == "peak_bytes" else "{:.2f} s against {:.2f}"
                yield f"{model}: {what} {shown_as.format(ours[key] / unit, other / unit)} of CTranslate2"


def _http(models: dict[str, Any]) -> Iterator[str]:
    for model, found in models.items():
        for load, servers in found["loads"].items():
            for name, entries in servers.items():
                if name != "dragoman":
                    yield from _served(f"{model}, {load}, against {name}", servers["dragoman"], entries)


def _served(what: str, ours: list[Any], theirs: list[Any]) -> Iterator[str]:
    if isinstance(ours[0], float):
        if (slower := ratios(ours, theirs)).median > 1:
            yield f"{what}: {shown(slower)} x its seconds"
        return
    if "per_s" in ours[0]:
        speed = ratios([e["per_s"] for e in ours], [e["per_s"] for e in theirs])
        if speed.median < 1:
            yield f"{what}: {shown(speed)} x its sentences/s"
    for key in ("p50_ms", "p95_ms", "p99_ms"):
        later = _later(key, ours, theirs)
        if later is not None and later.median > 1:
            yield f"{what}: {key.removesuffix('_ms')} {shown(later)} x its"


def _later(key: str, ours: list[Any], theirs: list[Any]) -> Spread | None:
    pairs = [(a[key], b[key]) for a, b in zip(ours, theirs, strict=True) if a[key] and b[key]]
    if not pairs:
        return None
    values = [a / b for a, b in pairs]
    return Spread(statistics.median(values), min(values), max(values))


def _shortlist(rows: dict[str, Any]) -> Iterator[str]:
    for name, row in rows.items():
        seconds = row["seconds"]
        speed = ratios(seconds["CTranslate2, vmap"], seconds["dragoman, shortlist"])
        if speed.median < 1:
            yield f"{name} shortlist: {shown(speed)} x the tokens/s of CTranslate2 with its map"
