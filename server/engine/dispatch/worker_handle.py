"""A worker process as the dispatcher sees it."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf

from server.engine.ipc.channel import Channel, InterruptFlag
from server.engine.ipc.messages import FromWorker, Ready, Refused, ToWorker
from server.errors import EngineDeadError

OnMessage = Callable[[FromWorker], None]
OnDeath = Callable[[Exception], None]


class ProcessHandle:
    """A worker process. Any thread may send; the event loop receives."""

    def __init__(self, end: socket.socket, interrupt: InterruptFlag) -> None:
        """Wrap the dispatcher's ends.

        Args:
            end: connected to the worker.
            interrupt: shared with it.
        """
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
