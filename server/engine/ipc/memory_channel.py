"""A channel between threads of one process."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class MemoryChannel:
    """Messages to a worker thread wait here; those from it are delivered on its own thread. Thread-safe."""

    def __init__(self, deliver: Callable[[Any], None]) -> None:
        """Start open and empty.

        Args:
            deliver: called with every message from the worker.
        """
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
            has_news = self._changed.wait_for(lambda: self._messages or self._closed, _finite(timeout_s))
            return bool(has_news)


def _finite(timeout_s: float) -> float | None:
    return None if timeout_s == float("inf") else max(0.0, timeout_s)
