"""Results as Markdown tables, and a page in which they are put between markers. Pure: JSON in, text out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.spread import Spread, ratios, ratios_where_answered, spread

_SHORT = "dragoman, shortlist"
_SYSTEMS = ("dragoman", "dragoman, defaults", "CTranslate2", "transformers")


class MarkerError(ValueError):
    """A page lacks a marker; the message names it."""


def put_between(page: str, name: str, content: str) -> str:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->``.

    Args:
        page: Markdown.
        name: of the markers.
        content: to put there, without line breaks around it.

    Raises:
        MarkerError: a marker is missing, or they stand the wrong way round.
    """
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    head, opened, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not opened or not closed:
        raise MarkerError(f"the page needs {begin} and then {end}")
    return f"{head}{begin}\n{content}\n{end}{tail}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def shown(value: Spread, digits: int = 2) -> str:
    """Write a median with what it was between."""
    return f"{value.median:.{digits}f} ({value.least:.{digits}f}-{value.most:.{digits}f})"


def shown_or_none(value: Spread | None) -> str:
    """Write a ratio, or that there is nothing to compare."""
    return shown(value) if value is not None else "none answered"


def throughput(result: dict[str, Any], system: str) -> float | None:
    """Tokens per second of a system in a row of the offline results, or None if it was not measured."""
    seconds = result["seconds"].get(system)
    return result["tokens"][system] / spread(seconds).median if seconds else None


def offline_ratio(result: dict[str, Any]) -> Spread:
    """How many times faster dragoman is than CTranslate2, round by round."""
    tokens = result["tokens"]
    more = tokens["dragoman"] / tokens["CTranslate2"]
    found = ratios(result["seconds"]["CTranslate2"], result["seconds"]["dragoman"])
    return Spread(found.median * more, found.least * more, found.most * more)


def latency_ratio(result: dict[str, Any]) -> Spread:
    """Latency of dragoman over CTranslate2's, round by round."""
    return ratios(result["seconds"]["dragoman"], result["seconds"]["CTranslate2"])


def offline_table(rows: dict[str, Any], model: str) -> str:
    """Tokens/s of a model: every number of sentences, greedy and with beams."""
    lines = []
    for result in rows.values():
        if result["model"] != model or result["alone"]:
            continue
        speeds = [throughput(result, system) for system in _SYSTEMS]
        agreement = f"{100 * result['agreement']:.0f} %" if "agreement" in result else ""
        lines.append(
            [
                "greedy" if result["beam"] == 1 else f"beam {result['beam']}",
                str(result["sentences"]),
                *("" if speed is None else f"{speed:,.0f}" for speed in speeds),
                shown(offline_ratio(result)),
                result["ctranslate2"],
                *([agreement] if model == "default" else []),
            ]
        )
    header = ["search", "sentences", *_SYSTEMS, "dragoman / CTranslate2", "CTranslate2's best settings"]
    return table([*header, *(["same tokens"] if model == "default" else [])], lines)


def latency_table(rows: dict[str, Any]) -> str:
    """Milliseconds of a sentence that comes alone."""
    lines = []
    for result in rows.values():
        if not result["alone"]:
            continue
        times = [
            spread(result["seconds"][system]).median / result["sentences"] * 1e3
            if system in result["seconds"]
            else math.nan
            for system in ("dragoman", "CTranslate2", "transformers")
        ]
        lines.append(
            [
                result["model"],
                "greedy" if result["beam"] == 1 else f"beam {result['beam']}",
                *("" if math.isnan(t) else f"{t:.1f}" for t in times),
                shown(latency_ratio(result)),
                result["ctranslate2"],
            ]
        )
    header = ["model", "search", "dragoman, ms", "CTranslate2, ms", "transformers, ms"]
    return table([*header, "dragoman / CTranslate2", "CTranslate2's best settings"], lines)


def memory_table(systems: dict[str, Any]) -> str:
    """Load time and peak memory of each system's process after all rows of a model."""
    lines = []
    for model, entries in systems.items():
        for name, entry in entries.items():
            if name.startswith("["):
                name = "CTranslate2"
            if any(line[:2] == [model, name] for line in lines):
                continue
            lines.append([model, name, f"{entry['load_s']:.2f}", f"{entry['peak_bytes'] / 2**20:.0f}"])
    return table(["model", "system", "load, s", "peak memory, MiB"], lines)


def shortlist_table(rows: dict[str, Any]) -> str:
    """Tokens/s with and without candidates of dragoman and CTranslate2, and what candidates gain."""
    lines = []
    for result in rows.values():
        seconds, counted = result["seconds"], result["candidates"]
        for ours, theirs, whole in (
            (_SHORT, _SHORT, "dragoman"),
            ("CTranslate2, vmap", _SHORT, "CTranslate2"),
        ):
            lines.append(
                [
                    result["row"] if ours == _SHORT else "",
                    f"{counted['sentence']:,.0f}" if ours == _SHORT else "",
                    ours,
                    f"{counted[ours]:,.0f}",
                    f"{throughput(result, whole):,.0f}",
                    f"{throughput(result, ours):,.0f}",
                    shown(ratios(seconds[whole], seconds[ours])),
                    "" if ours == theirs else shown(ratios(seconds[ours], seconds[theirs])),
                    "" if ours == _SHORT else result["ctranslate2"][ours],
                ]
            )
    header = [
        "row",
        "candidates of a sentence",
        "system",
        "of a batch",
        "without, tokens/s",
        "with, tokens/s",
        "with / without",
    ]
    return table([*header, "dragoman / this, both with", "CTranslate2's best settings"], lines)


def fairness_table(models: dict[str, Any]) -> str:
    """Latencies of short requests alone and beside documents, and what they cost the documents."""
    lines = []
    for name, found in models.items():
        middle = {key: statistics.median(values) for key, values in found.items() if isinstance(values, list)}
        lines.append(
            [
                name,
                *(
                    f"{middle[key]:.1f}"
                    for key in ("quiet_p50_ms", "quiet_p95_ms", "busy_p50_ms", "busy_p95_ms")
                ),
                shown(ratios(found["busy_p95_ms"], found["quiet_p95_ms"])),
                f"{middle['alone_s']:.2f}",
                f"{middle['beside_s']:.2f}",
            ]
        )
    header = ["model", "alone p50, ms", "alone p95, ms", "beside p50, ms", "beside p95, ms", "ratio of p95"]
    return table([*header, "document alone, s", "document beside, s"], lines)


def server_memory_table(models: dict[str, Any]) -> str:
    """Resident memory of each server after all loads."""
    lines = [
        [model, server, f"{size / 2**20:.0f}"]
        for model, found in models.items()
        for server, size in found["memory_bytes"].items()
    ]
    return table(["model", "server", "resident memory, MiB"], lines)


def http_table(found: dict[str, Any], kind: str) -> str:
    """Sentences/s and latencies of each server under one kind of load.

    Args:
        found: of one model.
        kind: closed or open.
    """
    lines = []
    for load, servers in found["loads"].items():
        sort, _, amount = load.partition(" ")
        if sort != kind:
            continue
        names = list(servers)
        for name in names:
            entries = servers[name]
            speed = [f"{_median(entries, 'per_s'):.1f}"] if kind == "closed" else []
            lines.append(
                [
                    amount if name == names[0] else "",
                    name,
                    *speed,
                    *(_milliseconds(entries, key) for key in ("p50_ms", "p95_ms", "p99_ms")),
                    str(sum(sum(entry["failures"].values()) for entry in entries)),
                    *_against(servers, name, names, kind),
                ]
            )
    first = "clients" if kind == "closed" else "requests/s"
    speed = ["sentences/s"] if kind == "closed" else []
    last = ["dragoman / this, sentences/s"] if kind == "closed" else []
    return table([first, "server", *speed, "p50, ms", "p95, ms", "p99, ms", "failed", *last], lines)


def array_table(models: dict[str, Any]) -> str:
    """Seconds of one request with 500 sentences."""
    lines = []
    for model, found in models.items():
        for load, servers in found["loads"].items():
            if load.startswith("array"):
                ours = servers["dragoman"]
                lines += [
                    [model, name, _seconds(entries), shown_or_none(ratios_where_answered(entries, ours))]
                    for name, entries in servers.items()
                ]
    return table(["model", "server", "seconds", "this / dragoman"], lines)


def roofline_table(found: dict[str, Any]) -> str:
    """Cost of each model, its bound on this machine, and what was reached."""
    lines = []
    for name, entry in found["models"].items():
        counted = entry["cost"]
        for sentences, measured in entry["rows"].items():
            first = sentences == next(iter(entry["rows"]))
            lines.append(
                [
                    name if first else "",
                    f"{counted['decoder_products'] / 1e6:.1f} M" if first else "",
                    f"{100 * counted['vocabulary_share']:.0f} %" if first else "",
                    f"{counted['encoder_products'] / 1e6:.1f} M" if first else "",
                    "alone" if sentences == "1" else sentences,
                    f"{measured['bound']:,.0f}",
                    f"{measured['measured']:,.0f}",
                    f"{100 * measured['measured'] / measured['bound']:.0f} %",
                ]
            )
    header = ["model", "per target token", "of it vocabulary", "per source token", "sentences"]
    return table([*header, "bound, tokens/s", "measured", "share"], lines)


def products_line(found: dict[str, Any]) -> str:
    """Say what one core multiplies and reads."""
    products = ", ".join(
        f"{value / 1e9:.0f} G with {rows} row{'s' if rows != '1' else ''}"
        for rows, value in found["products_per_s"].items()
    )
    read = ", ".join(
        f"{entry['cost']['decoder_bytes'] / 1e6:.0f} MB ({name}) at {entry['bytes_per_s'] / 1e9:.1f} GB/s"
        for name, entry in found["models"].items()
    )
    return f"One core: int8 multiplications a second {products}. Weights that a decoder step reads: {read}."


def machine_lines(found: dict[str, dict[str, Any]]) -> str:
    """Say what each part was measured on; the machine once if all had the same.

    Args:
        found: `benchmarks.machine.describe` by part.
    """
    machines = {part: _machine(facts) for part, facts in found.items()}
    when = {
        part: f"{facts['date']}, commit {facts['commit']}, load before {facts['load_before']}"
        for part, facts in found.items()
    }
    if len(set(machines.values())) == 1:
        parts = "; ".join(f"{part} {text}" for part, text in when.items())
        return f"{next(iter(machines.values()))}.\n\n{parts}."
    return "\n".join(f"- {part}: {when[part]}: {machines[part]}." for part in found)


def _machine(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['processor']}, {facts['cores']} cores ({', '.join(facts['instruction_sets'])}), "
        f"{facts['memory_gib']} GiB; Python {facts['python']}, {versions}"
    )


def _seconds(entries: Sequence[float]) -> str:
    answered = [value for value in entries if not math.isnan(value)]
    failed = len(entries) - len(answered)
    return (shown(spread(answered)) if answered else "") + (f" {failed} failed" if failed else "")


def _median(entries: Sequence[dict[str, Any]], key: str) -> float:
    return statistics.median(entry[key] for entry in entries)


def _milliseconds(entries: Sequence[dict[str, Any]], key: str) -> str:
    known = [entry[key] for entry in entries if entry[key] is not None]
    return f"{statistics.median(known):.0f}" if known else "none answered"


def _against(servers: dict[str, Any], name: str, names: Sequence[str], kind: str) -> list[str]:
    if kind != "closed":
        return []
    if name == names[0]:
        return [""]
    take: Callable[[str], list[float]] = lambda server: [e["per_s"] for e in servers[server]]  # noqa: E731
    return [shown_or_none(ratios_where_answered(take(names[0]), take(name)))]
