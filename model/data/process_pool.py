"""Runs a function over the chunks of a corpus on all processors, in order.

In processes, as Python's lock lets threads do one thing at a time; without torch, so that a process starts at
once.
"""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeVar

_State = TypeVar("_State")
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_MOST = 16
"""Processes. The caller reads, sends and writes, which is an eighth of the work of tokenizing."""


def mapped(
    work: Callable[[_State, _Item], _Result], state: _State, items: Iterable[_Item], *, few: int = 0
) -> Iterator[_Result]:
    """Yield ``work(state, item)`` of each item in order.

    Twice as many items as there are processes are in memory at most.

    Args:
        work: a function of a module.
        state: what all items need; sent to each process once.
        items: read as they are needed.
        few: items that the caller works on itself before it starts processes.

    Raises:
        concurrent.futures.BrokenExecutor: a process was killed.
    """
    remaining, count = iter(items), min(processors(), _MOST)
    for item in itertools.islice(remaining, few if count > 1 else None):
        yield work(state, item)
    following = next(remaining, None)
    if following is None:
        return
    # Not forked: torch's threads may hold locks in this process.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, context, _start, (work, state))
    try:
        waiting: deque[Future[_Result]] = deque()
        for item in itertools.chain([following], remaining):
            waiting.append(pool.submit(_work_here, item))
            if len(waiting) == 2 * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def processors() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Own:
    """What a process of the pool works with."""

    work: Callable[[Any, Any], Any]
    state: Any


def _start(work: Callable[[Any, Any], Any], state: Any) -> None:
    _Own.work, _Own.state = staticmethod(work), state
    gc.disable()  # a fifth of the time went to looking for cycles among lists of ids, which have none
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller, who ends the pool
    threading.Thread(target=_end_with_caller, daemon=True).start()


def _end_with_caller() -> None:
    """End this process, whose caller was killed.

    It would wait for its next item for ever, as it holds the other end of the queue itself.
    """
    caller = multiprocessing.parent_process()
    assert caller is not None
    caller.join()
    os._exit(1)


def _work_here(item: Any) -> Any:
    return _Own.work(_Own.state, item)
