"""Workers that are threads of this process and share one runtime: for large models, one core, and tests."""

import asyncio
import threading
from collections.abc import Callable

from server.engine.dispatch.worker_processes import OnDeath, OnMessage
from server.engine.ipc.channel import InterruptFlag, MemoryChannel, WorkerPorts
from server.engine.ipc.messages import FromWorker, Ready, Refused, ToWorker
from server.engine.worker.loop import Worker, run_worker
from server.errors import EngineDeadError
from server.runtime.onnx.capture_lock import DEVICE_GATE

JOIN_TIMEOUT_S = 5.0
"""How long `close` waits for threads whose runs were terminated; they are daemons and hold up nothing."""

Build = Callable[[WorkerPorts], Worker]


class ThreadHandle:
    """A worker thread. Thread-safe; what it tells is told on the worker's own thread."""

    def __init__(self, build: Build, clock: Callable[[], float], name: str) -> None:
        """Start the thread, which makes its worker itself; the clock's seconds are monotonic."""
        self._lock = threading.Lock()
        self._first = threading.Event()
        self._early: list[FromWorker | Exception] = []
        self._on_message: OnMessage | None = None
        self._on_death: OnDeath | None = None
        self._interrupt = InterruptFlag()
        self._channel = MemoryChannel(self._deliver)
        ports = WorkerPorts(self._channel, self._interrupt, [], clock)
        self._thread = threading.Thread(target=self._run, args=(build, ports), name=name, daemon=True)
        self._thread.start()

    def wait_ready(self) -> Ready:
        """Wait until it has shown that it translates.

        Raises:
            Exception: as it refused to, or crashed.
        """
        self._first.wait()
        with self._lock:
            first = self._early.pop(0)
        if isinstance(first, Ready):
            return first
        raise first.error if isinstance(first, Refused) else EngineDeadError("a worker thread has crashed")

    def listen(self, on_message: OnMessage, on_death: OnDeath) -> None:
        """Have its messages and its end told from now on, those that came before first."""
        with self._lock:
            self._on_message, self._on_death = on_message, on_death
            early, self._early = self._early, []
        for message in early:
            self._deliver(message)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do nothing: it speaks on its own thread."""

    def detach(self) -> None:
        """Do nothing: what it tells after the end is ignored."""

    def send(self, message: ToWorker) -> None:
        """Send a message, and interrupt a multi-step run for it."""
        self._channel.post(message)
        self._interrupt.set()

    def close(self) -> None:
        """Tell it to end."""
        self._channel.close()
        self._interrupt.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; whether it has come."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self, build: Build, ports: WorkerPorts) -> None:
        try:
            run_worker(build, ports)
        except BaseException as error:  # noqa: BLE001 - it is logged; the callers must hear of it
            death = EngineDeadError("a worker thread has crashed")
            death.__cause__ = error
            self._deliver(death)

    def _deliver(self, message: FromWorker | Exception) -> None:
        with self._lock:
            on_message, on_death = self._on_message, self._on_death
            if on_message is None or on_death is None:
                self._early.append(message)
                self._first.set()
                return
        if isinstance(message, Exception):
            on_death(message)
        else:
            on_message(message)


class WorkerThreads:
    """The worker threads of one model. Not thread-safe.

    Attributes:
        each: by index.
        pids: there are no other processes.
        rows_ahead: none: a thread hears of what it may start before its next step.
    """

    pids: tuple[int, ...] = ()
    rows_ahead = 0

    def __init__(
        self, build: Build, count: int, terminate: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        """Start the threads.

        Args:
            build: makes a worker over the model; it is dropped when the threads have ended.
            count: of the threads.
            terminate: ends runs that are in progress.
            clock: monotonic seconds.
        """
        self._build: Build | None = build
        self._terminate: Callable[[], None] | None = terminate
        self._clock = clock
        self._started = 0
        self.each = [self._start() for _ in range(count)]

    def wait_loaded(self) -> None:
        """Do nothing: the model was loaded before the threads."""

    def watch(self, loop: asyncio.AbstractEventLoop, on_death: OnDeath) -> None:
        """Do nothing: a thread can always be replaced."""

    def unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do nothing."""

    def replace(self, index: int) -> ThreadHandle:
        """Start another thread in the place of one that has crashed."""
        self.each[index] = self._start()
        return self.each[index]

    def terminate(self) -> None:
        """End runs that are in progress."""
        if self._terminate is not None:
            self._terminate()

    def close(self) -> None:
        """End the threads, and free the model if they have ended."""
        for handle in self.each:
            handle.close()
        for handle in self.each:
            if not handle.join(JOIN_TIMEOUT_S):
                return
        with DEVICE_GATE.together():  # its memory goes now
            self._build = self._terminate = None
            self.each = []

    def _start(self) -> ThreadHandle:
        assert self._build is not None
        self._started += 1
        return ThreadHandle(self._build, self._clock, f"dragoman-worker-{self._started}")
