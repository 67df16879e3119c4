"""What makes engine processes: what `ForkServer` starts, and what is forked from that for every model.

The first process waits for orders and forks, a process for every model. That one loads its model and forks
the engine processes, which share its weights, then waits for their end or the server's word, and ends with
them. None of the two has a second thread, ever. What cannot be forked, as a session on CUDA, an engine
process loads for itself.
"""

import contextlib
import ctypes
import importlib
import itertools
import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence as SequenceOf
from typing import NoReturn

from server.engine.ipc.channel import Channel
from server.engine.ipc.interrupt_flag import SharedNumber
from server.engine.ipc.messages import Forked, Load, Refused
from server.engine.limits import EngineLimits
from server.engine.shortlist.lexical_table import Shortlist
from server.engine.worker.process import LoneWorker
from server.engine.worker.reporter import LogRelay, Reporter
from server.errors import SettingError
from server.process_tuning import return_large_blocks, tune_interpreter
from server.runtime.sessions import Runtime

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
        data, descriptors, *_ = socket.recv_fds(orders, _ORDER_BYTES, 1)
        if not data:
            return
        control = Channel(socket.socket(fileno=descriptors[0]))
        count, module = data.decode().split()
        each = [socket.recv_fds(orders, _ORDER_BYTES, _DESCRIPTORS)[1] for _ in range(int(count))]
        with contextlib.suppress(ImportError):  # whoever is told to use it will say so
            importlib.import_module(module)
        tune_interpreter()  # what is there now is never garbage, so no process writes to its pages for that
        try:
            pid = _fork("dragoman-model")
        except SettingError as error:
            control.send(Refused(error))
        else:
            if not pid:
                orders.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _Model(control, each).run()
        control.let_go()
        for descriptor in itertools.chain(*each):
            os.close(descriptor)


class _Model:
    """Loads a model and forks. Owned by the process that is there for it."""

    def __init__(self, control: Channel, each: SequenceOf[SequenceOf[int]]) -> None:
        """Take over what came with the order.

        Args:
            control: to the server; an engine process has one of its own instead.
            each: descriptors of a socket and a `SharedNumber` for every engine process.
        """
        self._channel = control
        self._each = each
        self._stop = 0
        self._relay = LogRelay()
        logging.getLogger().addHandler(self._relay)

    def run(self) -> NoReturn:
        """Do all that there is to do, in this process and those that are forked from it."""
        with contextlib.suppress(EOFError, ConnectionError):  # the server is gone
            (load,) = self._channel.wait_for_messages()
            assert isinstance(load, Load)
            self._load(load)
        os._exit(0)  # a run that is in progress is of no use to anyone

    def _load(self, load: Load) -> None:
        """Load the model and fork, or the other way round; only engine processes go on to work."""
        try:
            if load.after_fork:
                self._fork_each()
            worker: LoneWorker = load.make(self._worker if load.after_fork else self._fork_workers)
        except Exception as error:  # noqa: BLE001 - the server raises it again
            self._channel.send(Refused(error))
            while not self._channel.flush():
                self._channel.wait()
            return
        worker.work()

    def _fork_workers(
        self, runtime: Runtime, limits: EngineLimits, shortlist: Shortlist | None = None
    ) -> LoneWorker:
        """Fork the engine processes; only they come back, each with its worker; arguments as of `_worker`."""
        self._fork_each()
        return self._worker(runtime, limits, shortlist)

    def _worker(
        self, runtime: Runtime, limits: EngineLimits, shortlist: Shortlist | None = None
    ) -> LoneWorker:
        """Make the worker of an engine process.

        Args:
            runtime: the model.
            limits: of one worker.
            shortlist: as of `WorkerPool`.
        """
        reporter = Reporter(self._channel, self._relay.records)
        return LoneWorker(self._channel, SharedNumber(self._stop), reporter, runtime, limits, shortlist)

    def _fork_each(self) -> None:
        """Fork the engine processes; only they come back, each with the channel that is its own."""
        ended, alive = os.pipe()  # a pipe ends when the last process that may write to it has ended
        pids = []
        for index, (end, stop) in enumerate(self._each):
            pid = _fork(f"dragoman-eng-{index}")
            if not pid:
                for descriptor in {ended, *itertools.chain(*self._each)} - {end, stop}:
                    os.close(descriptor)
                self._channel.let_go()
                self._channel, self._stop = Channel(socket.socket(fileno=end)), stop
                if index:  # what was logged until now, the first one tells
                    self._relay.records.clear()
                return
            pids.append(pid)
        for descriptor in (alive, *itertools.chain(*self._each)):
            os.close(descriptor)
        self._channel.send(Forked((os.getpid(), *pids)))
        # The server has no more to say but that this is the end.
        select.select([self._channel.fileno(), ended], [], [])
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)
        os._exit(0)


def _fork(name: str) -> int:
    """Fork a process that does not outlive this one.

    Args:
        name: what `ps` and `top` show of it.

    Returns:
        As `os.fork`.

    Raises:
        SettingError: there may be no more processes, or there is no memory for one.
    """
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        raise SettingError(
            f"an engine process cannot be forked ({error.strerror}); allow more processes (ulimit -u, a "
            "container's limit of pids), or use --workers for fewer or --no-engine-processes for none"
        ) from error
    if not pid:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(_PR_SET_NAME, name.encode())
        if os.getppid() != parent:  # it ended before we asked
            os._exit(0)
    return pid


def _prctl(option: int, value: int | bytes) -> None:
    ctypes.CDLL(None).prctl(option, value)


def _reap(*_: object) -> None:
    """Let processes that have ended go, as `signal.signal` wants it."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
