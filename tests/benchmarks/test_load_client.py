"""The client of the HTTP benchmark against a real server whose behaviour is known."""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks import load_client


@dataclass
class Server:
    """Answers every text in upper case after `delay_s`; what it is asked to, it refuses or hangs up on."""

    delay_s: float = 0.0
    port: int = 0
    at_once: int = 0
    most_at_once: int = 0
    connections: int = 0
    texts: list[str] = field(default_factory=list)
    arrived_s: list[float] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
            except (asyncio.IncompleteReadError, ConnectionResetError):
                break
            length = int(head.partition(b"content-length: ")[2].split(b"\r", 1)[0])
            q = json.loads(await reader.readexactly(length))["q"]
            self.arrived_s.append(time.perf_counter())
            self.texts.append(q)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            await asyncio.sleep(self.delay_s)
            self.at_once -= 1
            if q == "hang up":
                break
            status = b"503 Service Unavailable" if q == "refuse" else b"200 OK"
            answer = [text.upper() for text in q] if isinstance(q, list) else q.upper()
            body = json.dumps({"translatedText": answer}, separators=(",", ":")).encode()
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        writer.close()


@pytest.fixture
def server() -> Iterator[Server]:
    known = Server()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        listening = await asyncio.start_server(known.serve, "127.0.0.1", 0)
        known.port = listening.sockets[0].getsockname()[1]

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(run(), loop).result(10)
    yield known
    for task in asyncio.all_tasks(loop):
        loop.call_soon_threadsafe(task.cancel)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def ask(texts: list[str], **question: Any) -> Any:
    prepared: dict[str, Any] = {}
    load_client.answer({"op": "prepare", "texts": texts, "fields": {"source": "en"}}, prepared)
    return load_client.answer(question, prepared)


@pytest.mark.parametrize("clients", [1, 5])
def test_a_closed_loop_keeps_as_many_requests_under_way(server: Server, clients: int) -> None:
    server.delay_s = 0.02
    texts = [f"text {n}" for n in range(7)]
    found = ask(texts, op="closed", port=server.port, clients=clients, warm_s=0.1, seconds=0.6)
    assert server.most_at_once == clients == server.connections
    assert server.texts[:14] == list(itertools.islice(itertools.cycle(texts), min(14, len(server.texts))))
    assert found["failures"] == {}
    assert min(found["latencies_s"]) >= server.delay_s
    # Who waits 20 ms for each answer gets at most 50 a second, and only those of the window count.
    assert 0 < found["per_s"] == len(found["latencies_s"]) / 0.6 <= 50 * clients + clients / 0.6
    assert found["words_per_s"] == pytest.approx(2 * found["per_s"], rel=0.2)
    assert found["client_cpu_s"] > 0


def test_an_open_loop_does_not_wait_for_answers(server: Server) -> None:
    server.delay_s = 0.3
    found = ask(["text"], op="open", port=server.port, rate=60.0, seconds=0.5)
    assert server.most_at_once > 10
    assert len(found["latencies_s"]) == len(server.texts) > 15
    assert min(found["latencies_s"]) >= server.delay_s


def test_an_open_loop_always_draws_the_same_times(server: Server) -> None:
    for _ in range(2):
        ask(["text"], op="open", port=server.port, rate=40.0, seconds=0.5)
    half = len(server.texts) // 2
    assert len(server.texts) == 2 * half
    first, second = (
        [at - times[0] for at in times] for times in (server.arrived_s[:half], server.arrived_s[half:])
    )
    assert first == pytest.approx(second, abs=0.15)


def test_failures_are_counted_and_give_no_latency(server: Server) -> None:
    found = ask(["good", "refuse", "hang up"], op="open", port=server.port, rate=60.0, seconds=0.5)
    expected = {
        kind: server.texts.count(text)
        for kind, text in (("503", "refuse"), ("IncompleteReadError", "hang up"))
    }
    assert found["failures"] == expected
    assert len(found["latencies_s"]) == server.texts.count("good")


def test_an_array_is_one_request(server: Server) -> None:
    texts = [f"text {n}" for n in range(500)]
    found = ask(texts, op="array", port=server.port)
    assert server.texts == [texts]
    assert len(found["latencies_s"]) == 1
