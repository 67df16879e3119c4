"""Where the server stands between start and end, and how many requests it has taken on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from server.errors import DrainingError, NotReadyError
from server.metrics.registry import Metrics


class Lifecycle:
    """Loading, ready, draining. Used from the event loop.

    A request counts as taken on from the moment its body has been read: one whose client is still sending (or
    has stopped in the middle) does not hold back the end.

    Attributes:
        draining: whether the end has begun.
        active: requests that were taken on and have not ended.
    """

    def __init__(self, metrics: Metrics) -> None:
        """Start as not ready; the metrics are told about every change."""
        self._metrics = metrics
        self._ready = False
        self.draining = False
        self.active = 0

    @property
    def state(self) -> Literal["loading", "ready", "draining"]:
        """Where the server stands."""
        if self.draining:
            return "draining"
        return "ready" if self._ready else "loading"

    def set_ready(self) -> None:
        """Accept requests from now on."""
        self._ready = True
        self._metrics.ready.set(1)

    def begin_drain(self) -> None:
        """Refuse new requests from now on; those taken on go on."""
        self.draining = True
        self._metrics.ready.set(0)
        self._metrics.draining.set(1)

    def check_accepting(self) -> None:
        """Check that requests are accepted.

        Raises:
            NotReadyError: the model is being loaded.
            DrainingError: the server is shutting down.
        """
        if self.draining:
            raise DrainingError("the server is shutting down")
        if not self._ready:
            raise NotReadyError("the server is loading its model")

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Hold back the end while the block runs. Raises as `check_accepting`."""
        self.check_accepting()
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1
