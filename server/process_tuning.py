"""Tells the C library's allocator what to do with large blocks that are freed.

By default glibc learns from every large block that is freed to keep the next ones, up to 32 MiB each, in the
heap of the thread: arenas that grow and shrink then leave a process that is half holes. Here blocks of less
than 2 MiB are kept, which is what a run needs for itself, and larger ones given back, mostly keys and values.

So a thread gets again what it freed, and ONNX Runtime needs no arena. It has one for all threads that
run a session: what one worker frees the other gets, while it still is in the first one's cache. And an arena
of each session keeps the most that this ever needed. See docs/experiments/processes.md.

A leaf: imports nothing of this project.
"""

import ctypes
import gc
import sys
from collections.abc import Callable

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_LARGE_BYTES, _MOST_FREE_BYTES = 2 << 20, 1 << 20  # the latter at the end of a thread's heap

_keeps = False


def return_large_blocks() -> bool:
    """Have blocks of 2 MiB and more mapped, and unmapped when they are freed; at start, before models.

    Gives whether the C library took it: glibc does, others have other allocators and nothing to set.
    """
    global _keeps
    mallopt = _function("mallopt")
    settings = {_M_MMAP_THRESHOLD: _LARGE_BYTES, _M_TRIM_THRESHOLD: _MOST_FREE_BYTES}
    _keeps = mallopt is not None and all(mallopt(option, value) == 1 for option, value in settings.items())
    return _keeps


def keeps_blocks() -> bool:
    """Tell whether every thread keeps the smaller blocks that a run frees."""
    return _keeps


def return_free_memory() -> bool:
    """Give back what lies free between small blocks, as after a model was let go; may take some 10 ms.

    Gives whether the C library gave anything back.
    """
    trim = _function("malloc_trim")
    return trim is not None and trim(0) == 1


def _function(name: str) -> Callable[..., int] | None:
    """Give a function of the C library, where it is one of Linux that has it."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None


_SWITCH_INTERVAL_S = 0.0003
"""How long a thread may keep Python's lock from others. A worker needs it between two steps, and the usual
5 ms are several steps of a small model."""


_GARBAGE_THRESHOLD = 10_000
"""New containers before cyclic garbage is looked for. The usual 700 are those of three requests."""


def tune_interpreter() -> None:
    """Set what makes Python serve faster; once, when all modules are there and nothing is loaded yet."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()  # modules, classes and functions stay for ever: no use in walking them again and again
    gc.set_threshold(_GARBAGE_THRESHOLD)
