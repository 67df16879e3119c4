"""What tests let engine processes do instead of using CUDA."""

from collections.abc import Callable
from typing import Any

from server.engine.ipc.channel import WorkerPorts
from server.engine.worker.loop import Worker
from server.errors import DeviceError
from server.service.models import engine_start
from tests.server.runtime.devices import CPU_AS_DEVICE

load = engine_start._load_in_process


def on_the_processor(*arguments: Any) -> Callable[[WorkerPorts], Worker]:
    """Take the processor for CUDA."""
    engine_start.cuda = lambda: CPU_AS_DEVICE
    return load(*arguments)


def without_driver(*arguments: Any) -> Callable[[WorkerPorts], Worker]:
    """Do so where CUDA does not work; elsewhere load the model."""
    if arguments[0].device == "cuda":
        raise DeviceError("setting device: CUDA cannot be used (no driver)")
    return load(*arguments)
