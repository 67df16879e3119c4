"""The worker processes of one model, as the dispatcher sees them."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf

from server.engine.ipc.channel import Channel, InterruptFlag, shared_descriptor
from server.engine.ipc.messages import FromWorker, Loaded, Ready, Refused, ToWorker
from server.errors import EngineDeadError

OnMessage = Callable[[FromWorker], None]
OnDeath = Callable[[Exception], None]

ROWS_AHEAD = 8
"""Rows that a worker process is given beyond its own: one that becomes free is not idle until we know."""

_END_TIMEOUT_S = 5.0


class ProcessHandle:
    """A worker process. Any thread may send; the event loop receives."""

    def __init__(self, end: socket.socket, interrupt: InterruptFlag) -> None:
        """Wrap the dispatcher's end of a socket and the flag that is shared with the worker."""
        self._channel = Channel(end)
        self._interrupt = interrupt
        self._early: SequenceOf[FromWorker] = ()
        self._on_message: OnMessage | None = None
        self._on_death: OnDeath | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def wait_ready(self) -> Ready:
        """Wait until it has shown that it translates.

        Raises:
            EngineDeadError: it has ended.
            Exception: as it refused to.
        """
        try:
            first, *self._early = self._channel.wait_for_messages()
        except (EOFError, OSError) as error:
            raise EngineDeadError("a worker process ended before it translated anything") from error
        if isinstance(first, Refused):
            raise first.error
        assert isinstance(first, Ready)
        return first

    def listen(self, on_message: OnMessage, on_death: OnDeath) -> None:
        """Have its messages and its end told, on the event loop, once that is known."""
        self._on_message, self._on_death = on_message, on_death

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Receive on an event loop; called on its thread."""
        self._loop = loop
        loop.add_reader(self._channel.fileno(), self._receive)
        self._receive()  # what came before
        self._flush()

    def detach(self) -> None:
        """Receive no more; called on the thread of the event loop."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_reader(self._channel.fileno())
            loop.remove_writer(self._channel.fileno())

    def send(self, message: ToWorker) -> None:
        """Send a message; what the socket does not take now, the event loop sends."""
        sent, loop = True, self._loop
        with contextlib.suppress(OSError):
            sent = self._channel.send(message)
        self._interrupt.set()
        if not sent and loop is not None:
            loop.call_soon_threadsafe(self._flush)

    def close(self) -> None:
        """Let go of it: it ends as soon as it looks."""
        self._channel.close()

    def _flush(self) -> None:
        """Send the rest, when the socket takes it."""
        loop = self._loop
        if loop is None:
            return
        with contextlib.suppress(OSError):
            if not self._channel.flush():
                loop.add_writer(self._channel.fileno(), self._flush)
                return
        loop.remove_writer(self._channel.fileno())

    def _receive(self) -> None:
        """Pass on the messages that have come."""
        assert self._on_message is not None
        assert self._on_death is not None
        early, self._early = self._early, ()
        try:
            for message in [*early, *self._channel.receive()]:
                self._on_message(message)
        except (EOFError, OSError) as error:
            self.detach()
            death = EngineDeadError("a worker process has ended")
            death.__cause__ = error
            self._on_death(death)


class WorkerProcesses:
    """The worker processes of one model, and the process that forks them.

    Not thread-safe: `replace` is called on the event loop, everything else by one thread at a time.

    Attributes:
        each: by index.
        pids: of those processes that do nothing but fork.
        rows_ahead: see `ROWS_AHEAD`.
    """

    rows_ahead = ROWS_AHEAD

    def __init__(self, host_pid: int, control: Channel, orders: socket.socket, count: int) -> None:
        """Order so many workers.

        Args:
            host_pid: of the process that all models come from.
            control: to the process of this model, which ends, with its workers, when this is closed.
            orders: to the same process, takes the descriptors of each worker to be forked.
            count: of the workers.
        """
        self.pids: tuple[int, ...] = (host_pid,)
        self._control = control
        self._orders = orders
        self.each = [self._fork(index) for index in range(count)]

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
        self.pids += (answer.pid,)

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
        self.each[index].detach()  # or the event loop takes the next socket of that number for this one
        self.each[index].close()
        self.each[index] = self._fork(index)
        return self.each[index]

    def terminate(self) -> None:
        """Do nothing: `close` ends the processes whatever they do."""

    def close(self) -> None:
        """End the processes, whatever they do."""
        handles, self.each = self.each, []
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
