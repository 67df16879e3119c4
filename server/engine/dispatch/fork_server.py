"""The process that all engine processes are forked from, as the server sees it.

A process that was started from scratch has Python, numpy and ONNX Runtime for itself, and its own copy of
the weights, which takes the room of others' in the processor's caches: 69 MiB with a shipped model. Forked
ones share what was there before, and have 8 MiB for themselves. The server cannot be forked: it has threads.
So it starts one process that has none (`engine_host.main`), which makes one of every model, which makes the
engine processes.
"""

import atexit
import contextlib
import functools
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from pathlib import Path
from typing import Any

from server.engine.dispatch.worker_handle import EngineProcess
from server.engine.ipc.channel import Channel
from server.engine.ipc.interrupt_flag import SharedNumber
from server.engine.ipc.messages import Forked, Load, Ready, Refused
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


class EngineProcesses:
    """The engine processes of one model, and the process that they were forked from. Not thread-safe.

    Attributes:
        each: an engine process for every worker.
    """

    def __init__(self, host_pid: int, control: Channel, each: SequenceOf[EngineProcess]) -> None:
        """Wrap what was started.

        Args:
            host_pid: of the process that all models come from.
            control: to the one of this model, which ends with its engine processes, and ends them when it
                hears of the end.
            each: the engine processes to be.
        """
        self.each = each
        self._control = control
        self._pids: tuple[int, ...] = (host_pid,)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids, those of the processes that do nothing but fork included."""
        return self._pids

    def wait_ready(self) -> list[Ready]:
        """Wait until the model is loaded, and every process has shown that it translates.

        Raises:
            EngineDeadError: a process has ended.
            Exception: as the model was refused.
        """
        try:
            (answer,) = self._control.wait_for_messages()
        except (EOFError, OSError) as error:
            raise EngineDeadError("an engine process ended while it loaded its model") from error
        if isinstance(answer, Refused):
            raise answer.error
        assert isinstance(answer, Forked)
        self._pids += answer.pids
        for process, pid in zip(self.each, answer.pids[1:], strict=True):
            process.pid = pid
        return [process.wait_ready() for process in self.each]

    def close(self, timeout_s: float) -> None:
        """End the processes, whatever they do.

        Args:
            timeout_s: how long they may take by themselves, which they hardly need.
        """
        each, self.each = self.each, ()
        if not each:
            return  # it was closed before
        for process in each:
            process.close()
        if not self._has_ended(timeout_s):
            self._control.end()
            self._has_ended(_END_TIMEOUT_S)
        self._control.close()

    def _has_ended(self, timeout_s: float) -> bool:
        """Wait for the end of the process that waits for the ends of the others."""
        try:
            return self._control.wait(timeout_s)
        except ConnectionError:
            return True


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
        self, make: Callable[[Callable[..., Any]], Any], count: int, *, after_fork: bool = False
    ) -> EngineProcesses:
        """Have a model loaded, once, and engine processes forked that share it.

        Args:
            make: see `messages.Load`; pickled, so a function of a module, or a partial one.
            count: of engine processes.
            after_fork: whether every engine process loads it for itself, since it cannot be shared.

        Raises:
            EngineDeadError: the process has ended.
        """
        module = getattr(make, "func", make).__module__
        ours, theirs = zip(*(socket.socketpair() for _ in range(count + 1)), strict=True)
        stops = [SharedNumber() for _ in range(count)]
        try:
            # A message carries 253 descriptors at most: there is one for every process.
            with self._lock:
                socket.send_fds(self._socket, [f"{count} {module}".encode()], [theirs[0].fileno()])
                for end, stop in zip(theirs[1:], stops, strict=True):
                    socket.send_fds(self._socket, [b"one"], [end.fileno(), stop.descriptor])
        except OSError as error:
            for end in ours:
                end.close()
            raise EngineDeadError("the process that engine processes are forked from has ended") from error
        finally:
            for end in theirs:
                end.close()
            for stop in stops:
                stop.close()
        control, *channels = map(Channel, ours)
        each = [EngineProcess(channel, stop) for channel, stop in zip(channels, stops, strict=True)]
        with contextlib.suppress(OSError):  # `wait_ready` tells
            control.send(Load(make, after_fork))
        return EngineProcesses(self.pid, control, each)

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
