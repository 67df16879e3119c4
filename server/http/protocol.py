"""One connection: uvicorn's with the bounds it lacks. Slow clients are closed, what is not HTTP is refused.

uvicorn waits for ever for the rest of a header or a body, and one such connection keeps it from ending.
"""

import asyncio
import secrets
import sys
from collections.abc import Callable, Sequence
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from server.errors import BodyTooLargeError, DragomanError
from server.http.disconnect import EXTENSION as DISCONNECT_EXTENSION
from server.http.disconnect import FAULT_EXTENSION
from server.http.errors import AmbiguousFramingError, HeadersTooLargeError, error_body, reason_of
from server.http.fast_path import MOST_BODY_BYTES, Head, OrdinaryCycle, read_head
from server.http.write_coalescing import CorkedTransport

_WIRE_ALLOWANCE_BYTES = 65536
_MIN_BREAKS, _BYTES_PER_BREAK = 8192, 16  # after 4096 chunks, each has to have 32 bytes on the wire
_ABORT_AFTER_S = 1.0
RefusalHook = Callable[[int], None]
_Headers = Sequence[tuple[bytes, bytes]]
RefuseUnread = Callable[[Head, _Headers, int], bytes | None]


def refuse_nothing(_head: Head, _headers: _Headers, _under_way: int) -> bytes | None:
    """Let every request be read."""
    return None


def bounded_protocol(
    header_timeout_s: float,
    body_timeout_s: float,
    max_body_bytes: int,
    on_refusal: RefusalHook,
    refuse_unread: RefuseUnread,
) -> type[asyncio.Protocol]:
    """Make the protocol class that uvicorn creates for each connection.

    Args:
        header_timeout_s: how long a request's headers may take, counted from the connection or the first
            byte.
        body_timeout_s: how long its body may take, counted from the end of the headers; also how long the
            client may refuse to read an answer.
        max_body_bytes: largest body that the application reads; what frames it may take a quarter of that.
        on_refusal: told the status of each request that never reached the application.
        refuse_unread: given the head of an ordinary request of which all has come, the headers of every
            answer and the requests under way, answers instead of the application, or does not.

    Returns:
        A class; its instances are used on the event loop only.
    """
    max_wire_bytes = max_body_bytes + max_body_bytes // 4 + _WIRE_ALLOWANCE_BYTES

    class BoundedProtocol(H11Protocol):
        """One connection whose client must keep moving."""

        _wire_bytes = 0  # of the body so far
        _wire_breaks = 0
        _waiting_for: str | None = None
        _timer: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None
        _on_disconnect: Callable[[], None] | None = None
        _fault: DragomanError | None = None  # of the body that is being read; there is no next request
        _missing_bytes = 0  # of an ordinary request's body
        _held = b""  # what came behind an ordinary request that is under way

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            corked = CorkedTransport(transport, self.loop, self._is_sending)
            super().connection_made(corked)  # type: ignore[arg-type]
            self._wait_for("headers")

        def _is_sending(self) -> bool:
            return self._missing_bytes > 0 or self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait_for(None)
            super().connection_lost(exc)  # calls resume_writing
            self._tell_disconnect()

        def handle_events(self) -> None:
            """Read what has come; requests that begin are tasks, which start in the next turn."""
            before = self.cycle
            super().handle_events()
            if self.cycle is not before:
                self.scope["extensions"] = self._extensions()

        def _extensions(self) -> dict[str, Any]:
            return {
                DISCONNECT_EXTENSION: self._call_on_disconnect,
                FAULT_EXTENSION: lambda: self._fault,
            }

        def _call_on_disconnect(self, callback: Callable[[], None] | None) -> None:
            self._on_disconnect = callback
            if callback is not None and self.cycle.disconnected:  # it was lost before anyone asked
                self.loop.call_soon(self._tell_disconnect)

        def _tell_disconnect(self) -> None:
            if self._on_disconnect is not None:
                self._on_disconnect()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._write_timer = self.loop.call_later(body_timeout_s, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None

        def timeout_keep_alive_handler(self) -> None:
            super().timeout_keep_alive_handler()
            self.loop.call_later(_ABORT_AFTER_S, self.transport.abort)

        def data_received(self, data: bytes) -> None:
            if self._is_ordinary():
                self._receive_ordinary(data)
                return
            head = read_head(data) if self._is_quiet() else None
            if head is not None and self._take_ordinary(head, data):
                return
            if self._waiting_for == "body" and self._is_flood(data) and not self.transport.is_closing():
                self._refuse(413, BodyTooLargeError("the body is framed in too many bytes"))
            if self._fault is None and not self.transport.is_closing():
                super().data_received(data)
            self._watch()

        def _is_ordinary(self) -> bool:
            """Tell whether an ordinary request is being read or answered."""
            if self._missing_bytes:
                return True
            return isinstance(self.cycle, OrdinaryCycle) and not self.cycle.response_complete

        def _take_ordinary(self, head: Head, data: bytes) -> bool:
            """Refuse a request or begin it; False if its body is for h11 to read."""
            answer = None
            if len(data) == head.size + head.body_bytes:
                answer = refuse_unread(head, self.server_state.default_headers, len(self.tasks))
            if answer is not None:
                self._wait_for(None)
                self.transport.write(answer)
                self.on_response_complete()
            elif head.body_bytes <= MOST_BODY_BYTES:
                self._begin_ordinary(head)
                self._receive_ordinary(data[head.size :])
            else:
                return False
            return True

        def _begin_ordinary(self, head: Head) -> None:
            """Call the application, as uvicorn does for what h11 has read; h11 knows nothing of it."""
            self._unset_keepalive_if_required()
            self.headers = head.headers
            path = head.path.decode("ascii")
            self.scope = {
                "type": "http",
                "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
                "http_version": "1.1",
                "server": self.server,
                "client": self.client,
                "scheme": self.scheme or "http",
                "method": "POST",
                "root_path": self.root_path,
                "path": self.root_path + path,
                "raw_path": self.root_path.encode("ascii") + head.path,
                "query_string": head.query,
                "headers": self.headers,
                "state": self.app_state.copy(),
                "extensions": self._extensions(),
            }
            self.cycle = OrdinaryCycle(
                self.scope,
                self.conn,
                self.transport,
                self.flow,
                self.logger,
                self.access_logger,
                self.access_log,
                self.server_state.default_headers,
                asyncio.Event(),
                self.on_response_complete,
            )
            self._missing_bytes = head.body_bytes
            task = self.loop.create_task(self.cycle.run_asgi(self.app))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

        def _receive_ordinary(self, data: bytes) -> None:
            """Pass a body on, or forget it if the answer is out; what is behind it waits for the answer."""
            body, behind = data[: self._missing_bytes], data[self._missing_bytes :]
            self._missing_bytes -= len(body)
            if not self.cycle.response_complete:
                self.cycle.body += body
                self.cycle.more_body = self._missing_bytes > 0
                self.cycle.message_event.set()
            if behind:
                self._held += behind
                self.flow.pause_reading()
            self._watch()
            self._read_held()

        def _read_held(self) -> None:
            """Read on, once an ordinary request is over."""
            if self._held and not self._is_ordinary() and not self.transport.is_closing():
                held, self._held = self._held, b""
                self.flow.resume_reading()
                self.data_received(held)

        def _is_quiet(self) -> bool:
            """Tell whether nothing of a request is here, and no answer under way."""
            idle = self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE
            return idle and not self.conn.trailing_data[0] and not self.transport.is_closing()

        def _is_flood(self, data: bytes) -> bool:
            """Tell whether a body's chunks are a few bytes each: the parser takes 10 us for every one."""
            self._wire_bytes += len(data)
            if self._wire_bytes > max_wire_bytes:
                return True
            if not any(name == b"transfer-encoding" for name, _ in self.headers):
                return False
            self._wire_breaks += data.count(b"\r\n")
            return self._wire_breaks > _MIN_BREAKS and self._wire_breaks * _BYTES_PER_BREAK > self._wire_bytes

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()
            self._read_held()

        def send_400_response(self, msg: str) -> None:
            """Answer what h11 could not read; called while its exception is handled."""
            error = sys.exc_info()[1]
            status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
            if status == 431:
                self._refuse(status, HeadersTooLargeError("the headers are too large"))
            else:
                self._refuse(status, AmbiguousFramingError(msg))

        def _refuse(self, status: int, error: DragomanError) -> None:
            """Answer what cannot be read. If it is the rest of a request, the application does, once."""
            if self.conn.our_state is h11.SEND_RESPONSE:
                self._fault = error
                self.cycle.keep_alive = False
                self.cycle.message_event.set()
                return
            if self.conn.our_state is not h11.IDLE:
                self.transport.close()  # an answer is on its way; a second one would be read as part of it
                return
            on_refusal(status)
            request_id = secrets.token_hex(8)
            body = error_body(str(error), reason_of(error), request_id)
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"x-request-id", request_id.encode()),
                (b"connection", b"close"),
            ]
            reason = STATUS_PHRASES.get(status, b"")
            for event in (
                h11.Response(status_code=status, headers=headers, reason=reason),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

        def _watch(self) -> None:
            if self.transport.is_closing():
                self._wait_for(None)
            elif self._missing_bytes or self.conn.their_state is h11.SEND_BODY:
                self._wait_for("body")
            elif self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
                self._wait_for("headers")
            elif self.conn.their_state is not h11.IDLE or self.cycle is not None:
                self._wait_for(None)

        def _wait_for(self, what: str | None) -> None:
            if what == self._waiting_for:
                return  # the clock runs for the whole of it; each byte does not start it anew
            self._waiting_for = what
            self._wire_bytes = self._wire_breaks = 0
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if what is not None:
                timeout_s = header_timeout_s if what == "headers" else body_timeout_s
                self._timer = self.loop.call_later(timeout_s, self._give_up)

        def _give_up(self) -> None:
            self._timer = None
            self.transport.close()
            # Closing waits until everything is written, which a client that does not read can put off for
            # ever.
            self.loop.call_later(_ABORT_AFTER_S, self.transport.abort)

    return BoundedProtocol
