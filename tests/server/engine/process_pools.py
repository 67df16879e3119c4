"""Pools of processes for tests, and the event loop that hears of their results."""

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from server.engine.dispatch.dispatcher import Dispatcher
from server.engine.dispatch.fork_server import fork_server
from server.engine.limits import EngineLimits
from server.engine.observer import NullObserver
from tests.server.engine import process_models
from tests.server.engine.fakes import Language, recite
from tests.support.server_process import wait_for

MakePool = Callable[..., Dispatcher]


class Witness(NullObserver):
    def __init__(self) -> None:
        self.steps: list[int] = []
        self.reasons: list[str] = []
        self.errors: list[str] = []

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        self.steps.append(busy_rows)

    def finished(self, reason: str, source_tokens: int, target_tokens: int, queue_s: float) -> None:
        self.reasons.append(reason)

    def error(self, kind: str) -> None:
        self.errors.append(kind)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def make_pool(loop: asyncio.AbstractEventLoop) -> Iterator[MakePool]:
    pools = []

    def make(
        language: Language = recite, processes: int = 2, switch: Path | None = None, **settings: object
    ) -> Dispatcher:
        limits = EngineLimits(**{"max_rows": 8, **settings.pop("limits", {})})
        load = settings.pop("load", functools.partial(process_models.fake_worker, language, limits, switch))
        started = fork_server().start(load, processes, after_fork=settings.pop("after_fork", False))
        pool = Dispatcher(started, limits, settings.pop("observer", NullObserver()), **settings)
        pools.append(pool)
        loop.call_soon_threadsafe(pool.attach, loop)
        return pool

    yield make
    for pool in pools:
        pool.close(0.0)
    wait_for(lambda: forked() == [])


def forked() -> list[psutil.Process]:
    """All processes of models and workers that there are now, those that nobody waited for included."""
    return psutil.Process(fork_server().pid).children(recursive=True)
