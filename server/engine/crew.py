"""How many of the workers are worth having, beside the thread that submits: a policy over processor times.

With a small model the thread that submits, a server's event loop, takes a good part of a core. As many
workers as there are cores then wait for one another, for a core and for Python's lock, and each decodes a
part of what one could decode in a single batch. So workers are as many as the cores left to them are worth,
which follows from the processor time that the submitting thread takes for each second of theirs: a model
that takes longer keeps them all, and so does a document, which is one submission. Where one thread submits to
several models, all of its time counts for each: it is a core that none of them has.

Two cores, the shipped model, against two workers throughout: 1.10, 1.09, 1.03 and 1.04 times the sentences/s
with 8, 16, 32 and 64 clients; at 300, 450 and 600 requests/s p50 0.87, 0.76 and 0.82, p95 0.86, 0.81 and 0.89
of what it was.
"""

import math
import threading
import time
from collections.abc import Callable

WINDOW_S = 0.25
"""How long processor times are summed up before the workers are counted anew."""

LEAST_LOAD = 0.25
"""Cores that all of them use together below which there is nothing to be gained."""

WORTH = 0.62
"""Share of their speed that workers keep who share all cores with the submitting thread: so many fewer, each
with a core to itself, do as much."""


class Crew:
    """Counts the workers that start sentences. Not thread-safe: the worker pool calls it under its lock.

    Attributes:
        size: the count; at least 1.
    """

    def __init__(
        self,
        workers: int,
        clock: Callable[[], float] = time.monotonic,
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        """Have all of them.

        Args:
            workers: how many there are, one for each core.
            clock: seconds.
            thread_time: seconds of processor time of the thread that asks.
        """
        self.size = workers
        self._workers = workers
        self._clock = clock
        self._thread_time = thread_time
        self._seen_s: dict[int, float] = {}  # processor time of a worker's thread when it was last here
        self._submitter: tuple[int, float] = (0, 0.0)  # a thread, and the same of it
        self._submit_s = self._work_s = 0.0
        self._since_s = clock()

    def submitted(self) -> None:
        """Note that this thread submits: what it has used since it last did is the price of submitting."""
        thread, now_s = threading.get_ident(), self._thread_time()
        known, seen_s = self._submitter
        if thread == known:
            self._submit_s += max(0.0, now_s - seen_s)  # a new thread may have the name of one that ended
        self._submitter = thread, now_s

    def worked(self) -> None:
        """Note that this thread, a worker's, has worked."""
        thread, used_s = threading.get_ident(), self._thread_time()
        self._work_s += used_s - self._seen_s.get(thread, used_s)
        self._seen_s[thread] = used_s
        now_s = self._clock()
        passed_s = now_s - self._since_s
        if passed_s >= WINDOW_S:
            self.size = self._count(passed_s)
            self._submit_s = self._work_s = 0.0
            self._since_s = now_s

    def _count(self, passed_s: float) -> int:
        """Count the workers that are as good as all of them, which share the cores with the other thread."""
        work, submit = self._work_s, self._submit_s
        if not submit or work + submit < LEAST_LOAD * passed_s:
            return self._workers
        cores_left = self._workers * work / (work + submit)  # to all workers, if all cores are full
        kept_busy = work / submit  # workers that such a thread can give work to
        return max(1, min(self._workers, math.ceil(WORTH * min(cores_left, kept_busy))))
