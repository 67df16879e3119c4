"""What tests let engine processes do instead of using CUDA."""

from typing import Any

from server.engine.worker.loop import WorkerPool
from server.errors import DeviceError
from server.service.models import engine_start
from tests.server.runtime.devices import CPU_AS_DEVICE

start = engine_start._start_in_process


def on_the_processor(*arguments: Any) -> WorkerPool:
    """Take the processor for CUDA."""
    engine_start.cuda = lambda: CPU_AS_DEVICE
    return start(*arguments)


def without_driver(*arguments: Any) -> WorkerPool:
    """Do so where CUDA does not work; elsewhere load the model."""
    if arguments[0].device == "cuda":
        raise DeviceError("setting device: CUDA cannot be used (no driver)")
    return start(*arguments)
