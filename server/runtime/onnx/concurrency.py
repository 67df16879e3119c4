"""Tells a run whether it has the machine to itself."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_S = 0.005
"""How long the other threads must not have run: a worker spends less than this between two of its steps."""


_REMEMBERED = 64
"""Threads that are kept in mind before the long idle ones are dropped; reloads leave some behind."""


class Traffic:
    """Notes which threads run graphs, of whatever model, and when. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with a quiet machine.

        Args:
            clock: monotonic seconds.
        """
        self._clock = clock
        self._ended_s: dict[int, float] = {}

    @contextmanager
    def run(self) -> Iterator[bool]:
        """Note a run of the calling thread.

        Yields:
            Whether no other thread is running a graph now, nor was within the last `QUIET_S`.
        """
        me, quiet_since_s = threading.get_ident(), self._clock() - QUIET_S
        if len(self._ended_s) > _REMEMBERED:
            for thread, ended_s in [*self._ended_s.items()]:
                if ended_s < quiet_since_s:
                    self._ended_s.pop(thread, None)
        alone = all(ended_s < quiet_since_s for thread, ended_s in [*self._ended_s.items()] if thread != me)
        self._ended_s[me] = math.inf
        try:
            yield alone
        finally:
            self._ended_s[me] = self._clock()


PROCESS_TRAFFIC = Traffic()
"""Of this process: models that are served together share its cores."""
