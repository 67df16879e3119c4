"""What explained answers cost: arrays of sentences with and without, in turns, over HTTP.

python -m benchmarks.text.explanations --text corpus/test.en.gz
python -m benchmarks.text.explanations --text corpus/test.en.gz --bundle bundles/en-fr --fields alignments
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import statistics
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from tqdm import tqdm

from benchmarks.peers.http_servers import Server, serving
from export.bundle import load_manifest

CLIENTS, TURN_S = 4, 1.0


def requests(file: Path, array: int, pair: tuple[str, str], fields: Sequence[str]) -> Iterator[bytes]:
    """Make bodies of arrays of sentences, over and over."""
    lines = gzip.decompress(file.read_bytes()).decode("utf-8").split("\n")
    texts = [line for line in lines if line]
    asked = dict.fromkeys(fields, True)
    bodies = [
        json.dumps({"q": texts[at : at + array], "source": pair[0], "target": pair[1], **asked}).encode()
        for at in range(0, len(texts) - array, array)
    ]
    return itertools.cycle(bodies)


def cpu_s(pid: int) -> float:
    """Processor time of the server and its workers until now; neighbors change little of it."""
    process = psutil.Process(pid)
    used = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in used)


def turn(url: str, pid: int, bodies: Iterator[bytes], array: int) -> tuple[float, float]:
    """Send requests from several clients for a turn; gives sentences a second, of the clock and of cores."""

    def send(body: bytes) -> int:
        request = urllib.request.Request(f"{url}/translate", body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=60).read()
        return array

    started_s, used_s, done = time.perf_counter(), cpu_s(pid), 0
    with ThreadPoolExecutor(CLIENTS) as clients:
        while (passed_s := time.perf_counter() - started_s) < TURN_S:
            done += sum(clients.map(send, itertools.islice(bodies, 2 * CLIENTS)))
        passed_s = time.perf_counter() - started_s
    return done / passed_s, done / (cpu_s(pid) - used_s)


def main() -> None:
    """Measure and print the shares of the time that the fields take."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, required=True, help="sentences, a line each, .gz")
    parser.add_argument("--bundle", type=Path, default=Path("bundles/en-de"))
    parser.add_argument("--fields", default="alignments", help="with commas between")
    parser.add_argument("--array", type=int, default=16, help="sentences of a request")
    parser.add_argument("--turns", type=int, default=8)
    given = parser.parse_args()
    pair = next(load_manifest(given.bundle).pairs)
    server = Server(
        "dragoman",
        ("-m", "dragoman", "serve", str(given.bundle)),
        {"DRAGOMAN_LOG_LEVEL": "warning", "DRAGOMAN_CACHE_BYTES": "0"},
    )
    fields = given.fields.split(",")
    kinds = {
        "plain": requests(given.text, given.array, pair, ()),
        given.fields: requests(given.text, given.array, pair, fields),
    }
    rates: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    with serving(server) as (port, pid):
        url = f"http://127.0.0.1:{port}"
        for bodies in kinds.values():
            turn(url, pid, bodies, given.array)
        for _ in tqdm(range(given.turns), desc="turns", leave=False, disable=None):
            for kind, bodies in kinds.items():
                rates[kind].append(turn(url, pid, bodies, given.array))
    for index, clock in enumerate(("sentences/s", "sentences a second of cores")):
        plain, more = ([each[index] for each in of_kind] for of_kind in rates.values())
        ratios = [one / other for one, other in zip(more, plain, strict=True)]
        print(
            f"{clock}: {statistics.median(plain):.0f} plain, {statistics.median(more):.0f} with "
            f"{given.fields}; ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
