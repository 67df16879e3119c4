"""Brings the ends of sentences from the worker threads to the event loop, many with one wake-up.

A step ends several sentences at once. Waking the loop for each of them is a system call on the worker's
thread (0.08 ms where they are dear) and a turn of the loop; here, what ends before the loop has looked is
taken along.
"""

import asyncio
import functools
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

from server.engine.sequence import SequenceResult
from server.errors import AbortedError, DeadlineExceededError


class Arrivals:
    """Waits for requests on one event loop. Used from that loop."""

    def __init__(self) -> None:
        """Wait for nothing yet."""
        self._ended: deque[tuple[_Waiting, Future[SequenceResult]]] = deque()
        self._rung = False
        self._thread = 0  # of the loop

    async def wait(self, futures: Sequence[Future[SequenceResult]], timeout_s: float) -> list[SequenceResult]:
        """Wait until every sentence of a request has ended well, or one has not.

        Args:
            futures: of the sentences, as `submit` gave them.
            timeout_s: how long at most.

        Returns:
            The results in order.

        Raises:
            DragomanError: as one of the futures.
            AbortedError: a future was cancelled.
            DeadlineExceededError: the time is up.
        """
        loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        waiting = _Waiting(loop, len(futures))
        ended = functools.partial(self._note_end, waiting)
        for future in futures:
            future.add_done_callback(ended)
        timer = loop.call_later(timeout_s, waiting.give_up)
        try:
            error = await waiting.over
        finally:
            timer.cancel()
        if error is not None:
            raise error
        return [future.result() for future in futures]

    def _note_end(self, waiting: "_Waiting", future: Future[SequenceResult]) -> None:
        """Have the loop told that a sentence has ended; called on any thread."""
        self._ended.append((waiting, future))
        loop = waiting.over.get_loop()
        # Looked at after the append, and `_deliver` clears it before it looks: no end is left behind.
        if not self._rung and not loop.is_closed():
            self._rung = True
            if threading.get_ident() == self._thread:
                loop.call_soon(self._deliver)
            else:
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._rung = False
        while self._ended:
            waiting, future = self._ended.popleft()
            waiting.note(future)


class _Waiting:
    """A request whose sentences have not all ended. Used from its event loop."""

    __slots__ = ("_left", "over")
    over: asyncio.Future[BaseException | None]  # here it is evaluated once, not for every request

    def __init__(self, loop: asyncio.AbstractEventLoop, sentences: int) -> None:
        self._left = sentences
        # An error is its result: asyncio would report an exception that a cancelled caller never takes.
        self.over = loop.create_future()

    def note(self, future: Future[SequenceResult]) -> None:
        """Count one sentence; the first that failed ends the waiting."""
        self._left -= 1
        if future.cancelled():
            self._end(AbortedError("the engine dropped the request"))
        elif (error := future.exception()) is not None:
            self._end(error)
        elif not self._left:
            self._end(None)

    def give_up(self) -> None:
        """End the waiting because the time is up."""
        self._end(DeadlineExceededError("the deadline passed before the translation was ready"))

    def _end(self, error: BaseException | None) -> None:
        if not self.over.done():
            self.over.set_result(error)
