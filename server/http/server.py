"""uvicorn as it is started and ended here: SIGTERM drains, SIGHUP reloads, a second port beside the first."""

import asyncio
import contextlib
import ctypes
import functools
import logging
import signal
import socket
import struct
import time
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, Literal

import uvicorn

from server.errors import DragomanError, ReloadInProgressError, UnavailableError
from server.http.lifecycle import Lifecycle
from server.http.protocol import BoundedProtocol, ConnectionBounds, RefusalHook
from server.settings import Settings

log = logging.getLogger("dragoman")

_BACKLOG = 2048
_HANDSHAKE_S = 0.1  # a connection that has begun becomes acceptable within a round trip
_DRAIN_TICK_S = 0.1  # how soon a second Ctrl-C, or that nothing runs any more, is noticed
_SO_ATTACH_FILTER = 26
# Classic BPF over a TCP segment: load the flags, drop what has SYN, keep the rest.
_DROP_SYN = (
    (0x30, 0, 0, 13),  # load byte 13
    (0x45, 0, 1, 0x02),  # if it has SYN go on, else skip one
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # keep
)


class DrainingServer(uvicorn.Server):
    """A uvicorn server that finishes its work before it stops listening. Used by the main thread."""

    def __init__(self, config: uvicorn.Config, lifecycle: Lifecycle, settings: Settings) -> None:
        """Prepare to serve, with the time-outs of the settings."""
        super().__init__(config)
        self._lifecycle = lifecycle
        self._settings = settings
        self._admin: tuple[uvicorn.Config, socket.socket] | None = None
        self._reload: Callable[[], Coroutine[Any, Any, object]] | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._asks_lost: Callable[[], bool] | None = None
        self.is_lost = False

    def add_admin(self, app: Any, listener: socket.socket) -> None:
        """Serve a second application, without a lifespan, beside the first, from its start to its end."""
        self._admin = _configure(app, self._settings, lambda status: None, "off"), listener

    def reload_on_hangup(self, reload: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Let SIGHUP reload the model, from the start on; call it in the main thread.

        Args:
            reload: does it, and logs how it ended.
        """
        self._reload = reload

    def end_when(self, is_lost: Callable[[], bool]) -> None:
        """End, as SIGTERM does, once `is_lost`; it is asked every second."""
        self._asks_lost = is_lost

    async def on_tick(self, counter: int) -> bool:
        """Look whether to end; uvicorn calls it ten times a second."""
        if counter % 10 == 0 and self._asks_lost is not None and self._asks_lost():
            self.is_lost = self.should_exit = True
        return await super().on_tick(counter)

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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain: say 503 to what is new, finish what is running, then close."""
        self._lifecycle.begin_drain()
        log.info("draining")
        started_s, settings = time.monotonic(), self._settings
        while not self.force_exit:
            passed_s = time.monotonic() - started_s
            least_s = settings.drain_timeout_s if self._lifecycle.active else settings.drain_delay_s
            if passed_s >= least_s:
                break
            await asyncio.sleep(_DRAIN_TICK_S)
        if self._lifecycle.active:
            log.warning("requests still running after %.1f s are dropped", time.monotonic() - started_s)
        for server in self.servers:
            for listener in server.sockets:
                drop_new_connections(listener)
        await asyncio.sleep(_HANDSHAKE_S)  # meanwhile the event loop accepts what was begun
        await super().shutdown(sockets)
        self._captured_signals.clear()  # uvicorn would kill itself with them; having drained is a success
        log.info("stopped")


def make_server(
    app: Any,
    settings: Settings,
    lifecycle: Lifecycle,
    on_refusal: RefusalHook,
) -> DrainingServer:
    """Configure uvicorn for an application; `run(sockets=[...])` of what it gives serves.

    Args:
        app: ASGI application.
        settings: of the server.
        lifecycle: of the application.
        on_refusal: told the status of each request that never reached the application.
    """
    return DrainingServer(_configure(app, settings, on_refusal, "on"), lifecycle, settings)


def _configure(
    app: Any,
    settings: Settings,
    on_refusal: RefusalHook,
    lifespan: Literal["on", "off"],
) -> uvicorn.Config:
    bounds = ConnectionBounds(
        settings.header_timeout_s, settings.body_timeout_s, settings.max_body_bytes, on_refusal
    )
    protocol_class: Any = functools.partial(BoundedProtocol, bounds)
    return uvicorn.Config(
        app,
        http=protocol_class,
        ws="none",
        loop="asyncio",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=settings.close_timeout_s,
    )


def listen(host: str, port: int) -> socket.socket:
    """Take a port before uvicorn does, which would print a traceback if it cannot; port 0 takes a free one.

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


def drop_new_connections(listener: socket.socket) -> None:
    """Let the kernel begin no connection to a TCP listener any more; those begun can still be accepted.

    It resets every connection that is not accepted when a listener closes. A client repeats its first packet
    after a second, and finds another server or none. A kernel without socket filters goes on as before.
    """
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in _DROP_SYN)
    held = ctypes.create_string_buffer(program, len(program))
    with contextlib.suppress(OSError):
        listener.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(_DROP_SYN), ctypes.addressof(held))
        )
