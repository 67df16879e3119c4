"""What the project set out to reach, and what was measured of it. Pure: JSON in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.reporting.spread import Spread, ratios, ratios_where_answered, spread
from benchmarks.reporting.tables import latency_ratio, offline_ratio, shown, table

_OFFLINE = (("base-greedy-64", 1.25), ("base-beam4-32", 1.2), ("tiny-greedy-32", 1.5))
_ALONE = (("base-greedy-1", 0.5), ("tiny-greedy-1", 0.5))
_SERVED, _OVERHEAD, _FAIR = 1.5, 0.10, 3.0
_SHORTLIST = (("base-greedy-64", 1.25), ("base-beam4-32", 1.4))
_BATCHER = "CTranslate2, batcher"


def targets_table(found: dict[str, dict[str, Any]]) -> str:
    """Compare every target with what was measured.

    Args:
        found: results by the name of their part; parts that have not run are missing or empty.
    """
    return table(["", "target", "measured, median (least-most)", "met"], list(targets(found)))


def targets(found: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    """Give the rows of the table: what, target, measured, yes or no."""
    http = found.get("http", {})
    yield from _offline_lines(found.get("offline", {}).get("rows", {}))
    yield from _http_lines(http)
    yield from _overhead_lines(http)
    yield from _shortlist_lines(found.get("shortlist", {}).get("rows", {}))
    yield from _fairness_lines(found.get("fairness", {}).get("models", {}))


def overhead(model: dict[str, Any], offline: str) -> Spread | None:
    """Share of our own speed without HTTP that we lose over HTTP with 64 clients.

    Args:
        model: HTTP results of one model.
        offline: name of the words/s without HTTP, for the same texts: ``in_flight_words_per_s`` with 64
            sentences under way, ``offline_words_per_s`` with all of them in one call.
    """
    served, alone = model.get("served_words_per_s"), model.get(offline)
    if not alone or not served:
        return None
    return spread([1.0 - ours / words for ours, words in zip(served, alone, strict=True)])


def _line(what: str, target: str, value: Spread, met: bool) -> list[str]:
    return [what, target, shown(value), "yes" if met else "no"]


def _offline_lines(rows: dict[str, Any]) -> Iterator[list[str]]:
    for name, target in _OFFLINE:
        if name in rows:
            found = offline_ratio(rows[name])
            what = f"{name}: tokens/s, dragoman / CTranslate2"
            yield _line(what, f"at least {target:g} x", found, found.median >= target)
    for name, target in _ALONE:
        if name in rows:
            found = latency_ratio(rows[name])
            what = f"{name}: latency, dragoman / CTranslate2"
            yield _line(what, f"at most {target:g} x", found, found.median <= target)


def _http_lines(http: dict[str, Any]) -> Iterator[list[str]]:
    for model, found in http.get("models", {}).items():
        for clients in (16, 64):
            servers = found["loads"].get(f"closed {clients}")
            if servers is None:
                continue
            ours, theirs = servers["dragoman"], servers[_BATCHER]
            speed, tail = (
                ratios_where_answered([e[key] for e in ours], [e[key] for e in theirs])
                for key in ("per_s", "p95_ms")
            )
            if speed is not None and tail is not None:
                what = f"{model}, HTTP, {clients} clients: sentences/s and p95, dragoman / batcher"
                met = "yes" if speed.median >= _SERVED and tail.median < 1 else "no"
                yield [what, f"at least {_SERVED:g} x, below 1 x", f"{shown(speed)}, {shown(tail)}", met]


def _overhead_lines(http: dict[str, Any]) -> Iterator[list[str]]:
    found = http.get("models", {}).get("base")
    if found is None:
        return
    what = "base, HTTP, 64 clients: overhead"
    share = overhead(found, "in_flight_words_per_s")
    if share is not None:
        met = "yes" if share.median <= _OVERHEAD else "no"
        yield [f"{what}, same concurrency", f"at most {_OVERHEAD:.0%}", _percent(share), met]
    share = overhead(found, "offline_words_per_s")
    if share is not None:
        yield [f"{what}, against one call", "none", _percent(share), ""]


def _percent(share: Spread) -> str:
    return f"{share.median:.1%} ({share.least:.1%}-{share.most:.1%})"


def _shortlist_lines(rows: dict[str, Any]) -> Iterator[list[str]]:
    wanted = dict(_SHORTLIST)
    for row in rows.values():
        target, seconds, counted = wanted.get(row["row"]), row["seconds"], row["candidates"]
        if target is None:
            continue
        found = ratios(seconds["dragoman"], seconds["dragoman, shortlist"])
        what = f"{row['row']}, shortlist of {counted['sentence']:,.0f}: tokens/s, with / without"
        yield _line(what, f"at least {target:g} x", found, found.median >= target)


def _fairness_lines(models: dict[str, Any]) -> Iterator[list[str]]:
    for name, found in models.items():
        ratio = ratios(found["busy_p95_ms"], found["quiet_p95_ms"])
        what = f"{name}: p95 of short requests beside a document / alone"
        yield _line(what, f"at most {_FAIR:g} x", ratio, ratio.median <= _FAIR)
