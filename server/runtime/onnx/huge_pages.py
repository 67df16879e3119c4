"""Asks Linux to keep a model's weights in huge pages.

A decoder step reads every weight once. In pages of 4 KiB the processor loses time with looking up addresses,
the more so in a virtual machine: 6+6 layers of 512 in int8 take 2.35 ms a step with one row and 12.5 with 32,
and 2.10 and 11.8 in pages of 2 MiB. Moving 100 MB takes 0.2 s, once.
"""

import ctypes
import logging
from collections.abc import Collection
from pathlib import Path

_log = logging.getLogger("dragoman.runtime")

_HUGE_PAGE_BYTES = 2 << 20
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25
_MAPS = Path("/proc/self/maps")


def huge_pages_so_far() -> set[int]:
    """Find what of this process' memory could lie in huge pages now; call it before weights are loaded.

    Returns:
        Addresses of whole huge pages of large private mappings; none where the system does not tell.
    """
    try:
        lines = _MAPS.read_text().splitlines()
    except OSError:
        return set()
    return {page for line in lines for page in _whole_pages(line)}


def use_huge_pages(before: Collection[int] = ()) -> int:
    """Move large private mappings of this process into huge pages; call it after weights were loaded.

    Linux 6.1 and newer do it at once, older ones in the background if transparent huge pages are not off.
    Elsewhere nothing happens. It never fails: what the kernel refuses stays as it is.

    Args:
        before: of `huge_pages_so_far`; stays as it is. Moving what is shared with the process that we were
            forked from would make a copy of it.

    Returns:
        Bytes that the kernel was asked about.
    """
    try:
        madvise = ctypes.CDLL(None, use_errno=True).madvise
    except (OSError, AttributeError):
        return 0
    pages = huge_pages_so_far().difference(before)
    for page in sorted(pages):
        for advice in (_MADV_HUGEPAGE, _MADV_COLLAPSE):
            madvise(ctypes.c_void_p(page), ctypes.c_size_t(_HUGE_PAGE_BYTES), advice)
    asked = len(pages) * _HUGE_PAGE_BYTES
    _log.debug("asked for huge pages for %d MiB", asked >> 20)
    return asked


def _whole_pages(line: str) -> range:
    """Cut one line of `/proc/self/maps` to whole huge pages; nothing of it if it is no anonymous memory."""
    span, permissions, _, _, inode, *name = line.split(maxsplit=5)
    if permissions != "rw-p" or inode != "0" or (name and name[0] != "[heap]"):
        return range(0)
    first, last = (int(address, 16) for address in span.split("-"))
    return range(
        -(-first // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES, last - _HUGE_PAGE_BYTES + 1, _HUGE_PAGE_BYTES
    )
