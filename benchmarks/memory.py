"""Memory and start of a server: PSS over all its processes, idle and after load, beside CTranslate2's.

    python -m benchmarks.memory [--cases base,six,en-de] [--cache build/bench] [--checkout DIR] [--repeats 3]

Four cases: a model of base's size with random weights, all six shipped bundles, the shipped English-German
one alone, and, if asked for, NLLB's shape with 600 million random weights (made with ten minutes and 12 GB
unless it is in the cache): `--cases large`. PSS divides a page by the number of processes that map it, so a
sum over the process tree counts everything once. The load is 600 requests from 64 clients, each a sentence of
5 to 50 words. `--checkout` starts the server of another working tree, for comparisons. Each figure is the
median of the repeats.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from benchmarks.inputs import vocabulary
from benchmarks.models import CACHE, RANDOM_SIZES, SHIPPED, prepare
from benchmarks.peers.http_servers import Server, ctranslate2, serving
from benchmarks.peers.turns import REPOSITORY
from benchmarks.reporting.progress import Progress
from loadgen.connection import Connection, Target
from loadgen.texts import make_bodies

CASES = ("base", "six", "en-de")
REQUESTS, CLIENTS = 600, 64
_WORDS = (5, 8, 12, 18, 25, 10, 35, 15, 7, 50, 20, 12, 9, 30, 16, 6)
_WORDS_OF_TEXT = "the old house on the hill was sold to a family from the north last week and nobody knew why"
_SETTLE_S = 1.0
_MIB = 1 << 10  # smaps counts in KiB


@dataclass(frozen=True)
class Footprint:
    """Memory of a process tree in MiB, each page counted once.

    Attributes:
        pss: everything.
        anonymous: heaps and what was written to.
        file: mapped files, libraries included.
        processes: number of processes.
    """

    pss: float
    anonymous: float
    file: float
    processes: int

    @classmethod
    def of(cls, pid: int) -> Footprint:
        """Read the process and all its descendants from `/proc`."""
        tree = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        sums = dict.fromkeys(("Pss", "Pss_Anon", "Pss_File"), 0)
        for member in tree:
            for line in Path(f"/proc/{member}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
                name, value = line.split(":")
                if name in sums:
                    sums[name] += int(value.split()[0])
        return cls(*(value / _MIB for value in sums.values()), len(tree))


def measure(server: Server, bodies: Sequence[bytes], checkout: Path) -> dict[str, float]:
    """Start a server and read its memory, idle and after load.

    Args:
        server: to start.
        bodies: of the requests.
        checkout: working tree whose sources it runs.

    Returns:
        Seconds to `/readyz`, the figures of both footprints, requests that failed.
    """
    started_s = time.monotonic()
    with serving(server, checkout) as (port, pid):
        ready_s = time.monotonic() - started_s
        time.sleep(_SETTLE_S)
        idle = Footprint.of(pid)
        failed = asyncio.run(_load(port, bodies))
        time.sleep(_SETTLE_S)
        loaded = Footprint.of(pid)
    return {
        "ready_s": ready_s,
        **{f"idle_{name}": value for name, value in asdict(idle).items()},
        **{f"loaded_{name}": value for name, value in asdict(loaded).items()},
        "failed": failed,
    }


async def _load(port: int, bodies: Sequence[bytes]) -> int:
    """Send the requests from `CLIENTS` clients; gives how many were not answered with 200."""
    waiting = iter(bodies)
    target = Target.parse(f"http://127.0.0.1:{port}")

    async def client() -> int:
        connection, failed = Connection(target), 0
        try:
            for body in waiting:
                failed += (await connection.send(body)).status != 200
        finally:
            connection.close()
        return failed

    return sum(await asyncio.gather(*(client() for _ in range(CLIENTS))))


def _texts(case: str) -> list[str]:
    """Give sentences of mixed lengths; for random weights with the words that end their translation."""
    if case in RANDOM_SIZES:
        lengths = [_WORDS[i % len(_WORDS)] for i in range(REQUESTS)]
        size = RANDOM_SIZES[case].vocabulary
        sentences = vocabulary.random_sentences(size, lengths, seed=3, ending=True)
        return [vocabulary.as_text(sentence) for sentence in sentences]
    words = _WORDS_OF_TEXT.split()
    return [
        " ".join(["Yesterday", *itertools.islice(itertools.cycle(words[i % 7 :] + words), _WORDS[i % 16])])
        + "."
        for i in range(REQUESTS)
    ]


def _servers(case: str, cache: Path) -> list[Server]:
    """Give what a case compares: our server and CTranslate2's, which serves one model only."""
    if case == "six":
        return [_dragoman(SHIPPED.parent)]
    model = prepare(case if case in RANDOM_SIZES else "default", cache, Progress(1).say, keep=True)
    return [_dragoman(model.bundle), ctranslate2(model, "FastAPI + CTranslate2", 32, 2.0, {})]


def _dragoman(bundles: Path) -> Server:
    """Describe our server with its defaults."""
    return Server(
        "dragoman", ("-m", "dragoman", "serve", str(bundles.absolute())), {"DRAGOMAN_LOG_LEVEL": "warning"}
    )


def main() -> None:
    """Print a line a server."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--checkout", type=Path, default=REPOSITORY)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print(
        "case    server                 ready  idle (anonymous, file)  after load (anonymous, file) processes"
    )
    for case in arguments.cases.split(","):
        bodies = [*itertools.islice(make_bodies(_texts(case), {"source": "en", "target": "de"}), REQUESTS)]
        for server in _servers(case, arguments.cache):
            ours = server.name == "dragoman"
            checkout = arguments.checkout.absolute() if ours else REPOSITORY
            found = [measure(server, bodies, checkout) for _ in range(arguments.repeats)]
            row = {name: statistics.median(run[name] for run in found) for name in found[0]}
            print(
                f"{case:7} {server.name:21} {row['ready_s']:5.1f}s "
                f"{row['idle_pss']:6.0f} MiB ({row['idle_anonymous']:.0f}, {row['idle_file']:.0f}) "
                f"{row['loaded_pss']:8.0f} MiB ({row['loaded_anonymous']:.0f}, {row['loaded_file']:.0f}) "
                f"{row['loaded_processes']:4.0f}"
                + (f"  {row['failed']:.0f} requests failed" if row["failed"] else ""),
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
