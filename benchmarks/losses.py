"""Where dragoman loses, read off the results so that nobody can leave a row out. Pure: JSON in, text out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from benchmarks.spread import ratios, ratios_where_answered
from benchmarks.tables import latency_ratio, offline_ratio, shown
from benchmarks.targets import targets

_SERVED = (("per_s", "sentences/s", 1), ("p50_ms", "p50", -1), ("p95_ms", "p95", -1), ("p99_ms", "p99", -1))
"""Key of a round, name, and whether more is better (1) or worse (-1)."""

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
            yield from _failed(f"{model}, {load}", servers["dragoman"])
            for name, entries in servers.items():
                if name != "dragoman":
                    yield from _served(f"{model}, {load}, against {name}", servers["dragoman"], entries)


def _served(what: str, ours: list[Any], theirs: list[Any]) -> Iterator[str]:
    if isinstance(ours[0], float):
        slower = ratios_where_answered(ours, theirs)
        if slower is not None and slower.median > 1:
            yield f"{what}: {shown(slower)} x its seconds"
        return
    for key, name, better in _SERVED:
        found = ratios_where_answered([e.get(key) for e in ours], [e.get(key) for e in theirs])
        if found is not None and better * found.median < better:
            yield f"{what}: {shown(found)} x its {name}"


def _failed(what: str, entries: list[Any]) -> Iterator[str]:
    """Count requests of ours that got no translation; the array has seconds, or NaN."""
    failed = sum(
        int(math.isnan(entry)) if isinstance(entry, float) else sum(entry["failures"].values())
        for entry in entries
    )
    if failed:
        yield f"{what}: {failed} of our requests failed"


def _shortlist(rows: dict[str, Any]) -> Iterator[str]:
    for name, row in rows.items():
        seconds = row["seconds"]
        speed = ratios(seconds["CTranslate2, vmap"], seconds["dragoman, shortlist"])
        if speed.median < 1:
            yield f"{name} shortlist: {shown(speed)} x the tokens/s of CTranslate2 with its map"
