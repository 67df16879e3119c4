"""Closing a connection whose client is still sending: read on and forget, so that it gets to see its answer.

A socket that is closed with unread bytes resets the connection, and a reset throws away what the client has
not read yet: the answer that says why it is closed. RFC 9112, section 9.6.
"""

import asyncio

_LINGER_S = 5.0  # as nginx waits for the next bytes


class Lingering(asyncio.Protocol):
    """Takes a connection over from its protocol, for as long as the client sends, and not for long."""

    def __init__(self, before: asyncio.Protocol, timer: asyncio.TimerHandle) -> None:
        """Take over.

        Args:
            before: told when the connection is lost, and whether writing may go on.
            timer: ends the connection; cancelled once it has ended.
        """
        self._before = before
        self._timer = timer

    def pause_writing(self) -> None:
        """Pass on."""
        self._before.pause_writing()

    def resume_writing(self) -> None:
        """Pass on."""
        self._before.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on; the client has ended, or its time has."""
        self._timer.cancel()
        self._before.connection_lost(exc)


def close_gently(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
    """Send what is written and the end of the stream; close when the client has ended, too, or after 5 s.

    Args:
        transport: of the connection; what it still receives is dropped.
        loop: it lives on.
    """
    before = transport.get_protocol()
    assert isinstance(before, asyncio.Protocol)
    transport.write_eof()
    transport.set_protocol(Lingering(before, loop.call_later(_LINGER_S, transport.abort)))
    transport.resume_reading()
