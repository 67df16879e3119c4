"""Systems in processes of their own that take turns: threads and memory never mix, and who waits sleeps."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

REPOSITORY = Path(__file__).resolve().parents[2]
TURN_S = 0.5
"""Time of a turn, at least. With one call of 10 to 30 ms a turn, what was measured was how fast caches that
another system had filled are filled again: 8 sentences of the shipped model took twice their usual time."""

_CALM_S, _CALM_TIMEOUT_S = 0.02, 1.0
_END_TIMEOUT_S = 10.0


class PeerError(RuntimeError):
    """A system's process ended or said no; the message has its last words."""


class Peer:
    """A process that answers one JSON line with another. Not thread-safe.

    Attributes:
        name: what tables call it.
        pid: of the process.
    """

    def __init__(
        self, name: str, module: str, arguments: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        """Start ``python -m module arguments`` and wait for its first line.

        Args:
            name: what tables call it.
            module: with a main that talks as `benchmarks.peers.engine_process` does.
            arguments: for it.
            variables: environment in addition to this process's own.

        Raises:
            PeerError: it ended instead.
        """
        self.name = name
        # In a session of its own: Ctrl-C is for the parent, which ends its children in order.
        try:
            with signals_held():
                self._process = subprocess.Popen(
                    [sys.executable, "-m", module, *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=REPOSITORY,
                    env=os.environ | {"OMP_NUM_THREADS": str(os.cpu_count() or 1)} | variables,
                    start_new_session=True,
                )
            self.pid = self._process.pid
            self.facts = self._answer()
        except BaseException:
            if hasattr(self, "_process"):
                self.close()
            raise

    def ask(self, **question: Any) -> dict[str, Any]:
        """Send a question and wait for the answer.

        Raises:
            PeerError: the process ended, or answered with an error.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(f"{self.name}: its process has ended") from None
        return self._answer()

    def cpu_s(self) -> float:
        """Processor time that the process has used so far, in seconds."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def close(self) -> None:
        """End the process: politely, then not."""
        process = self._process
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            _end(process, _END_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"{self.name}: its process ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer


@contextlib.contextmanager
def running(command: Sequence[str], patience_s: float, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a command in a session of its own; it is asked to end, then made to, when the block ends.

    Args:
        command: to run, in the repository.
        patience_s: how long it may take to end.
        **options: of `subprocess.Popen`.
    """
    process: subprocess.Popen[Any] | None = None
    try:
        with signals_held():
            process = subprocess.Popen(command, start_new_session=True, **{"cwd": REPOSITORY, **options})
        yield process
    finally:
        if process is not None and process.poll() is None:
            _end(process, patience_s)


def _end(process: subprocess.Popen[Any], patience_s: float) -> None:
    """Ask a process to end, then make it."""
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_calm(peers: Sequence[Peer]) -> None:
    """Wait until none of these processes computes, a second at most: OpenMP threads spin after their work."""
    until_s = time.monotonic() + _CALM_TIMEOUT_S
    before = [peer.cpu_s() for peer in peers]
    while time.monotonic() < until_s:
        time.sleep(_CALM_S)
        now = [peer.cpu_s() for peer in peers]
        if now == before:
            return
        before = now


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait while a process is started, so that none is lost before it has a name."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that ``finally`` ends every process that was started."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
