"""What a worker is connected to, whichever transport it has."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from server.engine.ipc.channel import Channel, InterruptFlag
from server.engine.ipc.memory_channel import MemoryChannel


@dataclass(frozen=True, slots=True)
class WorkerPorts:
    """Connections of one worker.

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
