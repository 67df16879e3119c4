"""A number in memory that two processes share, to interrupt one that is busy."""

import mmap
import os

import numpy as np
from numpy.typing import NDArray

_BYTES = 8


class SharedNumber:
    """An int64 that starts as 0.

    Attributes:
        array: int64 [], the number itself.
        descriptor: of the memory; a process that has inherited it opens it by that.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Open it.

        Args:
            descriptor: of one that another process made; None makes a new one.
        """
        if descriptor is None:
            descriptor = os.memfd_create("dragoman")
            os.ftruncate(descriptor, _BYTES)
        self.descriptor = descriptor
        self.array: NDArray[np.int64] = np.frombuffer(mmap.mmap(descriptor, _BYTES), np.int64).reshape(())

    def close(self) -> None:
        """Close the descriptor; the number stays as long as somebody has it."""
        os.close(self.descriptor)
