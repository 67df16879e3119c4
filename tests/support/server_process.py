"""A real server process that a test can look at, signal and starve."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 40.0


@dataclass(frozen=True)
class RunningServer:
    """A server process.

    Attributes:
        process: of the server.
        port: it listens on 127.0.0.1.
        log: file with its standard output and error.
    """

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self, timeout_s: float = 20.0) -> socket.socket:
        """Open a connection that knows nothing of HTTP."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s)

    def stop(self) -> int:
        """Send SIGTERM and wait for the end."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)

    def metrics(self) -> dict[str, float]:
        """Every sample of `/metrics` by its series."""
        text = urllib.request.urlopen(f"{self.url}/metrics", timeout=20).read().decode()
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {series: float(value) for series, value in lines}


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def command(*arguments: object) -> list[str]:
    """A command line of dragoman in this interpreter."""
    return [sys.executable, "-m", "dragoman", *map(str, arguments)]


def wait_for(holds: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Look again and again until something holds."""
    give_up_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.02)


@contextmanager
def serving(
    bundle: Path | Sequence[Path], log: Path, program: Sequence[object] = ("dragoman",), **settings: object
) -> Iterator[RunningServer]:
    """Serve a bundle, or several, with one worker each.

    Args:
        bundle: what to serve.
        log: where the process writes.
        program: the module that is run, and arguments before `serve`; see `tests.support.faulty_server`.
        **settings: others than the defaults.

    Yields:
        The server; it is ready.
    """
    port, bundles = free_port(), (bundle,) if isinstance(bundle, Path) else tuple(bundle)
    variables = {f"DRAGOMAN_{name.upper()}": str(value) for name, value in {"workers": 1, **settings}.items()}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, [*program, "serve", *bundles, "--port", port])],
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,  # on a terminal, SIGHUP would end it
            stdout=output,
            stderr=output,
        )
    server = RunningServer(process, port, log)
    try:
        wait_until_ready(server.url, process)
        yield server
    finally:
        if process.poll() is None:
            server.stop()


def wait_until_ready(url: str, server: subprocess.Popen[bytes] | None = None) -> None:
    """Poll `/readyz` until it says 200; fails when the process ends or the time is up."""
    give_up_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            urllib.request.urlopen(f"{url}/readyz", timeout=2).close()
            return
        except (urllib.error.URLError, OSError):
            assert server is None or server.poll() is None, f"the server ended with {server.returncode}"
            assert time.monotonic() < give_up_s, "the server did not become ready"
            time.sleep(0.1)
