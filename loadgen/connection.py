"""A client of `POST /translate` that costs little: raw sockets, kept alive, bodies made beforehand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

_MAX_HEAD_BYTES = 1 << 22
_UNSAFE = re.compile(r"[\r\n\0]")
_CODE = re.compile(r"[a-z_]{1,40}")


class TargetError(ValueError):
    """What was given is no server to send requests to."""


@dataclass(frozen=True)
class Target:
    """Where requests go, and the part of them that is always the same.

    Attributes:
        host: name or address.
        port: TCP port.
        head: everything before the body's length.
        tls: how to speak TLS; None for plain HTTP.
    """

    host: str
    port: int
    head: bytes
    tls: ssl.SSLContext | None = None

    @classmethod
    def parse(cls, url: str, headers: Mapping[str, str] | None = None) -> Target:
        """Read the address of a server.

        Args:
            url: as `http://localhost:8000`, or with a path that stands before `/translate`.
            headers: more of them, by name.

        Raises:
            TargetError: it is none.
        """
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port
        except ValueError as error:
            raise TargetError(f"{url}: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise TargetError(f"{url}: give it as http://HOST:PORT")
        path = parts.path.rstrip("/")
        if not path.endswith("/translate"):
            path += "/translate"
        secure = parts.scheme == "https"
        authority = parts.netloc.rpartition("@")[2]
        lines = [f"POST {path} HTTP/1.1", f"Host: {authority}", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if any(_UNSAFE.search(line) for line in lines):
            raise TargetError("a header holds a line break")
        try:
            head = "".join(f"{line}\r\n" for line in lines).encode("latin-1")
        except UnicodeEncodeError:
            raise TargetError("headers and paths are written in Latin-1") from None
        tls = ssl.create_default_context() if secure else None
        return cls(parts.hostname, port or (443 if secure else 80), head, tls)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        status: of HTTP.
        body: as received.
        retry_after_s: what the server says to wait, or None.
    """

    status: int
    body: bytes
    retry_after_s: float | None

    @property
    def kind(self) -> str:
        """The status, with the reason that the body of an error gives."""
        with contextlib.suppress(ValueError):
            fields = json.loads(self.body)
            code = fields.get("code") if isinstance(fields, dict) else None
            if isinstance(code, str) and _CODE.fullmatch(code):
                return f"{self.status} {code}"
        return str(self.status)

    @property
    def words(self) -> int:
        """Words of the translation, or of all of them.

        Raises:
            ValueError: the body holds none.
        """
        try:
            found = json.loads(self.body)["translatedText"]
            return sum(len(text.split()) for text in ([found] if isinstance(found, str) else found))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise ValueError("the answer has no translatedText") from None


class Connection:
    """One kept-alive connection. Used from one event loop, by one request at a time."""

    def __init__(self, target: Target) -> None:
        """Remember where to; the first request connects.

        Args:
            target: of all requests.
        """
        self._target = target
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, body: bytes) -> Answer:
        """Send a request and read its answer.

        Args:
            body: JSON.

        Raises:
            OSError: the connection broke, or there is none.
            EOFError: the server closed it in the middle.
            ValueError: the answer is not of HTTP, or has no length.
        """
        if self._streams is not None and self._streams[0].at_eof():
            self.close()  # the server had enough of waiting for the next request
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                self._target.host, self._target.port, limit=_MAX_HEAD_BYTES, ssl=self._target.tls
            )
        reader, writer = self._streams
        writer.write(self._target.head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        content = await reader.readexactly(int(_header(head, b"content-length") or b"none"))
        if b"connection: close" in head:
            self.close()
        retry_after = _header(head, b"retry-after")
        delay_s = float(retry_after) if retry_after is not None and retry_after.isdigit() else None
        return Answer(int(head[9:12]), content, delay_s)

    def close(self) -> None:
        """Close it, if it is open."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def _header(head: bytes, name: bytes) -> bytes | None:
    """Find a header's value in a head of small letters."""
    _, found, rest = head.partition(b"\r\n" + name + b":")
    return rest.split(b"\r", 1)[0].strip() if found else None
