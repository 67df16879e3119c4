"""What forks worker processes: what `ForkServer` starts, and what is forked from that for every model.

The first process waits for orders and forks a process for every model. That one loads its model and forks a
worker for every order, so that they share its weights; another one if one has died. It ends when the server
closes its end, and its workers with it. None of the two has a second thread, ever. What cannot be forked, as
a session on CUDA, a worker loads for itself.
"""

import contextlib
import ctypes
import gc
import importlib
import logging
import logging.handlers
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from server.engine.ipc.channel import Channel, InterruptFlag, WorkerPorts
from server.engine.ipc.messages import Load, Loaded, Refused
from server.engine.worker.loop import Worker, run_worker
from server.errors import SettingError
from server.process_tuning import return_large_blocks, tune_interpreter

NICENESS = 2
"""What processor time the event loop is given before us, where there is too little: a request that has been
read makes a step larger, one that waits to be read makes another step. See docs/experiments/processes.md."""

_ORDER_BYTES = 1 << 12
_DESCRIPTORS = 2
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # of Linux's sys/prctl.h


def main() -> None:
    """Take orders from the socket whose descriptor is the argument, until the server closes its end."""
    # The server ends us when it is done; a terminal and a service manager signal all of us.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _reap)
    _prctl(_PR_SET_NAME, b"dragoman-host")
    return_large_blocks()
    orders = socket.socket(fileno=int(sys.argv[1]))
    while True:
        data, descriptors, *_ = socket.recv_fds(orders, _ORDER_BYTES, _DESCRIPTORS)
        if not data:
            return
        control, worker_orders = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        with contextlib.suppress(ImportError):  # reported when the module is used
            importlib.import_module(data.decode())
        tune_interpreter()  # what is there now is never garbage, so no process writes to its pages for that
        channel = Channel(control)
        try:
            pid = _fork("dragoman-model")
        except SettingError as error:
            channel.send(Refused(error))
        else:
            if not pid:
                orders.close()
                _ModelProcess(channel, worker_orders).run()
        channel.detach()
        worker_orders.close()


class _LogRelay(logging.handlers.QueueHandler):
    """Collects records of the log, made fit to be sent; `QueueHandler` knows how.

    Attributes:
        records: that nobody has sent yet.
    """

    def __init__(self) -> None:
        """Start with none."""
        super().__init__(None)  # type: ignore[arg-type]  # there is no queue
        self.setLevel(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def enqueue(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.records.append(record)


class _ModelProcess:
    """Loads a model and forks its workers. Owned by the process that is there for it."""

    def __init__(self, control: Channel, orders: socket.socket) -> None:
        """Take over what came with the order.

        Args:
            control: to the server, which closes it at the end.
            orders: brings the index and the descriptors of each worker to be forked.
        """
        self._control = control
        self._orders = orders
        self._relay = _LogRelay()
        logging.getLogger().addHandler(self._relay)

    def run(self) -> NoReturn:
        """Do all that there is to do, in this process and those that are forked from it."""
        with contextlib.suppress(EOFError, ConnectionError):  # the server is gone
            (load,) = self._control.wait_for_messages()
            assert isinstance(load, Load)
            self._serve(load)
        _end_children()
        os._exit(0)  # a run that is in progress is of no use to anyone

    def _serve(self, load: Load) -> None:
        """Load the model and fork workers until the server closes its end."""
        try:
            build = None if load.after_fork else load.load()
            gc.freeze()  # a collection would write to what the forked workers share
            for _ in range(load.workers):
                self._fork_worker(lambda: build or load.load())
            self._control.send(Loaded(os.getpid()))
            while True:
                ready, _, _ = select.select([self._control.fileno(), self._orders.fileno()], [], [])
                if self._control.fileno() in ready:
                    self._control.receive()  # raises at the end; nothing else comes
                if self._orders.fileno() in ready:
                    self._fork_worker(lambda: build or load.load())
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - the server raises it again
            self._control.send(Refused(error))
            while not self._control.flush():
                self._control.wait()

    def _fork_worker(self, loaded: Callable[[], Callable[[WorkerPorts], Worker]]) -> None:
        """Fork the worker that is ordered next; the new process does not come back.

        Args:
            loaded: gives what builds it.

        Raises:
            EOFError: the server has closed its end.
            SettingError: it cannot be forked.
        """
        index, descriptors, *_ = socket.recv_fds(self._orders, _ORDER_BYTES, _DESCRIPTORS)
        if not index:
            raise EOFError
        if _fork(f"dragoman-eng-{index.decode()}"):
            for descriptor in descriptors:
                os.close(descriptor)
            self._relay.records.clear()  # what was logged until now, the first worker tells
            return
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.detach()
        self._orders.close()
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.nice(NICENESS)
        end, flag = descriptors
        channel = Channel(socket.socket(fileno=end))
        ports = WorkerPorts(channel, InterruptFlag(flag), self._relay.records, time.monotonic)
        try:
            run_worker(lambda ports: loaded()(ports), ports, os.getpid())
        finally:
            os._exit(0)


def _fork(name: str) -> int:
    """Fork a process, shown under this name, that does not outlive this one; returns as `os.fork`.

    Raises:
        SettingError: there may be no more processes, or there is no memory for one.
    """
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        raise SettingError(
            f"a worker process cannot be forked ({error.strerror}); allow more processes (ulimit -u, a "
            "container's limit of pids), or use --workers for fewer or --no-engine-processes for none"
        ) from error
    if not pid:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(_PR_SET_NAME, name.encode())
        _children.clear()
        if os.getppid() != parent:  # it ended before we asked
            os._exit(0)
    else:
        _children.add(pid)
    return pid


_children: set[int] = set()
"""Processes that this one has forked and not waited for."""


def _prctl(option: int, value: int | bytes) -> None:
    ctypes.CDLL(None).prctl(option, value)


def _reap(*_: object) -> None:
    """Let processes that have ended go, as `signal.signal` wants it."""
    # Only noted ones: one that ended before `_fork` noted it would stay noted, and its number be used again.
    for pid in tuple(_children):
        with contextlib.suppress(ChildProcessError):  # a second signal has interrupted us here
            if os.waitpid(pid, os.WNOHANG)[0]:
                _children.discard(pid)


def _end_children() -> None:
    """End the processes that this one has forked, and wait for their end."""
    # Blocked, not reset: a handler taken away between a signal and its call is an error that Python prints.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for pid in _children:
        os.kill(pid, signal.SIGKILL)
    for pid in _children:
        os.waitpid(pid, 0)
