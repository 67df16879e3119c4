"""Writes the results into docs/benchmarks.md, between its markers, and draws its pictures.

python -m benchmarks.report [--cache build/bench] [--page docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import plots, tables
from benchmarks.models import CACHE, NAMES
from benchmarks.targets import targets_table


def contents(offline: dict[str, Any], http: dict[str, Any], roofline: dict[str, Any]) -> dict[str, str]:
    """Write everything that goes between markers.

    Args:
        offline: results of `benchmarks.offline`, or an empty dictionary.
        http: results of `benchmarks.over_http`, or an empty dictionary.
        roofline: results of `benchmarks.roofline`, or an empty dictionary.

    Returns:
        Markdown by the name of its markers; nothing for results that are not there.
    """
    found: dict[str, str] = {}
    if offline or http:
        found["targets"] = targets_table(offline, http)
    if offline:
        rows = offline["rows"]
        parts = [
            f"**{name}**\n\n{tables.offline_table(rows, name)}"
            for name in NAMES
            if any(row["model"] == name for row in rows.values())
        ]
        found["offline"] = "\n\n".join([tables.machine_lines(offline["machine"]), *parts])
        found["latency"] = tables.latency_table(rows)
        found["memory"] = tables.memory_table(offline["systems"])
    if http:
        parts = [tables.machine_lines(http["machine"])]
        for name, entry in http["models"].items():
            batcher = entry["batcher"]
            parts.append(
                f"**{name}**, closed loop (the batcher's best: up to {batcher['max_batch']} texts, "
                f"{batcher['wait_ms']:g} ms)\n\n{tables.http_table(entry, 'closed')}"
            )
            parts.append(f"**{name}**, open loop\n\n{tables.http_table(entry, 'open')}")
        found["http"] = "\n\n".join(parts)
        found["array"] = tables.array_table(http["models"])
    if roofline:
        found["roofline"] = tables.roofline_table(roofline)
    return found


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        print(f"{file} is not there: what the page says of it stays")
        return {}
    read: dict[str, Any] = json.loads(file.read_text(encoding="ascii"))
    return read


def main() -> None:
    """Write page and pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the results")
    parser.add_argument("--page", type=Path, default=Path("docs/benchmarks.md"), help="pictures go beside it")
    arguments = parser.parse_args()
    results = arguments.cache / "results"
    offline, http, roofline = (_read(results / f"{name}.json") for name in ("offline", "http", "roofline"))
    page = arguments.page.read_text(encoding="utf-8")
    try:
        for name, content in contents(offline, http, roofline).items():
            page = tables.put_between(page, name, content)
    except tables.MarkerError as error:
        sys.exit(f"{arguments.page}: {error}")
    arguments.page.write_text(page, encoding="utf-8")
    images = arguments.page.parent / "images"
    if offline:
        models = [name for name in NAMES if any(row["model"] == name for row in offline["rows"].values())]
        plots.draw_offline(offline["rows"], models, images / "benchmarks-offline.png")
    if http:
        plots.draw_http(http["models"], images / "benchmarks-http.png")
    print(f"wrote {arguments.page}")


if __name__ == "__main__":
    main()
