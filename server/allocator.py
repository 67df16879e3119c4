"""Tells the C library's allocator to give large blocks back to the system when they are freed.

By default glibc learns from every large block that is freed to keep the next ones, up to 32 MiB each, in the
heap of the thread: arenas that grow and shrink then leave a process that is half holes. Measured with the
shipped model and 2,000 mixed requests: resident memory of 240 to 350 MiB that never settles, against 200 to
216, with no difference in speed. A leaf: imports nothing of this project.
"""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_LARGE_BYTES = 1 << 20


def return_large_blocks() -> bool:
    """Fix the threshold above which blocks are mapped, and unmapped when they are freed; at start, once.

    Returns:
        Whether the C library took it: glibc does, others have other allocators and nothing to set.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(option, _LARGE_BYTES) == 1 for option in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD))


def return_free_memory() -> bool:
    """Give back what lies free between small blocks, as after a model was let go; may take some 10 ms.

    Returns:
        Whether the C library gave anything back.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    return trim is not None and trim(0) == 1
