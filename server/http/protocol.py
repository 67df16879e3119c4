"""One connection: uvicorn's with the bounds it lacks. Slow clients are closed, what is not HTTP is refused.

uvicorn waits for ever for the rest of a header or a body, and one such connection keeps it from ending. Nor
does it cancel a handler whose client has gone away.
"""

import asyncio
import re
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from server.errors import DragomanError
from server.http.errors import (
    STATUS,
    AmbiguousFramingError,
    ClientDisconnectedError,
    error_body,
    reason_of,
)
from server.http.framing import Framing
from server.http.transport import ConnectionTransport

T = TypeVar("T")

DISCONNECT_EXTENSION = "dragoman.on_disconnect"
"""An ASGI extension: takes what to call when the connection is lost, None for nothing more."""
FAULT_EXTENSION = "dragoman.fault"
"""Another: gives what is wrong with the framing of the request's body, None as long as nothing is."""

_ABORT_AFTER_S = 1.0
_FIRST_REQUEST_S = 1.0
_STANDARD_METHODS = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE"))
_PLAIN = "the request is not valid HTTP"
_UPGRADE = re.compile(rb"\r\nupgrade:[^\r]*", re.IGNORECASE)
RefusalHook = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """What a client may take.

    Attributes:
        header_timeout_s: how long a request's headers may take, from the connection or the first byte on.
        body_timeout_s: how long its body may take, from the end of the headers on; also how long the client
            may refuse to read an answer.
        max_body_bytes: largest body that the application reads.
        on_refusal: told the status of each request that never reached the application.
    """

    header_timeout_s: float
    body_timeout_s: float
    max_body_bytes: int
    on_refusal: RefusalHook


class BoundedProtocol(HttpToolsProtocol):
    """One connection whose client must keep moving. Created by uvicorn; used on the event loop only.

    One request at a time: what comes behind it is held until its answer is out.
    """

    def __init__(self, bounds: ConnectionBounds, **uvicorn_options: Any) -> None:
        """Prepare for a connection; the other arguments are those of uvicorn's protocols."""
        super().__init__(**uvicorn_options)
        self._bounds = bounds
        self._framing = Framing(bounds.max_body_bytes)
        self._unread = bytearray()
        self._method = b""  # as it was sent
        self._fault: DragomanError | None = None  # nothing is read after it
        self._waiting_for: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._on_disconnect: Callable[[], None] | None = None
        self._opened_s = 0.0
        self._is_new = True  # no request has begun

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock for the first request."""
        wrapped: Any = ConnectionTransport(transport, self.loop, self._may_still_send)
        super().connection_made(wrapped)
        self._opened_s = self.loop.time()
        self._wait_for("headers")

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks and tell the request that runs."""
        self._wait_for(None)
        self._unread.clear()
        super().connection_lost(exc)  # calls resume_writing
        self._notify_disconnect()

    def pause_writing(self) -> None:
        """Give the client a time to read."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._bounds.body_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop that clock."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if the client does not read."""
        super().timeout_keep_alive_handler()
        self.loop.call_later(_ABORT_AFTER_S, self.transport.abort)

    def shutdown(self) -> None:
        """End with the request that runs; a connection that is new may still send its first one."""
        remaining_s = self._opened_s + _FIRST_REQUEST_S - self.loop.time()
        if self._is_new and remaining_s > 0:
            self.loop.call_later(remaining_s, super().shutdown)
        else:
            super().shutdown()

    # Reading

    def data_received(self, data: bytes) -> None:
        """Read requests, one at a time."""
        if self._fault is not None or self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self._unread += data
        self._read()

    def _read(self) -> None:
        try:
            while not self._is_answering() and (part := self._framing.take(self._unread)):
                self._parse(part)
        except DragomanError as error:
            self._refuse(error)
        except httptools.HttpParserError as error:
            cause = error.__context__  # of what a callback raised
            self._refuse(cause if isinstance(cause, DragomanError) else AmbiguousFramingError(_PLAIN))
        if self._unread and self._is_answering():
            self.flow.pause_reading()
        self._watch()

    def _parse(self, part: bytes) -> None:
        if self._framing.part == "headers":
            self._method, _, rest = part.partition(b" ")
            if self._method not in _STANDARD_METHODS:  # llhttp refuses it, or expects another protocol next
                part = b"POST " + rest
            # With it llhttp would take a body for the start of another protocol.
            part = _UPGRADE.sub(b"", part)
        self.parser.feed_data(part)

    def _is_answering(self) -> bool:
        """Tell whether a request has come whose answer is not out."""
        is_read = self._framing.part == "headers"
        return is_read and self.cycle is not None and not self.cycle.response_complete

    def _may_still_send(self) -> bool:
        """Tell whether closing now would lose the answer in a reset."""
        return self._framing.part == "body" or self._fault is not None or bool(self._unread)

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer is nothing that anybody reads."""
        if self._framing.part == "headers":
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Begin a request, if there is no doubt where it ends."""
        body_bytes: int | None = 0
        hosts = 0
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                body_bytes = int(value)
            elif name == b"transfer-encoding":
                body_bytes = None
                if value.lower() != b"chunked":
                    raise AmbiguousFramingError("Transfer-Encoding is not chunked")
        version = self.parser.get_http_version()
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            raise AmbiguousFramingError("there must be one Host header")
        if body_bytes is None and version == "1.0":
            raise AmbiguousFramingError("HTTP/1.0 has no chunks")
        extensions: dict[str, Any] = {
            DISCONNECT_EXTENSION: self._call_on_disconnect,
            FAULT_EXTENSION: lambda: self._fault,
        }
        self.scope["extensions"] = extensions
        super().on_headers_complete()  # the task it makes starts in the next turn
        self._framing.begin_body(body_bytes)
        self._is_new = False
        self.scope["method"] = self._method.decode("ascii")

    def on_chunk_header(self) -> None:
        """Note that a body goes on."""
        self._framing.progress()

    def on_body(self, body: bytes) -> None:
        """Pass a part of a body on, or drop it if the answer is out."""
        self._framing.progress()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Expect the next request."""
        self._framing.begin_headers()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Read on."""
        super().on_response_complete()
        if self._unread and self._fault is None and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._read()
        else:
            self._watch()

    # Disconnects and refusals

    def _call_on_disconnect(self, callback: Callable[[], None] | None) -> None:
        self._on_disconnect = callback
        if callback is not None and self.cycle.disconnected:  # it was lost before anyone asked
            self.loop.call_soon(self._notify_disconnect)

    def _notify_disconnect(self) -> None:
        if self._on_disconnect is not None:
            self._on_disconnect()

    def _refuse(self, error: DragomanError) -> None:
        """Answer what cannot be read. If it is the rest of a request, the application does, once."""
        self._fault = error
        self._unread.clear()
        if self._framing.part == "headers":
            self._answer_refusal(error)
        elif self.cycle.response_started:
            self.transport.close()  # a second answer would be read as part of the first
        else:
            self.cycle.keep_alive = False
            self.cycle.message_event.set()

    def _answer_refusal(self, error: DragomanError) -> None:
        reason = reason_of(error)
        status = STATUS[reason]
        self._bounds.on_refusal(status)
        request_id = secrets.token_hex(8)
        body = error_body(str(error), reason, request_id)
        lines = (
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"x-request-id: " + request_id.encode(),
            b"connection: close\r\n\r\n",
        )
        self.transport.write(STATUS_LINE[status] + b"\r\n".join(lines) + body)
        self.transport.close()

    # Clocks

    def _watch(self) -> None:
        if self.transport.is_closing() or self._fault is not None or self._is_answering():
            self._wait_for(None)
        elif self._framing.part == "body":
            self._wait_for("body")
        elif self._unread or self.timeout_keep_alive_task is None:
            self._wait_for("headers")
        else:
            self._wait_for(None)

    def _wait_for(self, what: str | None) -> None:
        if what == self._waiting_for:
            return  # the clock runs for the whole of it; each byte does not start it anew
        self._waiting_for = what
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if what is not None:
            bounds = self._bounds
            timeout_s = bounds.header_timeout_s if what == "headers" else bounds.body_timeout_s
            self._timer = self.loop.call_later(timeout_s, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        self.transport.close()
        # Closing waits until all is written, which a client that does not read could put off for ever.
        self.loop.call_later(_ABORT_AFTER_S, self.transport.abort)


async def unless_disconnected(
    scope: Scope, work: Coroutine[Any, Any, T], on_disconnect: Callable[[], None]
) -> T:
    """Await work, or cancel it as soon as the client goes away.

    The work runs in the caller's own task.

    Args:
        scope: ASGI scope.
        work: what the client waits for.
        on_disconnect: called before the work is cancelled.

    Returns:
        The result of the work.

    Raises:
        ClientDisconnectedError: the client went away first.
    """
    caller = asyncio.current_task()
    assert caller is not None
    gone = False

    def leave() -> None:
        # The caller waits inside `work` whenever this is called: the watch ends with it, see below.
        nonlocal gone
        gone = True
        on_disconnect()
        caller.cancel()

    register = scope["extensions"][DISCONNECT_EXTENSION]
    register(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if not gone:
            raise
        caller.uncancel()
        raise ClientDisconnectedError("the client went away") from None
    finally:
        register(None)
