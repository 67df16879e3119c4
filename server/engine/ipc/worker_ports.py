"""What a worker is connected to, whichever transport it has."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from server.engine.ipc.channel import InterruptFlag


class WorkerChannel(Protocol):
    """A worker's end of its connection to the dispatcher: a socket, or a queue in memory."""

    def send(self, message: Any) -> bool:
        """Send a message; whether all of it is on its way."""
        ...

    def flush(self) -> bool:
        """Send what is left; whether nothing is."""
        ...

    def receive(self) -> list[Any]:
        """Give the messages that have come; raises EOFError once the other end is closed."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Wait for a message or the end; False if none has come after so many seconds."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerPorts:
    """Connections of one worker.

    Attributes:
        channel: to the dispatcher.
        interrupt: set by the dispatcher when there is something to receive.
        records: of the log that are sent with the next report; the worker's log handler appends.
        clock: monotonic seconds, the dispatcher's.
    """

    channel: WorkerChannel
    interrupt: InterruptFlag
    records: list[logging.LogRecord]
    clock: Callable[[], float]
