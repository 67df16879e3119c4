"""A client of `POST /translate` that costs little: raw sockets, kept alive, bodies made beforehand.

It runs in a process of its own, as `benchmarks.engine_process` does: a JSON line in, a JSON line out.
Questions: ``{"op": "prepare", "texts", "fields"}``; ``{"op": "closed", "port", "clients", "warm_s",
"seconds"}``, so many clients, each sending its next request when it has its answer; ``{"op": "open", "port",
"rate", "seconds"}``, requests at times fixed beforehand, whatever the answers; ``{"op": "array", "port"}``,
all texts as one request. Latencies of an open loop count from the time a request was meant to be sent.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_DRAIN_S = 10.0
_SEED = 1


@dataclass
class Tally:
    """What came of requests.

    Attributes:
        latencies_s: of the answered ones.
        failures: status lines of the others, and requests that were given up, by count.
        words: of all translations.
        finished_s: time of every answer, beside its latency.
    """

    latencies_s: list[float] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    words: int = 0
    finished_s: list[float] = field(default_factory=list)

    def fail(self, reason: str) -> None:
        """Count a request without a translation."""
        self.failures[reason] = self.failures.get(reason, 0) + 1


class Connection:
    """One kept-alive connection to a server on loopback."""

    def __init__(self, port: int) -> None:
        """Remember where to.

        Args:
            port: of the server.
        """
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, body: bytes) -> tuple[str, bytes]:
        """Send a request; returns the status and the answer's body.

        Raises:
            OSError: the connection broke.
        """
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        reader, writer = self._streams
        head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length: ")[2].split(b"\r", 1)[0])
        content = await reader.readexactly(length)
        if b"connection: close" in answer:
            self.close()
        return answer[9:12].decode(), content

    def close(self) -> None:
        """Close it, if it is open."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _request(connection: Connection, body: bytes, meant_s: float, tally: Tally) -> None:
    try:
        status, content = await connection.send(body)
    except (OSError, asyncio.IncompleteReadError) as error:
        connection.close()
        tally.fail(type(error).__name__)
        return
    now_s = time.perf_counter()
    if status != "200":
        tally.fail(status)
        return
    tally.latencies_s.append(now_s - meant_s)
    tally.finished_s.append(now_s)
    tally.words += content.count(b" ") + 1


async def closed_loop(port: int, bodies: Iterator[bytes], clients: int, warm_s: float, seconds: float) -> Any:
    """Keep so many requests under way for a while; what is answered in the window counts."""
    tally = Tally()
    begin_s = time.perf_counter() + warm_s
    end_s = begin_s + seconds
    window: dict[str, int] = {}

    async def client() -> None:
        connection = Connection(port)
        while (now_s := time.perf_counter()) < end_s:
            await _request(connection, next(bodies), now_s, tally)
        connection.close()

    async def mark() -> None:
        await asyncio.sleep(begin_s - time.perf_counter())
        window["begin"] = tally.words
        await asyncio.sleep(end_s - time.perf_counter())
        window["end"] = tally.words

    await asyncio.gather(mark(), *(client() for _ in range(clients)))
    counted = [
        latency
        for latency, finished_s in zip(tally.latencies_s, tally.finished_s, strict=True)
        if begin_s <= finished_s < end_s
    ]
    return {
        "latencies_s": counted,
        "failures": tally.failures,
        "per_s": len(counted) / seconds,
        "words_per_s": (window["end"] - window["begin"]) / seconds,
    }


async def open_loop(port: int, bodies: Iterator[bytes], rate: float, seconds: float) -> Any:
    """Send at times drawn beforehand (Poisson, always the same draw), on as many connections as it takes."""
    tally, free = Tally(), list[Connection]()
    draw = random.Random(_SEED)
    start_s, offset_s = time.perf_counter() + 0.05, 0.0
    under_way: set[asyncio.Task[None]] = set()

    async def one(meant_s: float, body: bytes) -> None:
        connection = free.pop() if free else Connection(port)
        await _request(connection, body, meant_s, tally)
        free.append(connection)

    while (offset_s := offset_s + draw.expovariate(rate)) < seconds:
        meant_s = start_s + offset_s
        await asyncio.sleep(max(0.0, meant_s - time.perf_counter()))
        task = asyncio.create_task(one(meant_s, next(bodies)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    if under_way:
        _, late = await asyncio.wait(under_way, timeout=_DRAIN_S)
        for task in late:
            task.cancel()
            tally.fail("unanswered")
    for connection in free:
        connection.close()
    return {"latencies_s": tally.latencies_s, "failures": tally.failures}


async def array(port: int, body: bytes) -> Any:
    """Send one request; returns how long it took."""
    tally, connection = Tally(), Connection(port)
    await _request(connection, body, time.perf_counter(), tally)
    connection.close()
    return {"latencies_s": tally.latencies_s, "failures": tally.failures}


def answer(question: dict[str, Any], prepared: dict[str, Any]) -> Any:
    """Do what one line asks for.

    Args:
        question: as parsed.
        prepared: texts and fields, kept between questions.
    """
    if question["op"] == "prepare":
        prepared.update(texts=question["texts"], fields=question["fields"])
        return {}
    texts, fields = prepared["texts"], prepared["fields"]
    if question["op"] == "array":
        return asyncio.run(array(question["port"], json.dumps({"q": texts, **fields}).encode()))
    bodies = itertools.cycle([json.dumps({"q": text, **fields}).encode() for text in texts])
    before = resource.getrusage(resource.RUSAGE_SELF)
    if question["op"] == "closed":
        loop = closed_loop(
            question["port"], bodies, question["clients"], question["warm_s"], question["seconds"]
        )
    else:
        loop = open_loop(question["port"], bodies, question["rate"], question["seconds"])
    result = asyncio.run(loop)
    after = resource.getrusage(resource.RUSAGE_SELF)
    result["client_cpu_s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result


def main() -> None:
    """Answer lines until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answers.write("{}\n")
    answers.flush()
    prepared: dict[str, Any] = {}
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line), prepared)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
            reply = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
