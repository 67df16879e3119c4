"""Starts and stops the servers that are compared: dragoman's own process and the peers around CTranslate2."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.models import Model
from benchmarks.peers.turns import REPOSITORY, PeerError, running
from server.metrics.process import anonymous_bytes

_READY_TIMEOUT_S, _END_TIMEOUT_S = 120.0, 15.0


@dataclass(frozen=True)
class Server:
    """How to start a server.

    Attributes:
        name: what tables call it.
        arguments: of the Python interpreter, without ``--port``.
        variables: environment in addition to this process's own.
    """

    name: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


def dragoman(model: Model, name: str = "dragoman", **settings: int | str) -> Server:
    """Describe dragoman's server with its defaults, but without its cache: the peers compute every sentence.

    Args:
        model: to serve.
        name: what tables call it.
        settings: of `server.settings.Settings`, in addition.
    """
    chosen = {"log_level": "warning", "cache_bytes": 0} | settings
    variables = {f"DRAGOMAN_{key.upper()}": str(value) for key, value in chosen.items()}
    return Server(name, ("-m", "dragoman", "serve", str(model.bundle)), variables)


def ctranslate2(
    model: Model, name: str, max_batch: int, wait_ms: float, variables: Mapping[str, str], device: str = "cpu"
) -> Server:
    """Describe FastAPI with CTranslate2.

    Args:
        model: to serve.
        name: what tables call it.
        max_batch: texts of a batch; 1 is without batching.
        wait_ms: how long an idle server waits for company.
        variables: CTranslate2's best on this machine.
        device: cpu or cuda.
    """
    folders = (str(model.ctranslate2), str(model.huggingface))
    options = ("--max-batch", str(max_batch), "--wait-ms", str(wait_ms), "--device", device)
    return Server(name, ("-m", "benchmarks.peers.peer_server", *folders, *options), variables)


@contextlib.contextmanager
def serving(server: Server, checkout: Path = REPOSITORY) -> Iterator[tuple[int, int]]:
    """Run a server; yields its port and process id once it is ready, and ends it afterwards.

    Args:
        server: to run.
        checkout: working tree whose sources it runs.

    Raises:
        PeerError: it ended, or was not ready within two minutes.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, *server.arguments, "--port", str(port)]
    with running(command, _END_TIMEOUT_S, cwd=checkout, env=os.environ | server.variables) as process:
        _wait_until_ready(server, process, port)
        yield port, process.pid


def _wait_until_ready(server: Server, process: subprocess.Popen[Any], port: int) -> None:
    until_s = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < until_s:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1).close()
            return
        except OSError:
            if process.poll() is not None:
                raise PeerError(f"{server.name}: the server ended with {process.returncode}") from None
            time.sleep(0.1)
    raise PeerError(f"{server.name}: not ready after {_READY_TIMEOUT_S:.0f} s")


def memory_bytes(pid: int) -> int:
    """Resident memory of a process and all that it has started, now; what these share counts once."""
    process = psutil.Process(pid)
    others = (anonymous_bytes(child.pid) for child in process.children(recursive=True))
    return int(process.memory_info().rss) + sum(others)
