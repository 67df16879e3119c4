"""An engine process as the server sees it: talk to it."""

import contextlib

from server.engine.ipc.channel import Channel
from server.engine.ipc.interrupt_flag import SharedNumber
from server.engine.ipc.messages import FromProcess, Ready, Refused, Report, ToProcess
from server.errors import EngineDeadError


class EngineProcess:
    """The channel to a process. Any thread may send, one receives.

    Attributes:
        pid: its process id; 0 until it is known.
    """

    def __init__(self, channel: Channel, stop: SharedNumber) -> None:
        """Wrap the server's ends.

        Args:
            channel: to the process.
            stop: ends its bursts.
        """
        self._channel = channel
        self._stop = stop
        self.pid = 0
        self._early: list[Report] = []

    def fileno(self) -> int:
        """Descriptor that is readable when there is something to receive."""
        return self._channel.fileno()

    def wait_ready(self) -> Ready:
        """Wait until it has shown that it translates.

        Raises:
            EngineDeadError: it has ended.
            Exception: as it refused to.
        """
        try:
            messages: list[FromProcess] = self._channel.wait_for_messages()
        except (EOFError, OSError) as error:
            raise EngineDeadError("an engine process ended before it translated anything") from error
        first, *self._early = messages  # type: ignore[assignment]  # reports follow
        if isinstance(first, Refused):
            raise first.error
        assert isinstance(first, Ready)
        return first

    def send(self, message: ToProcess) -> bool:
        """Say something, and have a burst end for it; if the process has ended, `receive` tells.

        Returns:
            Whether all is sent; `flush` sends the rest when the descriptor is writable.
        """
        sent = True
        with contextlib.suppress(OSError):
            sent = self._channel.send(message)
        self._stop.array[...] = 1
        return sent

    def flush(self) -> bool:
        """Send what is left; returns whether nothing is."""
        with contextlib.suppress(OSError):
            return self._channel.flush()
        return True

    def receive(self) -> list[Report]:
        """Give the reports that have come.

        Raises:
            EngineDeadError: it has ended.
        """
        early, self._early = self._early, []
        try:
            return early + self._channel.receive()
        except (EOFError, OSError) as error:
            raise EngineDeadError(f"the engine process {self.pid} has ended") from error

    def close(self) -> None:
        """Let go of it: it ends as soon as it looks up from what it does."""
        self._channel.close()
