"""Requests as almost all of them come: read strictly and at once, answered without another state machine.

h11 turns every request and every answer into events and back, a fifth of what a short translation costs the
event loop. Most are a `POST /translate` whose head is in the first read and whose length is known. What is
read here h11 would read alike (tests compare them); what is unusual in any way is left to it, and so is
everything that is wrong.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, RequestResponseCycle

MOST_BODY_BYTES = 65536
"""Of a longer body uvicorn stops reading until the application has taken what is there."""
_MOST_HEAD_BYTES = 16384
_FIRST_LINE = re.compile(rb"POST (/translate)(?:\?([!-~]*))? HTTP/1\.1\r\n")
_LINES = re.compile(rb"(?:[-!#$%&'*+.^_`|~0-9A-Za-z]+:[\t -~]*\r\n)+")
_NUMBER = re.compile(rb"[0-9]{1,9}")
_UNUSUAL = frozenset((b"transfer-encoding", b"expect", b"upgrade"))
_BAD_VALUE = re.compile(rb"[^\t\x20-\x7e\x80-\xff]")


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an ordinary request.

    Attributes:
        path: of its target.
        query: behind it, undecoded; empty if there is none.
        headers: in their order, names in lower case.
        body_bytes: that follow the head.
        size: bytes of the head itself.
    """

    path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body_bytes: int
    size: int


def read_head(data: bytes) -> Head | None:
    """Read the head of an ordinary request.

    Args:
        data: what came on a connection on which nothing is under way.

    Returns:
        The head; None for anything that is not whole, not ordinary or not right.
    """
    first = _FIRST_LINE.match(data)
    if first is None:
        return None
    end = data.find(b"\r\n\r\n", first.end(), _MOST_HEAD_BYTES)
    if end < 0 or not _LINES.fullmatch(data, first.end(), end + 2):
        return None
    headers: list[tuple[bytes, bytes]] = []
    found: dict[bytes, bytes] = {}
    for line in data[first.end() : end].split(b"\r\n"):
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if name in (b"content-length", b"host", b"connection"):
            if name in found:
                return None
            found[name] = value
        elif name in _UNUSUAL:
            return None
        headers.append((name, value))
    length = found.get(b"content-length", b"")
    is_ordinary = b"host" in found and found.get(b"connection", b"keep-alive").lower() == b"keep-alive"
    if not is_ordinary or not _NUMBER.fullmatch(length):
        return None
    return Head(first[1], first[2] or b"", headers, int(length), end + 4)


def answer_head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Write the head of an answer, the empty line behind it included.

    Args:
        status: its status.
        headers: in their order, names in lower case.

    Raises:
        RuntimeError: a value would end its line.
    """
    lines = [b"HTTP/1.1 %d %s" % (status, STATUS_PHRASES[status])]
    for name, value in headers:
        if _BAD_VALUE.search(value):
            raise RuntimeError("a header's value holds a control character")
        lines.append(b"%s: %s" % (name, value))
    return b"\r\n".join([*lines, b"", b""])


class OrdinaryCycle(RequestResponseCycle):
    """One ordinary request and its answer: uvicorn's, but that it writes the answer itself."""

    _owed_bytes: int | None = None  # of the body that the answer's head has announced

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send an ASGI message; see uvicorn."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        expected = "http.response.body" if self.response_started else "http.response.start"
        if message["type"] != expected or self.response_complete:
            raise RuntimeError(f"an application sent {message['type']} out of turn")
        if self.response_started:
            self._write_body(message.get("body", b""), more=message.get("more_body", False))
        else:
            self._write_head(message["status"], [*self.default_headers, *message.get("headers", ())])

    def _write_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        known = dict(headers)
        closes = b"close" in known.get(b"connection", b"").lower()
        owed_bytes = int(known[b"content-length"]) if b"content-length" in known else None
        if closes or owed_bytes is None:  # then the end of the connection is the end of the answer
            self.keep_alive = False
        if not (closes or self.keep_alive):
            headers.append((b"connection", b"close"))
        head = answer_head(status, headers)
        self.response_started, self._owed_bytes = True, owed_bytes
        self.transport.write(head)

    def _write_body(self, body: bytes, *, more: bool) -> None:
        if self._owed_bytes is not None:
            self._owed_bytes -= len(body)
            if self._owed_bytes < 0 or (self._owed_bytes and not more):
                raise RuntimeError("an answer of another length than its head says")
        self.transport.write(body)
        if more:
            return
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
