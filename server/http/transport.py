"""A connection's way out: sends an answer in one piece instead of two, and closes without a reset.

uvicorn writes the head of an answer and its body apart. Each write is a system call, and around each the
event loop gives up Python's lock and has to get it back from the worker threads.

A socket that is closed with unread bytes resets the connection, and a reset throws away what the client has
not read yet: the answer that says why it is closed. So what a client still sends is read and dropped until
it has ended, too (RFC 9112, section 9.6).
"""

import asyncio
from collections.abc import Callable
from typing import Any

_SEND_AT_BYTES = 1 << 16
"""Beyond this nothing is gained by waiting, and the transport has to see when its client does not read."""

_LINGER_S = 5.0  # as nginx waits for the next bytes


class ConnectionTransport:
    """Collects what is written in one turn of the event loop. Used from that loop.

    What is not about writing is the transport's own affair.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        may_still_send: Callable[[], bool],
    ) -> None:
        """Wrap the transport of one connection.

        Args:
            transport: to write to.
            loop: it lives on.
            may_still_send: tells whether the client is in the middle of a request, and must be closed gently.
        """
        self._transport = transport
        self._loop = loop
        self._may_still_send = may_still_send
        self._waiting = b""
        self._closing = False

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
        """Send what was written, then close; if the client still sends, when it has ended or after a while.

        The protocol drops what is received after this call.
        """
        if self.is_closing():
            return
        self._closing = True
        self.flush()
        if self._may_still_send() and self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
            self._loop.call_later(_LINGER_S, self._transport.abort)
        else:
            self._transport.close()

    def is_closing(self) -> bool:
        """Tell whether it is closed, or about to be."""
        return self._closing or self._transport.is_closing()

    def abort(self) -> None:
        """Close without sending anything more."""
        self._waiting = b""
        self._transport.abort()
