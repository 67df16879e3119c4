"""A real server in a process of its own."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 40.0


@contextmanager
def running_server(bundle: Path, *arguments: str) -> Iterator[str]:
    """Serve a bundle with one worker on a free port.

    Args:
        bundle: what to serve.
        arguments: further arguments of `dragoman serve`.

    Yields:
        The address, `http://127.0.0.1:PORT`; it is ready.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "dragoman", "serve", str(bundle), "--port", str(port), "--workers", "1"]
    server = subprocess.Popen([*command, *arguments])
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(url, server)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
            raise


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
