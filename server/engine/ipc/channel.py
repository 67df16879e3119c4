"""What connects a dispatcher and its workers: a channel for messages, and a flag that interrupts a worker.

Between processes messages are pickled and go over a socket, between threads they stay in memory. Sending
never waits: if both sides did, they would for ever. The flag ends a multi-step run after its next step.
"""

import contextlib
import logging
import math
import mmap
import os
import pickle
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct("<I")
_READ_BYTES = 1 << 18
_FLAG_BYTES = 8


class Channel:
    """One end of a socket pair. Any thread may send, one receives."""

    def __init__(self, end: socket.socket) -> None:
        """Take over a connected socket of type SOCK_STREAM."""
        end.setblocking(False)
        self._socket = end
        self._lock = threading.Lock()  # of what is to be sent
        self._unsent = bytearray()
        self._received = bytearray()

    def fileno(self) -> int:
        """Descriptor of the socket."""
        return self._socket.fileno()

    def send(self, message: Any) -> bool:
        """Send a message, or keep what the socket does not take now for `flush`.

        Gives whether nothing is left.

        Raises:
            ConnectionError: the other end is closed.
        """
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        with self._lock:
            self._unsent += _LENGTH.pack(len(data))
            self._unsent += data
            return self._flush()

    def flush(self) -> bool:
        """Send what is left, as `send`."""
        with self._lock:
            return self._flush()

    def receive(self) -> list[Any]:
        """Give the messages that have come; none if there are none.

        Raises:
            EOFError, ConnectionError: the other end is closed.
        """
        messages: list[Any] = []
        while True:
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return messages
            if not data:
                if messages:
                    return messages  # the end comes again
                raise EOFError
            self._received += data
            self._split(messages)
            if len(data) < _READ_BYTES:
                return messages

    def wait(self, timeout_s: float = math.inf) -> bool:
        """Wait until there is something to receive, the end included, and send what is left meanwhile.

        Gives whether there is something, after `timeout_s` at most.

        Raises:
            ConnectionError: the other end is closed, and not all is sent.
        """
        until_s = time.monotonic() + timeout_s
        while True:
            events = select.POLLIN if self.flush() else select.POLLIN | select.POLLOUT
            poll = select.poll()  # `select.select` takes no descriptors from 1024 on, and servers have many
            poll.register(self._socket, events)
            left_s = max(0.0, until_s - time.monotonic())
            found = poll.poll(None if left_s == math.inf else left_s * 1000)
            if not found or found[0][1] & ~select.POLLOUT:
                return bool(found)

    def wait_for_messages(self) -> list[Any]:
        """Wait for a message; gives all that have come then. Raises as `receive`."""
        messages: list[Any] = []
        while not messages:
            self.wait()
            messages = self.receive()
        return messages

    def end(self) -> None:
        """Say no more; what the other end says is still received."""
        with contextlib.suppress(OSError):  # the other end was first
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close both directions, in every process that has this end; what is not sent is lost."""
        with contextlib.suppress(OSError):  # the other end was first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def detach(self) -> None:
        """Close this process' copy of the end; other processes go on with theirs."""
        self._socket.close()

    def _flush(self) -> bool:
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                return False
            del self._unsent[:sent]
        return True

    def _split(self, messages: list[Any]) -> None:
        """Take whole messages off what was received."""
        received, start = self._received, 0
        while len(received) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received, start)
            end = start + _LENGTH.size + length
            if len(received) < end:
                break
            messages.append(pickle.loads(memoryview(received)[start + _LENGTH.size : end]))
            start = end
        if start:
            del received[:start]


class MemoryChannel:
    """Messages to a worker thread wait here; those from it are delivered on its own thread. Thread-safe."""

    def __init__(self, deliver: Callable[[Any], None]) -> None:
        """Start open and empty; `deliver` is called with every message from the worker."""
        self._deliver = deliver
        self._changed = threading.Condition()
        self._messages: deque[Any] = deque()
        self._closed = False

    def post(self, message: Any) -> None:
        """Leave a message for the worker."""
        with self._changed:
            self._messages.append(message)
            self._changed.notify()

    def close(self) -> None:
        """Tell the worker that this is the end."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def send(self, message: Any) -> bool:
        """Deliver a message from the worker; always all of it."""
        self._deliver(message)
        return True

    def flush(self) -> bool:
        """Do nothing: nothing is ever left."""
        return True

    def receive(self) -> list[Any]:
        """Give the messages that have come.

        Raises:
            EOFError: the dispatcher has closed the channel.
        """
        if not (self._messages or self._closed):
            return []
        with self._changed:
            if self._closed:
                raise EOFError
            messages = list(self._messages)
            self._messages.clear()
            return messages

    def wait(self, timeout_s: float) -> bool:
        """Wait for a message or the end; False if neither has come after so many seconds."""
        with self._changed:
            left_s = None if timeout_s == math.inf else timeout_s
            return bool(self._changed.wait_for(lambda: self._messages or self._closed, left_s))


class InterruptFlag:
    """An int64 that starts as 0 and is looked at after every step of a multi-step run. Thread-safe.

    Attributes:
        array: int64 [], the number itself.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Map the memory of a `shared_descriptor`; None makes a flag for threads of one process."""
        self.array: NDArray[np.int64]
        if descriptor is None:
            self.array = np.zeros((), np.int64)
        else:
            self.array = np.frombuffer(mmap.mmap(descriptor, _FLAG_BYTES), np.int64).reshape(())

    def set(self) -> None:
        """Ask the worker to look at its inbox soon."""
        self.array[...] = 1

    def clear(self) -> None:
        """Note that the worker is about to look."""
        self.array[...] = 0


def shared_descriptor() -> int:
    """Make the memory of a flag that another process will map; the caller closes the descriptor."""
    descriptor = os.memfd_create("dragoman")
    os.ftruncate(descriptor, _FLAG_BYTES)
    return descriptor


@dataclass(frozen=True, slots=True)
class WorkerPorts:
    """Connections of one worker, whichever transport it has.

    Attributes:
        channel: to the dispatcher.
        interrupt: set by the dispatcher when there is something to receive.
        records: of the log that are sent with the next report; the worker's log handler appends.
        clock: monotonic seconds, the dispatcher's.
    """

    channel: Channel | MemoryChannel
    interrupt: InterruptFlag
    records: list[logging.LogRecord]
    clock: Callable[[], float]
