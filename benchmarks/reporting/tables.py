"""Results as Markdown tables, and a page in which they are put between markers. Pure: JSON in, text out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.reporting.spread import Spread, ratios, ratios_where_answered, spread

_SHORT, _VMAP = "dragoman, shortlist", "CTranslate2, vmap"
_SYSTEMS = ("dragoman", "dragoman, defaults", "CTranslate2", "transformers")
_PERCENTILES = ("p50_ms", "p95_ms", "p99_ms")


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
    first, *others = (f"| {' | '.join(cells)} |" for cells in (header, *rows))
    return "\n".join([first, "|" + "---|" * len(header), *others])


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


def offline_table(rows: dict[str, Any]) -> str:
    """Tokens/s of every model: every number of sentences, greedy and with beams.

    A model's first row names it, and where its sentences come from if the result says so.
    """
    lines: list[list[str]] = []
    model = None
    for result in rows.values():
        if result["alone"]:
            continue
        text = f" ({result['text']})" if "text" in result else ""
        speeds = [throughput(result, system) for system in _SYSTEMS]
        lines.append(
            [
                f"{result['model']}{text}" if result["model"] != model else "",
                _search(result),
                str(result["sentences"]),
                *("" if speed is None else f"{speed:,.0f}" for speed in speeds),
                shown(offline_ratio(result)),
                result["ctranslate2"],
                f"{100 * result['agreement']:.0f} %" if "agreement" in result else "",
            ]
        )
        model = result["model"]
    header = ["model", "search", "sentences", *_SYSTEMS, "dragoman / CTranslate2"]
    return table([*header, "CTranslate2's settings", "same tokens"], lines)


def process_table(rows: dict[str, Any], systems: dict[str, Any]) -> str:
    """A process of each model: milliseconds of a sentence that comes alone, load time and peak memory.

    Args:
        rows: of the offline results.
        systems: of the offline results: load time and peak memory by model and system.
    """
    alone: dict[str, dict[str, list[str]]] = {}
    for result in rows.values():
        if result["alone"]:
            cells = ["/".join(_alone_ms(result)), shown(latency_ratio(result))]
            alone.setdefault(result["model"], {})[_search(result)] = cells
    searches = list(dict.fromkeys(search for cells in alone.values() for search in cells))
    lines = []
    for model, entries in systems.items():
        timed = [cell for search in searches for cell in alone.get(model, {}).get(search, ["", ""])]
        # CTranslate2 has an entry for each of its settings; the first is that of the model's first row.
        known = {
            "CTranslate2" if name.startswith(("[", "CTranslate2")) else name: entry
            for name, entry in reversed(entries.items())
        }
        found = [known.get(system) for system in _SYSTEMS]
        loaded = "/".join(f"{entry['load_s']:.2f}" if entry else "-" for entry in found)
        peaks = "/".join(f"{entry['peak_bytes'] / 2**20:.0f}" if entry else "-" for entry in found)
        lines.append([model, *timed, loaded, peaks])
    columns = [c for search in searches for c in (f"{search}, ms", "dragoman / CTranslate2")]
    return table(["model", *columns, "load, s", "peak memory, MiB"], lines)


def shortlist_table(rows: dict[str, Any]) -> str:
    """Tokens/s with and without candidates of dragoman and CTranslate2, and what candidates gain."""
    lines = []
    for result in rows.values():
        seconds, counted = result["seconds"], result["candidates"]
        line = [result["row"], f"{counted['sentence']:,.0f}"]
        for short, whole in ((_SHORT, "dragoman"), (_VMAP, "CTranslate2")):
            speeds = f"{throughput(result, short):,.0f} ({counted[short]:,.0f})"
            line += [
                f"{throughput(result, whole):,.0f}",
                speeds,
                shown(ratios(seconds[whole], seconds[short])),
            ]
        lines.append([*line, shown(ratios(seconds[_VMAP], seconds[_SHORT])), result["ctranslate2"][_VMAP]])
    columns = ("without", "with (candidates in the batch)", "with / without")
    ours, theirs = ([f"{name}, {column}" for column in columns] for name in ("dragoman", "CTranslate2"))
    last = ["both with, dragoman / CTranslate2", "CTranslate2's settings"]
    return table(["row", "candidates", *ours, *theirs, *last], lines)


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


def http_table(models: dict[str, Any], kind: str) -> str:
    """Sentences/s and latencies of each server under one kind of load, a row for each load.

    Args:
        models: results by model.
        kind: closed or open.
    """
    closed = kind == "closed"
    lines: list[list[str]] = []
    names: list[str] = []
    for model, found in models.items():
        loads = {load.partition(" ")[2]: s for load, s in found["loads"].items() if load.startswith(kind)}
        for amount, servers in loads.items():
            names = list(servers)
            line = [model, amount]
            for entries in servers.values():
                line += [*([f"{_median(entries, 'per_s'):.1f}"] if closed else []), _percentiles(entries)]
            lines.append([*line, *([_against_batcher(servers)] if closed else [])])
    times = "p50/p95/p99, ms"
    columns = [c for name in names for c in ([f"{name}, /s", times] if closed else [f"{name}, {times}"])]
    last = ["sentences/s, dragoman / batcher"] if closed else []
    return table(["model", "clients" if closed else "requests/s", *columns, *last], lines)


def array_table(models: dict[str, Any]) -> str:
    """Seconds of a request with 500 sentences, peers' times over ours, and memory after all loads."""
    lines: list[list[str]] = []
    names: list[str] = []
    for model, found in models.items():
        memory = "/".join(f"{size / 2**20:.0f}" for size in found["memory_bytes"].values())
        for load, servers in found["loads"].items():
            if load.startswith("array"):
                ours, names = servers["dragoman"], list(servers)
                times = [_seconds(entries) for entries in servers.values()]
                peers = [entries for name, entries in servers.items() if name != "dragoman"]
                slower = [shown_or_none(ratios_where_answered(entries, ours)) for entries in peers]
                lines.append([model, *times, *slower, memory])
    slower = [f"{name} / dragoman" for name in names if name != "dragoman"]
    return table(["model", *(f"{name}, s" for name in names), *slower, "resident memory, MiB"], lines)


def roofline_table(found: dict[str, Any]) -> str:
    """Cost of each model, and the share of its bound on this machine that was reached."""
    lines = []
    amounts: list[str] = []
    for name, entry in found["models"].items():
        counted, amounts = entry["cost"], list(entry["rows"])
        decoder, encoder = (counted[key] / 1e6 for key in ("decoder_products", "encoder_products"))
        costs = [f"{decoder:.1f} M", f"{100 * counted['vocabulary_share']:.0f} %", f"{encoder:.1f} M"]
        lines.append(
            [name, *costs, *(_share(row["measured"], row["bound"]) for row in entry["rows"].values())]
        )
    header = ["model", "per target token", "of it vocabulary", "per source token"]
    return table([*header, *("alone" if amount == "1" else amount for amount in amounts)], lines)


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
        found: `benchmarks.reporting.machine.describe` by part.
    """
    machines = {part: _machine(facts) for part, facts in found.items()}
    when = {
        part: f"{facts['date']}, commit {facts['commit']}, load before {facts['load_before']}"
        for part, facts in found.items()
    }
    if len(set(machines.values())) == 1:
        parts = "; ".join(f"{part} {text}" for part, text in when.items())
        return f"{next(iter(machines.values()))}.\n{parts}."
    return "\n".join(f"- {part}: {when[part]}: {machines[part]}." for part in found)


def _machine(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['processor']}, {facts['cores']} cores ({', '.join(facts['instruction_sets'])}), "
        f"{facts['memory_gib']} GiB; Python {facts['python']}, {versions}"
    )


def _search(result: dict[str, Any]) -> str:
    return "greedy" if result["beam"] == 1 else f"beam {result['beam']}"


def _alone_ms(result: dict[str, Any]) -> list[str]:
    found = (result["seconds"].get(system) for system in ("dragoman", "CTranslate2", "transformers"))
    return [f"{spread(s).median / result['sentences'] * 1e3:.1f}" if s else "-" for s in found]


def _share(measured: float, bound: float) -> str:
    return f"{measured:,.0f} of {bound:,.0f} ({100 * measured / bound:.0f} %)"


def _seconds(entries: Sequence[float]) -> str:
    answered = [value for value in entries if not math.isnan(value)]
    failed = len(entries) - len(answered)
    return (shown(spread(answered)) if answered else "") + (f" {failed} failed" if failed else "")


def _median(entries: Sequence[dict[str, Any]], key: str) -> float:
    return statistics.median(entry[key] for entry in entries)


def _percentiles(entries: Sequence[dict[str, Any]]) -> str:
    """Write the median p50/p95/p99 of the rounds in ms, and how many requests failed in all of them."""
    known = [[entry[key] for entry in entries if entry[key] is not None] for key in _PERCENTILES]
    failed = sum(sum(entry["failures"].values()) for entry in entries)
    times = (
        "/".join(f"{statistics.median(values):.0f}" for values in known) if all(known) else "none answered"
    )
    return times + (f", {failed} failed" if failed else "")


def _against_batcher(servers: dict[str, Any]) -> str:
    ours, theirs = (
        [entry["per_s"] for entry in servers[name]] for name in ("dragoman", "CTranslate2, batcher")
    )
    return shown_or_none(ratios_where_answered(ours, theirs))
