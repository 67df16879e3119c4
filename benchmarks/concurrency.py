"""What continuous batching is for: 64 requests at once against the same 64 one after another.

Starts a real server, sends single-sentence requests over loopback, alternates both ways of sending and prints
the ratio of their times with its spread.

    python benchmarks/concurrency.py [BUNDLE] [--requests 64] [--rounds 7]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SUBJECTS = (
    "My brother",
    "The old teacher",
    "Nobody",
    "Our neighbor's daughter",
    "She",
    "The man over there",
)
_VERBS = ("wants to buy", "has never seen", "is looking for", "forgot", "will repair", "told me about")
_OBJECTS = (
    "a new bicycle.",
    "the house by the river before winter comes.",
    "my blue jacket.",
    "the key to the front door, which was on the table this morning.",
)


def sentences(count: int) -> list[str]:
    """Make different sentences of 4 to 17 words, in a mixed order."""
    every = [" ".join(parts) for parts in itertools.product(_SUBJECTS, _VERBS, _OBJECTS)]
    return [every[(7 * i) % len(every)] for i in range(count)]


@contextmanager
def serving(bundle: Path) -> Iterator[int]:
    """Run a server with its default settings in a process of its own; yields the port once it is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-m", "dragoman", "serve", str(bundle), "--port", str(port)]
    process = subprocess.Popen(
        command, env=os.environ | {"DRAGOMAN_LOG_LEVEL": "warning", "DRAGOMAN_CACHE_BYTES": "0"}
    )
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1).close()
                break
            except OSError:
                if process.poll() is not None:
                    sys.exit(f"the server ended with {process.returncode}")
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait()


async def _send_all(port: int, bodies: list[bytes], connections: int) -> float:
    """Send every body over some kept-alive connections; returns the seconds until the last answer."""
    waiting = list(bodies)

    async def send() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while waiting:
            body = waiting.pop()
            head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(answer.partition(b"\r\n")[0].decode())
            await reader.readexactly(int(answer.lower().partition(b"content-length: ")[2].split()[0]))
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(connections)))
    return time.perf_counter() - started


def main() -> None:
    """Run the benchmark and print its result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", nargs="?", type=Path, default=Path("bundles/en-de"))
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    texts = sentences(arguments.requests)
    bodies = [json.dumps({"q": text, "source": "en", "target": "de"}).encode() for text in texts]
    alone, at_once = [], []
    with serving(arguments.bundle) as port:
        asyncio.run(_send_all(port, bodies, arguments.requests))  # warm
        for _ in range(arguments.rounds):
            alone.append(asyncio.run(_send_all(port, bodies, 1)))
            at_once.append(asyncio.run(_send_all(port, bodies, arguments.requests)))
    ratios = sorted(a / b for a, b in zip(alone, at_once, strict=True))
    print(f"{arguments.requests} requests one after another: median {statistics.median(alone) * 1e3:.0f} ms")
    print(
        f"{arguments.requests} requests at once:           median {statistics.median(at_once) * 1e3:.0f} ms"
    )
    print(f"ratio: median {statistics.median(ratios):.2f}, from {ratios[0]:.2f} to {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
