"""The process that all worker processes are forked from, as the server sees it.

A process that was started from scratch has Python, numpy and ONNX Runtime for itself, and its own copy of
the weights, which takes the room of others' in the processor's caches: 69 MiB with a shipped model. Forked
ones share what was there before, and have 8 MiB for themselves. The server cannot be forked: it has threads.
So it starts one process that has none (`server.engine.worker.fork_host.main`), which forks one for every
model, which loads the model and forks its workers, now and whenever one has to be replaced.
"""

import asyncio
import atexit
import contextlib
import functools
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server.engine.dispatch.worker_handle import OnDeath, ProcessHandle
from server.engine.ipc.channel import Channel, InterruptFlag, shared_descriptor
from server.engine.ipc.messages import Load, Loaded, Refused
from server.errors import EngineDeadError

ROWS_AHEAD = 8
"""Rows that a worker process is given beyond its own: one that becomes free is not idle until we know."""

_MODULE = "server.engine.worker.fork_host"
_ROOT = str(Path(__file__).resolve().parents[3])
# Where we are installed the root is there, behind the standard library; in a checkout it need not be. numpy's
# BLAS is not used and must not start threads: what is forked must have one only.
_START = (
    "import os, sys; os.environ['OPENBLAS_NUM_THREADS'] = '1'; "
    "{0!r} in sys.path or sys.path.insert(0, {0!r}); from {1} import main; main()"
)
_END_TIMEOUT_S = 5.0


class WorkerProcesses:
    """The worker processes of one model, and the process that forks them.

    Not thread-safe: `replace` is called on the event loop, everything else by one thread at a time.

    Attributes:
        each: by index.
        rows_ahead: see `ROWS_AHEAD`.
    """

    rows_ahead = ROWS_AHEAD

    def __init__(self, host_pid: int, control: Channel, orders: socket.socket, count: int) -> None:
        """Order the workers.

        Args:
            host_pid: of the process that all models come from.
            control: to the process of this model, which ends, with its workers, when this is closed.
            orders: to the same process, takes the descriptors of each worker to be forked.
            count: of the workers.
        """
        self._pids: tuple[int, ...] = (host_pid,)
        self._control = control
        self._orders = orders
        self._handles: list[ProcessHandle] = [self._fork(index) for index in range(count)]

    @property
    def each(self) -> list[ProcessHandle]:
        """The workers, by index."""
        return list(self._handles)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of those that do nothing but fork."""
        return self._pids

    def wait_loaded(self) -> None:
        """Wait until the model is loaded.

        Raises:
            EngineDeadError: its process has ended.
            Exception: as the model was refused.
        """
        try:
            answer, *_ = self._control.wait_for_messages()
        except (EOFError, OSError) as error:
            raise EngineDeadError("a process ended while it loaded its model") from error
        if isinstance(answer, Refused):
            raise answer.error
        assert isinstance(answer, Loaded)
        self._pids += (answer.pid,)

    def watch(self, loop: asyncio.AbstractEventLoop, on_death: OnDeath) -> None:
        """Have it told on the event loop if the process that forks has ended or cannot fork."""

        def receive() -> None:
            try:
                refusals = [message.error for message in self._control.receive()]
            except (EOFError, OSError) as error:
                refusals = [error]
            if refusals:
                loop.remove_reader(self._control.fileno())
                death = EngineDeadError("workers cannot be replaced any more")
                death.__cause__ = refusals[0]
                on_death(death)

        loop.add_reader(self._control.fileno(), receive)

    def unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take back what `watch` did, on the same thread."""
        loop.remove_reader(self._control.fileno())

    def replace(self, index: int) -> ProcessHandle:
        """Fork another worker in the place of one that has died, or refused to begin."""
        self._handles[index].detach()  # or the event loop takes the next socket of that number for this one
        self._handles[index].close()
        self._handles[index] = self._fork(index)
        return self._handles[index]

    def terminate(self) -> None:
        """Do nothing: `close` ends the processes whatever they do."""

    def close(self) -> None:
        """End the processes, whatever they do."""
        handles, self._handles = self._handles, []
        if not handles:
            return  # it was closed before
        for handle in handles:
            handle.close()
        self._control.end()
        with contextlib.suppress(ConnectionError):
            self._control.wait(_END_TIMEOUT_S)
        self._control.close()
        self._orders.close()

    def _fork(self, index: int) -> ProcessHandle:
        """Order a worker; if its process cannot be forked any more, `wait_loaded` or `watch` tell."""
        ours, theirs = socket.socketpair()
        descriptor = shared_descriptor()
        try:
            with contextlib.suppress(OSError):
                socket.send_fds(self._orders, [b"%d" % index], [theirs.fileno(), descriptor])
            return ProcessHandle(ours, InterruptFlag(descriptor))
        finally:
            theirs.close()
            os.close(descriptor)


class ForkServer:
    """The process. Thread-safe."""

    def __init__(self) -> None:
        """Start it; it ends when we do, or close it."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START.format(_ROOT, _MODULE), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def start(
        self, load: Callable[[], Callable[..., Any]], count: int, *, after_fork: bool = False
    ) -> WorkerProcesses:
        """Have a model loaded, once, and workers forked that share it.

        Args:
            load: see `messages.Load`; pickled, so a function of a module, or a partial one.
            count: of worker processes.
            after_fork: whether every worker loads it for itself, since it cannot be shared.

        Raises:
            EngineDeadError: the process has ended.
        """
        module = getattr(load, "func", load).__module__
        ours, theirs = socket.socketpair()
        orders, their_orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, their_orders:
            try:
                with self._lock:
                    descriptors = [theirs.fileno(), their_orders.fileno()]
                    socket.send_fds(self._socket, [module.encode()], descriptors)
            except OSError as error:
                ours.close()
                orders.close()
                raise EngineDeadError("the process that workers are forked from has ended") from error
        control = Channel(ours)
        with contextlib.suppress(OSError):  # `wait_loaded` tells
            control.send(Load(load, count, after_fork))
        return WorkerProcesses(self.pid, control, orders, count)

    def close(self) -> None:
        """End it, and all that were forked from it."""
        atexit.unregister(self.close)
        self._socket.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_lock = threading.Lock()
_started = functools.cache(ForkServer)


def fork_server() -> ForkServer:
    """Give this process' own, started when it is first needed and anew if it has ended."""
    with _lock:
        if not _started().is_alive:
            _started().close()
            _started.cache_clear()
        return _started()
