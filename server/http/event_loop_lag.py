"""How far the event loop is behind: what a client waits before anybody has looked at its request."""

import asyncio
from collections.abc import Callable

_INTERVAL_S = 0.1
_BEHIND_S = 0.01


class LoopLag:
    """Measures the delay of a timer. Used from one event loop.

    Attributes:
        seconds: by which the timer was late the last time.
    """

    def __init__(self, observe: Callable[[float], None]) -> None:
        """Start with none; `observe` is told every measurement, in seconds."""
        self.seconds = 0.0
        self._observe = observe

    @property
    def is_behind(self) -> bool:
        """Whether requests come faster than they can be read."""
        return self.seconds > _BEHIND_S

    async def watch(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + _INTERVAL_S
            await asyncio.sleep(_INTERVAL_S)
            self.seconds = max(0.0, loop.time() - due_s)
            self._observe(self.seconds)
