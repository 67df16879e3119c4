"""Where dragoman loses, read off the results so that nobody can leave a row out. Pure: JSON in, text out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from benchmarks.reporting.spread import ratios, ratios_where_answered
from benchmarks.reporting.tables import latency_ratio, offline_ratio, shown

_SERVED = (("per_s", "sentences/s", 1), ("p50_ms", "p50", -1), ("p95_ms", "p95", -1), ("p99_ms", "p99", -1))
"""Key of a round, name, and whether more is better (1) or worse (-1)."""

_NOTHING = "Nowhere in what was measured."


def losses(found: dict[str, dict[str, Any]]) -> str:
    """List every comparison in which a peer is ahead in the median; missed targets are in their own table.

    Args:
        found: results by the name of their part; parts that have not run are missing or empty.

    Returns:
        A line for each thing that was compared, with all that is lost there.
    """
    lines: dict[str, list[str]] = {}
    for what, lost in (
        *_offline(found.get("offline", {})),
        *_http(found.get("http", {}).get("models", {})),
        *_shortlist(found.get("shortlist", {}).get("rows", {})),
    ):
        lines.setdefault(what, []).append(lost)
    return "\n".join(f"- {what}: {', '.join(lost)}." for what, lost in lines.items()) or _NOTHING


def _offline(offline: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, row in offline.get("rows", {}).items():
        short = name.removeprefix(f"{row['model']}-")
        if row["alone"] and (latency := latency_ratio(row)).median > 1:
            yield f"{row['model']}, latency relative to CTranslate2", f"{short} {shown(latency)}"
        if not row["alone"] and (speed := offline_ratio(row)).median < 1:
            yield f"{row['model']}, tokens/s relative to CTranslate2", f"{short} {shown(speed)}"
    for model, systems in offline.get("systems", {}).items():
        ours = systems.get("dragoman, defaults")
        theirs = [entry for name, entry in systems.items() if name.startswith(("[", "CTranslate2"))]
        if ours is None or not theirs:
            continue
        what = f"{model}, one process against CTranslate2"
        memory, load_s = (min(entry[key] for entry in theirs) for key in ("peak_bytes", "load_s"))
        if ours["peak_bytes"] > memory:
            yield what, f"peak memory {ours['peak_bytes'] / 2**20:.0f} MiB against {memory / 2**20:.0f}"
        if ours["load_s"] > load_s:
            yield what, f"time to load {ours['load_s']:.2f} s against {load_s:.2f}"


def _http(models: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for model, found in models.items():
        for load, servers in found["loads"].items():
            if failed := _failed(servers["dragoman"]):
                yield f"{model}, {load}", f"{failed} of our requests failed"
            for name, entries in servers.items():
                if name != "dragoman":
                    what = f"{model}, {load}, relative to {name}"
                    yield from ((what, lost) for lost in _served(servers["dragoman"], entries))


def _served(ours: list[Any], theirs: list[Any]) -> Iterator[str]:
    if isinstance(ours[0], float):
        slower = ratios_where_answered(ours, theirs)
        if slower is not None and slower.median > 1:
            yield f"seconds {shown(slower)}"
        return
    for key, name, better in _SERVED:
        found = ratios_where_answered([e.get(key) for e in ours], [e.get(key) for e in theirs])
        if found is not None and better * found.median < better:
            yield f"{name} {shown(found)}"


def _failed(entries: list[Any]) -> int:
    """Count requests of ours that got no translation; the array has seconds, or NaN."""
    return sum(
        int(math.isnan(entry)) if isinstance(entry, float) else sum(entry["failures"].values())
        for entry in entries
    )


def _shortlist(rows: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, row in rows.items():
        seconds = row["seconds"]
        speed = ratios(seconds["CTranslate2, vmap"], seconds["dragoman, shortlist"])
        if speed.median < 1:
            yield "shortlist, tokens/s relative to CTranslate2 with its vmap", f"{name} {shown(speed)}"
