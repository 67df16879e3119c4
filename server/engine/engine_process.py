"""An engine process as the server sees it: start it, talk to it, end it."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server.errors import EngineDeadError

from .channel import Channel
from .messages import FromProcess, Load, Ready, Refused, Report, ToProcess
from .shared_number import SharedNumber

_MODULE = "server.engine.lone_worker"
_ROOT = str(Path(__file__).resolve().parents[2])
# Where we are installed the root is there, behind the standard library; in a checkout it need not be.
_START = "import sys; {0!r} in sys.path or sys.path.insert(0, {0!r}); from {1} import main; main()"


class EngineProcess:
    """A process and the channel to it. Any thread may send, one receives."""

    def __init__(self, make: Callable[[Callable[..., Any]], Any]) -> None:
        """Start the process.

        Args:
            make: see `messages.Load`; pickled, so a function of a module, or a partial one.
        """
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self._stop = SharedNumber()
        given = [theirs.fileno(), self._stop.descriptor]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START.format(_ROOT, _MODULE), *map(str, given)],
                stdin=subprocess.DEVNULL,
                pass_fds=given,
            )
        self._stop.close()
        self._early: list[Report] = []
        self.send(Load(make))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Descriptor that is readable when there is something to receive."""
        return self._channel.fileno()

    def wait_ready(self) -> Ready:
        """Wait until it has loaded its model.

        Raises:
            EngineDeadError: it has ended.
            Exception: as it refused to.
        """
        try:
            messages: list[FromProcess] = self._channel.wait_for_messages()
        except (EOFError, OSError) as error:
            raise EngineDeadError("an engine process ended while it loaded its model") from error
        first, *self._early = messages  # type: ignore[assignment]  # reports follow
        if isinstance(first, Refused):
            raise first.error
        assert isinstance(first, Ready)
        return first

    def send(self, message: Load | ToProcess) -> bool:
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

    def close(self, timeout_s: float) -> None:
        """End the process, whatever it does.

        Args:
            timeout_s: how long it may take by itself, which it hardly needs.
        """
        self._channel.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
