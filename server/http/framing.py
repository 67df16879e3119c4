"""Cuts what a connection receives into parts that end where a request's head or body ends, within bounds.

llhttp has no bound for a head and is lenient about a request line, so a head is held until it is whole and
checked. Because no part reaches into the next request, nothing is parsed before its turn.
"""

import re
from typing import Literal

from server.errors import BodyTooLargeError
from server.http.errors import AmbiguousFramingError, HeadersTooLargeError

MAX_HEAD_BYTES = 16384
_WIRE_ALLOWANCE_BYTES = 65536
_FREE_LINES, _BYTES_PER_LINE = 8192, 16  # after 4096 chunks, each has to have 32 bytes on the wire
_TOKEN = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_HEAD = re.compile(
    rb"%s [!\"$-~]+ HTTP/1\.[01]\r\n(?:%s:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n" % (_TOKEN, _TOKEN)
)
_START = re.compile(_TOKEN)
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_UNFINISHED_END = re.compile(rb"\r(?:\n\r?)?\Z")


class Framing:
    """The position in a stream of requests. Used by one connection.

    Attributes:
        part: of a request that is expected next.
    """

    def __init__(self, max_body_bytes: int) -> None:
        """Start before the first request.

        Args:
            max_body_bytes: largest body that the application reads; framing it may take a quarter of that.
        """
        self.part: Literal["headers", "body"] = "headers"
        self._max_wire_bytes = max_body_bytes + max_body_bytes // 4 + _WIRE_ALLOWANCE_BYTES
        self._missing_bytes: int | None = None  # of the body; None if it comes in chunks
        self._wire_bytes = self._lines = self._silent_bytes = 0

    def begin_body(self, size: int | None) -> None:
        """Expect a body of so many bytes; None if it comes in chunks."""
        self.part, self._missing_bytes = "body", size
        self._wire_bytes = self._lines = self._silent_bytes = 0

    def progress(self) -> None:
        """Note that a chunk has begun; what comes without one is an extension or a trailer."""
        self._silent_bytes = 0

    def begin_headers(self) -> None:
        """Expect another request."""
        self.part = "headers"

    def take(self, unread: bytearray) -> bytes:
        """Remove from `unread` the next part: a whole head, or a part of the body; empty if more has to come.

        Raises:
            AmbiguousFramingError: this is no HTTP, or not certainly one request.
            HeadersTooLargeError: the head is, or a chunk's extensions or the trailer.
            BodyTooLargeError: the body is framed in too many bytes.
        """
        size = self._head_size(unread) if self.part == "headers" else self._body_size(unread)
        taken = bytes(unread[:size])
        del unread[:size]
        if self.part == "headers":
            if taken and not _HEAD.fullmatch(taken):
                raise AmbiguousFramingError("the request line or a header is malformed")
            return taken
        if self._missing_bytes is not None:
            self._missing_bytes -= size
        self._bound_body(taken)
        return taken

    def _head_size(self, unread: bytearray) -> int:
        end = unread.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES)
        if end >= 0:
            return end + 4
        if unread and not _START.match(unread):
            raise AmbiguousFramingError("the request line is malformed")
        if len(unread) >= MAX_HEAD_BYTES:
            raise HeadersTooLargeError(f"more than {MAX_HEAD_BYTES} bytes of headers")
        if _BARE_LINE_FEED.search(unread):
            raise AmbiguousFramingError("a line ends without a carriage return")
        return 0

    def _body_size(self, unread: bytearray) -> int:
        if self._silent_bytes > MAX_HEAD_BYTES:
            raise HeadersTooLargeError(f"more than {MAX_HEAD_BYTES} bytes of chunk extensions or trailer")
        if self._missing_bytes is not None:
            return min(self._missing_bytes, len(unread))
        end = unread.find(b"\r\n\r\n")  # which every last chunk and trailer end with
        if end >= 0:
            return end + 4
        unfinished = _UNFINISHED_END.search(unread)
        return len(unread) if unfinished is None else unfinished.start()

    def _bound_body(self, taken: bytes) -> None:
        self._wire_bytes += len(taken)
        if self._missing_bytes is None:
            self._lines += taken.count(b"\r\n")
            self._silent_bytes += len(taken)
        # The parser and its callbacks take a microsecond for every chunk.
        is_flood = self._lines > _FREE_LINES and self._lines * _BYTES_PER_LINE > self._wire_bytes
        if is_flood or self._wire_bytes > self._max_wire_bytes:
            raise BodyTooLargeError("the body is framed in too many bytes")
