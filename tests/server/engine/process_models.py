"""Fake models for engine processes, which import this module: made there, controlled by files."""

import errno
import functools
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from export.bundle import BundleError
from server.engine.ipc.channel import WorkerPorts
from server.engine.limits import EngineLimits
from server.engine.worker import loop
from server.engine.worker.loop import Worker
from server.runtime.model_spec import Array
from tests.server.engine.fakes import FakeRuntime, Language, recite

LARGE_BYTES = 256 << 20


Build = Callable[[WorkerPorts], Worker]


def fake_worker(language: Language, limits: EngineLimits, switch: Path | None) -> Build:
    """Load a fake model, whose steps wait while there is a file."""
    runtime = FakeRuntime(language)
    runtime.has_multi_step = True

    def wait() -> None:
        while switch is not None and switch.exists():
            time.sleep(0.001)

    runtime.before_step = wait
    return functools.partial(Worker, runtime, limits)


def restless_worker(language: Language, limits: EngineLimits) -> Build:
    """Load one whose workers soon have waited long enough."""
    loop.IDLE_S = 0.3
    return fake_worker(language, limits, None)


def refusing() -> Build:
    """Refuse to load."""
    raise BundleError("decoder.onnx", "is not to my taste")


def crashing(limits: EngineLimits) -> Build:
    """Load one that crashes in every step."""
    runtime = FakeRuntime()

    def crash() -> None:
        raise KeyError("nothing an engine expects")

    runtime.before_step = crash
    return functools.partial(Worker, runtime, limits)


def killed_by(poison: int, limits: EngineLimits) -> Build:
    """Load one whose process is killed by sentences that begin with a token."""
    runtime = FakeRuntime(recite)
    encode = runtime.encoder.encode

    def kill(input_ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> Sequence[Array]:
        if (input_ids[:, 0] == poison).any():
            os.kill(os.getpid(), signal.SIGKILL)
        return encode(input_ids, lengths)

    runtime.encoder.encode = kill
    return functools.partial(Worker, runtime, limits)


def refusing_once(switch: Path, limits: EngineLimits) -> Build:
    """Load one whose next worker refuses to begin, and takes the file away, if there is one."""
    runtime = FakeRuntime(recite)

    def build(ports: WorkerPorts) -> Worker:
        if switch.exists():
            switch.unlink()
            raise MemoryError("no room for a golden sentence")
        return Worker(runtime, limits, ports)

    return build


def large(limits: EngineLimits) -> Build:
    """Load much memory."""
    runtime = FakeRuntime(recite)
    runtime.weights = bytearray(b"x") * LARGE_BYTES  # type: ignore[attr-defined]
    return functools.partial(Worker, runtime, limits)


def warning(limits: EngineLimits) -> Build:
    """Load a model that gives reason to a warning."""
    logging.getLogger("dragoman.runtime").warning("take care")
    return functools.partial(Worker, FakeRuntime(recite), limits)


def crowded(limits: EngineLimits) -> Build:
    """Load a model where there may be one process more, no second."""
    fork, left = os.fork, iter([True])

    def fork_once() -> int:
        if not next(left, False):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    os.fork = fork_once
    return functools.partial(Worker, FakeRuntime(recite), limits)


def loaded_by(folder: Path, limits: EngineLimits) -> Build:
    """Load a model and leave a file that is named after the process that did."""
    (folder / str(os.getpid())).touch()
    return functools.partial(Worker, FakeRuntime(recite), limits)


def dying() -> Build:
    """End before anything is loaded."""
    raise SystemExit(9)
