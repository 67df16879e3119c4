"""A server of known behaviour, for what measures servers."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class KnownServer:
    """Answers every text in upper case after `delay_s`; what it is asked to, it refuses or hangs up on.

    Attributes:
        delay_s: of every answer.
        port: it listens on, once it serves.
        at_once: requests it is busy with.
        most_at_once: the most that these were.
        connections: it was opened.
        texts: it was sent, in order.
        arrived_s: when, on the performance counter.
        headers: of the last request, in small letters.
        refusals: how many more requests for "later" are refused with `Retry-After: 0`.
        closes: whether it closes each connection after an answer without saying so before.
    """

    delay_s: float = 0.0
    port: int = 0
    at_once: int = 0
    most_at_once: int = 0
    connections: int = 0
    texts: list[str | list[str]] = field(default_factory=list)
    arrived_s: list[float] = field(default_factory=list)
    headers: bytes = b""
    refusals: int = 0
    closes: bool = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
            except (asyncio.IncompleteReadError, ConnectionResetError):
                break
            self.headers = head
            if head.startswith(b"get /languages "):
                answer: object = [{"code": "en", "name": "English", "targets": ["en", "de"]}]
                writer.write(self._answer(b"200 OK", answer))
                continue
            length = int(head.partition(b"content-length: ")[2].split(b"\r", 1)[0])
            q = json.loads(await reader.readexactly(length))["q"]
            self.arrived_s.append(time.perf_counter())
            self.texts.append(q)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            await asyncio.sleep(60 if q == "never" else self.delay_s)
            self.at_once -= 1
            if q == "hang up":
                break
            if q == "nonsense":
                writer.write(b"220 mail.example.org ESMTP\r\n\r\n")
                break
            if q == "later" and self.refusals:
                self.refusals -= 1
                refusal = {"error": "full", "code": "queue_full", "request_id": "1"}
                writer.write(self._answer(b"429 Too Many Requests\r\nRetry-After: 0", refusal))
                continue
            status = b"503 Service Unavailable" if q == "refuse" else b"200 OK"
            translated = [text.upper() for text in q] if isinstance(q, list) else q.upper()
            writer.write(self._answer(status, {"translatedText": translated}))
            if self.closes:
                break
        writer.close()

    @staticmethod
    def _answer(status: bytes, value: object) -> bytes:
        body = json.dumps(value, separators=(",", ":")).encode()
        return b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@contextmanager
def serving(known: KnownServer) -> Iterator[KnownServer]:
    """Serve on a thread until the block ends."""
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        listening = await asyncio.start_server(known.serve, "127.0.0.1", 0)
        known.port = listening.sockets[0].getsockname()[1]

    async def end() -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(begin(), loop).result(10)
        yield known
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
