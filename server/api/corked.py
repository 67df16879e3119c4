"""A connection's way out that sends an answer in one piece instead of two.

uvicorn writes the head of an answer and its body apart. Each write is a system call, and around each the
event loop gives up Python's lock and has to get it back from the worker threads.
"""

import asyncio
from typing import Any

_SEND_AT_BYTES = 1 << 16
"""Beyond this nothing is gained by waiting, and the transport has to see when its client does not read."""


class CorkedTransport:
    """Collects what is written in one turn of the event loop. Used from that loop.

    What is not about writing is the transport's own affair.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Wrap a transport.

        Args:
            transport: of one connection.
            loop: it lives on.
        """
        self._transport = transport
        self._loop = loop
        self._waiting = b""

    def __getattr__(self, name: str) -> Any:
        """Give what the transport has."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send at the end of this turn."""
        if not data:
            return
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting += data
        if len(self._waiting) >= _SEND_AT_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send now."""
        data, self._waiting = self._waiting, b""
        if data:
            self._transport.write(data)

    def close(self) -> None:
        """Send what was written, then close."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close without sending anything more."""
        self._waiting = b""
        self._transport.abort()
