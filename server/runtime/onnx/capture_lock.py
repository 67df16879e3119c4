"""Who may use a device while a run is being recorded on it: nobody else.

While CUDA records a run (`device.cuda_graphs`), no other thread of the process may allocate or free the
device's memory: its calls would fail (CUDA's *global* capture mode, which is ONNX Runtime's), as would copies
that wait. Several threads share a device where a server has several models, or loads one beside another. So
whatever allocates or copies there passes a gate together with others, and a recording passes it alone, or is
put off.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Lets many pass together, or one alone. Thread-safe; a thread must not pass it twice at a time."""

    def __init__(self) -> None:
        """Stand open."""
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    @contextmanager
    def together(self) -> Iterator[None]:
        """Pass with others; wait while somebody is alone inside."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Pass alone, if nobody is inside; does not wait. Gives whether that is so."""
        with self._changed:
            alone = not self._closed and not self._inside
            self._closed = self._closed or alone
        try:
            yield alone
        finally:
            if alone:
                with self._changed:
                    self._closed = False
                    self._changed.notify_all()


DEVICE_GATE = Gate()
"""Of all devices of this process; numpy arrays need none."""
