"""The process that all worker processes are forked from, as the server sees it.

A process that was started from scratch has Python, numpy and ONNX Runtime for itself, and its own copy of
the weights, which takes the room of others' in the processor's caches: 69 MiB with a shipped model. Forked
ones share what was there before, and have 8 MiB for themselves. The server cannot be forked: it has threads.
So it starts one process that has none (`server.engine.worker.fork_host.main`), which forks one for every
model, which loads the model and forks its workers, now and whenever one has to be replaced.
"""

import atexit
import contextlib
import functools
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server.engine.dispatch.worker_processes import WorkerProcesses
from server.engine.ipc.channel import Channel
from server.engine.ipc.messages import Load
from server.errors import EngineDeadError

_MODULE = "server.engine.worker.fork_host"
_ROOT = str(Path(__file__).resolve().parents[3])
# Where we are installed the root is there, behind the standard library; in a checkout it need not be. numpy's
# BLAS is not used and must not start threads: what is forked must have one only.
_START = (
    "import os, sys; os.environ['OPENBLAS_NUM_THREADS'] = '1'; "
    "{0!r} in sys.path or sys.path.insert(0, {0!r}); from {1} import main; main()"
)
_END_TIMEOUT_S = 5.0


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
