"""The real server on a model that misbehaves.

    python -m tests.support.faulty_server FAULT FILE VALUE serve BUNDLE ...

A fault is there while FILE is, so that a server starts well and a test chooses the moment:

- `poison`: every run with the source token VALUE fails.
- `slow`: every decoder step takes VALUE more milliseconds, so the server has a capacity that is known.
- `blocked`: runs of the encoder wait until the file is gone, beside which they leave one called `.entered`.
- `crash`: the worker thread ends at its next run.
- `endless`: the token VALUE, the end, is never written.
- `leak`: every run of the encoder keeps VALUE bytes.
- `clock`: the wall clock goes forth and back an hour with every look at it.
"""

import itertools
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server.engine.dispatch import fork_server
from server.errors import InferenceError
from server.runtime.model_runtime import ModelRuntime
from server.runtime.sessions import StepBuffers
from server.service.models import engine_start


class WorkerCrash(BaseException):
    """Nothing that an engine expects."""


class Fault:
    """One of the faults, while its file is there. Thread-safe."""

    def __init__(self, kind: str, file: Path, value: int) -> None:
        self._kind, self._file, self._value = kind, file, value
        self._kept: list[bytes] = []

    @property
    def _armed(self) -> bool:
        return self._file.exists()

    def before_encoding(self, ids: NDArray[np.int64]) -> None:
        if not self._armed:
            return
        if self._kind == "poison" and (ids == self._value).any():
            raise InferenceError("poison")
        if self._kind == "crash":
            raise WorkerCrash
        if self._kind == "leak":
            self._kept.append(bytes(bytearray(self._value)))
        if self._kind == "blocked":
            self._file.with_suffix(".entered").touch()
        while self._kind == "blocked" and self._armed:
            time.sleep(0.002)

    def after_step(self, logits: NDArray[np.float32]) -> None:
        if not self._armed:
            return
        if self._kind == "slow":
            time.sleep(self._value / 1000)
        if self._kind == "endless":
            logits[:, self._value] = -1e9

    def install(self) -> None:
        """Put it around every model that is loaded from now on."""

        def load_faulty(*arguments: Any, **options: Any) -> Any:
            return FaultyRuntime(ModelRuntime(*arguments, **options), self)

        engine_start.ModelRuntime = load_faulty  # type: ignore[assignment,misc]
        if self._kind == "clock":
            real, hours = time.time, itertools.cycle((3600.0, -3600.0))
            time.time = lambda: real() + (next(hours) if self._armed else 0.0)


class Around:
    """Does what another object does."""

    def __init__(self, real: Any, fault: Fault) -> None:
        self._real, self._fault = real, fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class FaultyRuntime(Around):
    """A model with a fault."""

    @property
    def encoder(self) -> Any:
        return FaultyEncoder(self._real.encoder, self._fault)

    def decoder(self, beam_width: int) -> Any:
        return FaultyDecoder(self._real.decoder(beam_width), self._fault)


class FaultyEncoder(Around):
    """Its encoder."""

    def encode(self, input_ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> Any:
        self._fault.before_encoding(input_ids)
        return self._real.encode(input_ids, lengths)


class FaultyDecoder(Around):
    """One of its decoders."""

    def step(self, buffers: StepBuffers) -> None:
        self._real.step(buffers)
        self._fault.after_step(buffers.outputs["logits"])


if __name__ == "__main__":
    kind, file, value, *arguments = sys.argv[1:]
    Fault(kind, Path(file), int(value)).install()
    os.environ["FAULT"] = f"{kind} {file} {value}"
    fork_server._MODULE = "tests.support.faulty_engine_process"
    sys.argv[1:] = arguments
    from dragoman import app

    app()
