"""A flag that interrupts a worker in the middle of a multi-step run; two processes may share it."""

import mmap
import os

import numpy as np
from numpy.typing import NDArray

_BYTES = 8


class InterruptFlag:
    """An int64 that starts as 0 and is looked at after every step of a multi-step run. Thread-safe.

    Attributes:
        array: int64 [], the number itself.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Make one.

        Args:
            descriptor: of memory from `shared_descriptor`, which it maps; None is for threads of one process.
        """
        self.array: NDArray[np.int64]
        if descriptor is None:
            self.array = np.zeros((), np.int64)
        else:
            self.array = np.frombuffer(mmap.mmap(descriptor, _BYTES), np.int64).reshape(())

    def set(self) -> None:
        """Ask the worker to look at its inbox soon."""
        self.array[...] = 1

    def clear(self) -> None:
        """Note that the worker is about to look."""
        self.array[...] = 0


def shared_descriptor() -> int:
    """Make the memory of a flag that another process will map; the caller closes the descriptor."""
    descriptor = os.memfd_create("dragoman")
    os.ftruncate(descriptor, _BYTES)
    return descriptor
