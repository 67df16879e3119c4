"""Fake models for engine processes, which import this module: made there, controlled by files."""

import errno
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from export.bundle import BundleError
from server.engine.limits import EngineLimits
from server.engine.worker import loop
from server.engine.worker.process import LoneWorker
from tests.server.engine.fakes import FakeRuntime, Language, recite

LARGE_BYTES = 256 << 20


def fake_worker(
    language: Language, limits: EngineLimits, switch: Path | None, make: Callable[..., LoneWorker]
) -> LoneWorker:
    """Make a worker over a fake model, whose steps wait while there is a file."""
    runtime = FakeRuntime(language)
    runtime.has_bursts = True

    def wait() -> None:
        while switch is not None and switch.exists():
            time.sleep(0.001)

    runtime.before_step = wait
    lone = make(runtime, limits)
    lone.start()
    return lone


def restless_worker(language: Language, limits: EngineLimits, make: Callable[..., LoneWorker]) -> LoneWorker:
    """Make one that soon has waited long enough."""
    loop.IDLE_S = 0.3
    return fake_worker(language, limits, None, make)


def refusing(make: Callable[..., LoneWorker]) -> LoneWorker:
    """Refuse to load."""
    raise BundleError("decoder.onnx", "is not to my taste")


def crashing(limits: EngineLimits, make: Callable[..., LoneWorker]) -> LoneWorker:
    """Make a worker that crashes in its first step."""
    runtime = FakeRuntime()

    def crash() -> None:
        raise KeyError("nothing an engine expects")

    runtime.before_step = crash
    return make(runtime, limits)


def large(limits: EngineLimits, make: Callable[..., LoneWorker]) -> LoneWorker:
    """Make a worker over much memory."""
    runtime = FakeRuntime(recite)
    runtime.weights = bytearray(b"x") * LARGE_BYTES  # type: ignore[attr-defined]
    return make(runtime, limits)


def warning(limits: EngineLimits, make: Callable[..., LoneWorker]) -> LoneWorker:
    """Make a worker over a model that gives reason to a warning."""
    logging.getLogger("dragoman.runtime").warning("take care")
    return make(FakeRuntime(recite), limits)


def crowded(limits: EngineLimits, make: Callable[..., LoneWorker]) -> LoneWorker:
    """Load a model where there may be one process more, no second."""
    fork, left = os.fork, iter([True])

    def fork_once() -> int:
        if not next(left, False):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    os.fork = fork_once
    return make(FakeRuntime(recite), limits)


def loaded_by(folder: Path, limits: EngineLimits, make: Callable[..., LoneWorker]) -> LoneWorker:
    """Make a worker and leave a file that is named after the process that did."""
    (folder / str(os.getpid())).touch()
    return make(FakeRuntime(recite), limits)


def dying(make: Callable[..., LoneWorker]) -> LoneWorker:
    """End before anything is loaded."""
    raise SystemExit(9)
