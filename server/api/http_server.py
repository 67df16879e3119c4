"""uvicorn with the bounds it lacks: slow clients are closed, errors of the parser are JSON, SIGTERM drains.

uvicorn waits for ever for the rest of a header or a body, and one such connection keeps it from ending.
"""

import asyncio
import functools
import logging
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from types import FrameType
from typing import Any, Literal

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from server.api.corked import CorkedTransport
from server.api.disconnect import EXTENSION as DISCONNECT_EXTENSION
from server.api.errors import error_body
from server.api.lifecycle import Lifecycle
from server.errors import DragomanError, ReloadInProgressError, UnavailableError
from server.settings import Settings

log = logging.getLogger("dragoman")

_H11_MAX_INCOMPLETE_EVENT_BYTES = 16384
_BACKLOG = 2048
_WIRE_ALLOWANCE_BYTES = 65536
_MIN_BREAKS, _BYTES_PER_BREAK = 8192, 16  # after 4096 chunks, each has to have 32 bytes on the wire
_ABORT_AFTER_S = 1.0
_DRAIN_TICK_S = 0.1  # how soon a second Ctrl-C is noticed
_RefusalHook = Callable[[int], None]
_Headers = Sequence[tuple[bytes, bytes]]
RefuseUnread = Callable[[bytes, _Headers, int], bytes | None]


def refuse_nothing(_data: bytes, _headers: _Headers, _under_way: int) -> bytes | None:
    """Let every request be read."""
    return None


def bounded_protocol(
    header_timeout_s: float,
    body_timeout_s: float,
    max_body_bytes: int,
    on_refusal: _RefusalHook,
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
        refuse_unread: given what came on a connection without a request under way, the headers of every
            answer and the requests under way on others, answers instead of the application, or does not.

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

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            corked = CorkedTransport(transport, self.loop, self._is_sending)
            super().connection_made(corked)  # type: ignore[arg-type]
            self._wait_for("headers")

        def _is_sending(self) -> bool:
            return self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait_for(None)
            super().connection_lost(exc)  # calls resume_writing
            self._tell_disconnect()

        def handle_events(self) -> None:
            """Read what has come; requests that begin are tasks, which start in the next turn."""
            before = self.cycle
            super().handle_events()
            if self.cycle is not before:
                extensions: dict[str, Any] = {DISCONNECT_EXTENSION: self._call_on_disconnect}
                self.scope["extensions"] = extensions

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
            if self._is_quiet():
                answer = refuse_unread(data, self.server_state.default_headers, len(self.tasks))
                if answer is not None:
                    self._wait_for(None)
                    self.transport.write(answer)
                    self.on_response_complete()
                    return
            if self._waiting_for == "body" and self._is_flood(data) and not self.transport.is_closing():
                self._refuse(413, "the body is framed in too many bytes", "body_too_large")
            if not self.transport.is_closing():
                super().data_received(data)
            self._watch()

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

        def send_400_response(self, msg: str) -> None:
            """Answer what h11 could not read; called while its exception is handled."""
            error = sys.exc_info()[1]
            status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
            code, text = (
                ("headers_too_large", "the headers are too large") if status == 431 else ("malformed", msg)
            )
            self._refuse(status, text, code)

        def _refuse(self, status: int, message: str, code: str) -> None:
            on_refusal(status)
            if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                self.transport.close()  # an answer is on its way; a second one would be read as part of it
                return
            request_id = secrets.token_hex(8)
            body = error_body(message, code, request_id)
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
            elif self.conn.their_state is h11.SEND_BODY:
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


class DrainingServer(uvicorn.Server):
    """A uvicorn server that finishes its work before it stops listening. Used by the main thread."""

    def __init__(self, config: uvicorn.Config, lifecycle: Lifecycle, settings: Settings) -> None:
        """Prepare to serve.

        Args:
            config: uvicorn's.
            lifecycle: of the application that is served.
            settings: for the time-outs.
        """
        super().__init__(config)
        self._lifecycle = lifecycle
        self._settings = settings
        self._admin: tuple[uvicorn.Config, socket.socket] | None = None
        self._reload: Callable[[], Coroutine[Any, Any, object]] | None = None
        self._reloading: asyncio.Task[None] | None = None

    def add_admin(self, app: Any, listener: socket.socket) -> None:
        """Serve a second application beside the first, on the same event loop, from its start to its end.

        Args:
            app: ASGI application without a lifespan.
            listener: of the admin port.
        """
        self._admin = _configure(app, self._settings, lambda status: None, refuse_nothing, "off"), listener

    def reload_on_hangup(self, reload: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Let SIGHUP reload the model, from the start on; call it in the main thread.

        Args:
            reload: does it, and logs how it ended.
        """
        self._reload = reload

    def end(self) -> None:
        """Begin to drain, as SIGTERM does."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take SIGTERM or SIGINT: before the start they end the process at once, afterwards they drain it."""
        if not self.started:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where."""
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            log.info("ready on http://%s:%d", f"[{host}]" if ":" in host else host, port)
            if self._admin is not None:
                await self._open_admin(*self._admin)
            if self._reload is not None:
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._begin_reload, self._reload)

    def _begin_reload(self, reload: Callable[[], Coroutine[Any, Any, object]]) -> None:
        async def attempt() -> None:
            try:
                await reload()
            except (ReloadInProgressError, UnavailableError) as error:
                log.warning("SIGHUP changes nothing: %s", error)
            except DragomanError:
                pass  # the reload has logged what is wrong

        self._reloading = asyncio.get_running_loop().create_task(attempt())  # kept, or it might be collected

    async def _open_admin(self, config: uvicorn.Config, listener: socket.socket) -> None:
        # With our state and among our servers, its connections are counted, drained and closed as all others.
        config.load()
        protocol_class: Any = config.http_protocol_class
        protocol = functools.partial(
            protocol_class, config=config, server_state=self.server_state, app_state={}
        )
        self.servers.append(await asyncio.get_running_loop().create_server(protocol, sock=listener))
        host, port = listener.getsockname()[:2]
        log.info("admin on http://%s:%d/admin/status", f"[{host}]" if ":" in host else host, port)

    @staticmethod
    def _loop_time() -> float:
        return asyncio.get_running_loop().time()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain: say 503 to what is new, finish what is running, then close."""
        self._lifecycle.begin_drain()
        log.info("draining")
        started_s = self._loop_time()
        while (
            passed_s := self._loop_time() - started_s
        ) < self._settings.drain_timeout_s and not self.force_exit:
            if await self._lifecycle.wait_idle(_DRAIN_TICK_S) and passed_s >= self._settings.drain_delay_s:
                break
            if passed_s < self._settings.drain_delay_s:
                await asyncio.sleep(_DRAIN_TICK_S)
        else:
            log.warning("requests still running after %.1f s are dropped", self._loop_time() - started_s)
        await super().shutdown(sockets)
        self._captured_signals.clear()  # uvicorn would kill itself with them; having drained is a success
        log.info("stopped")


def make_server(
    app: Any,
    settings: Settings,
    lifecycle: Lifecycle,
    on_refusal: _RefusalHook,
    refuse_unread: RefuseUnread = refuse_nothing,
) -> DrainingServer:
    """Configure uvicorn for an application.

    Args:
        app: ASGI application.
        settings: of the server.
        lifecycle: of the application.
        on_refusal: told the status of each request that never reached the application.
        refuse_unread: answers requests instead of the application, when it should not even read them.

    Returns:
        A server; `run(sockets=[...])` serves.
    """
    return DrainingServer(_configure(app, settings, on_refusal, refuse_unread, "on"), lifecycle, settings)


def _configure(
    app: Any,
    settings: Settings,
    on_refusal: _RefusalHook,
    refuse_unread: RefuseUnread,
    lifespan: Literal["on", "off"],
) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=bounded_protocol(
            settings.header_timeout_s,
            settings.body_timeout_s,
            settings.max_body_bytes,
            on_refusal,
            refuse_unread,
        ),
        ws="none",
        loop="asyncio",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=_H11_MAX_INCOMPLETE_EVENT_BYTES,
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=settings.close_timeout_s,
    )


def listen(host: str, port: int) -> socket.socket:
    """Take a port before uvicorn does, which would print a traceback if it cannot.

    Args:
        host: address to listen on.
        port: TCP port; 0 takes a free one.

    Returns:
        A listening socket.

    Raises:
        OSError: the port is taken, or the address is not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only with the protocol said does asyncio turn Nagle's algorithm off; with it, each answer, which is sent
    # in two parts, waits 40 ms for the client's acknowledgement of the first.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # bound but silent, a second server could still bind it, too
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
