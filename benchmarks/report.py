"""Writes the results into docs/benchmarks.md, between its markers, and draws its pictures.

python -m benchmarks.report [--cache build/bench] [--quick] [--page docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.models import CACHE, NAMES
from benchmarks.reporting import plots, results, tables
from benchmarks.reporting.losses import losses
from benchmarks.reporting.targets import targets_table

PARTS = ("offline", "http", "shortlist", "fairness", "roofline")
OFFLINE_PLOT, HTTP_PLOT = "benchmarks-offline.png", "benchmarks-http.png"


def contents(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Write everything that goes between markers.

    Args:
        found: results by the name of their part; parts that have not run are missing or empty.

    Returns:
        Markdown by the name of its markers; nothing for results that are not there.
    """
    offline, http, shortlist, fairness, roofline = (found.get(part, {}) for part in PARTS)
    written: dict[str, str] = {}
    measured = {part: result for part, result in found.items() if result}
    if measured:
        written["machine"] = tables.machine_lines({p: result["machine"] for p, result in measured.items()})
        written["targets"] = targets_table(found)
        written["losses"] = losses(found)
    if offline:
        rows = offline["rows"]
        written["offline"] = f"{tables.offline_table(rows)}\n\n![tokens per second](images/{OFFLINE_PLOT})"
        written["process"] = tables.process_table(rows, offline["systems"])
    if http:
        written["http"] = _http(http["models"])
        written["array"] = tables.array_table(http["models"])
    if shortlist:
        written["shortlist"] = tables.shortlist_table(shortlist["rows"])
    if fairness:
        written["fairness"] = tables.fairness_table(fairness["models"])
    if roofline:
        written["roofline"] = f"{tables.products_line(roofline)}\n\n{tables.roofline_table(roofline)}"
    return written


def _http(models: dict[str, Any]) -> str:
    settings = "; ".join(
        f"{name} {entry['batcher']['max_batch']} texts, {entry['batcher']['wait_ms']:g} ms"
        for name, entry in models.items()
    )
    return "\n\n".join(
        [
            f"Closed loop (the batcher collects at most: {settings}):",
            tables.http_table(models, "closed"),
            "Open loop:",
            tables.http_table(models, "open"),
            f"![sentences per second and p95](images/{HTTP_PLOT})",
        ]
    )


def write_page(page: Path, found: dict[str, dict[str, Any]]) -> None:
    """Fill the markers of a page and draw the pictures beside it.

    Args:
        page: Markdown; written again.
        found: as `contents` takes it.

    Raises:
        MarkerError: a marker is missing.
    """
    text = page.read_text(encoding="utf-8")
    for name, content in contents(found).items():
        text = tables.put_between(text, name, content)
    page.write_text(text, encoding="utf-8")
    images = page.parent / "images"
    offline, http = found.get("offline"), found.get("http")
    if offline:
        models = [name for name in NAMES if any(row["model"] == name for row in offline["rows"].values())]
        plots.draw_offline(offline["rows"], models, images / OFFLINE_PLOT)
    if http:
        plots.draw_http(http["models"], images / HTTP_PLOT)


def main() -> None:
    """Write page and pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="of the quick results")
    parser.add_argument("--page", type=Path, default=Path("docs/benchmarks.md"), help="pictures go beside it")
    arguments = parser.parse_args()
    folder = results.folder(arguments.cache, quick=arguments.quick)
    found = {part: results.read(folder / f"{part}.json") for part in PARTS}
    for part, result in found.items():
        if not result:
            print(f"{folder / part}.json is not there: what the page says of it stays")
    try:
        write_page(arguments.page, found)
    except tables.MarkerError as error:
        sys.exit(f"{arguments.page}: {error}")
    print(f"wrote {arguments.page}")


if __name__ == "__main__":
    main()
