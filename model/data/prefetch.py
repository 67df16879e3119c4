"""Builds batches ahead of the device that trains on them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

_Item = TypeVar("_Item")


def prefetched(items: Iterator[_Item], depth: int = 16) -> Iterator[_Item]:
    """Yield items in order, up to ``depth`` of which a thread has made ahead.

    What the thread raises is raised here. It ends when the items do, or with this generator.
    """
    made: queue.Queue[tuple[_Item | None, BaseException | None]] = queue.Queue(depth)
    ended = threading.Event()

    def put(entry: tuple[_Item | None, BaseException | None]) -> bool:
        while not ended.is_set():
            try:
                made.put(entry, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((None, StopIteration()))
        except BaseException as error:  # noqa: BLE001 - raised again by the reader
            put((None, error))

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    try:
        while True:
            item, error = made.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]
    finally:
        ended.set()
        thread.join()
