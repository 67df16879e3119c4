"""Worker pools for tests: made and closed by a fixture, with gates instead of sleeps."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace

import pytest

from server.engine.dispatch.dispatcher import Dispatcher
from server.engine.dispatch.worker_threads import WorkerThreads
from server.engine.ipc.channel import WorkerPorts
from server.engine.limits import EngineLimits
from server.engine.observer import EngineObserver, NullObserver
from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.engine.shortlist.lexical_table import Shortlist
from server.engine.worker.loop import Worker
from server.runtime.sessions import Runtime
from tests.server.engine import slow
from tests.server.engine.fakes import FakeRuntime, babble, recite
from tests.support.server_process import wait_for

WAIT_S = 20.0

MakePool = Callable[..., Dispatcher]


class Ends(NullObserver):
    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.errors: list[str] = []

    def finished(self, reason: str, source_tokens: int, target_tokens: int, queue_s: float) -> None:
        self.reasons.append(reason)

    def error(self, kind: str) -> None:
        self.errors.append(kind)


def thread_engine(
    runtime: Runtime,
    limits: EngineLimits,
    observer: EngineObserver | None = None,
    clock: Callable[[], float] = time.monotonic,
    shortlist: Shortlist | None = None,
    rows_together: int = 1,
    workers: int = 1,
) -> Dispatcher:
    """Workers that are threads over one runtime, as `engine_start.start_threads` starts them of a bundle."""
    share = limits
    if limits.max_cache_bytes is not None:
        share = replace(limits, max_cache_bytes=limits.max_cache_bytes // workers)

    def build(ports: WorkerPorts) -> Worker:
        return Worker(runtime, share, ports, shortlist)

    threads = WorkerThreads(build, workers, runtime.terminate, clock)
    return Dispatcher(threads, limits, observer or NullObserver(), clock, rows_together)


class Gate:
    """Lets a worker pass one step at a time, or all of them."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self._passes = threading.Semaphore(0)
        self.open = False

    def __call__(self) -> None:
        if not self.open:
            self.reached.release()
            assert self._passes.acquire(timeout=WAIT_S)

    def wait(self) -> None:
        assert self.reached.acquire(timeout=WAIT_S)

    def let_pass(self) -> None:
        self._passes.release()

    def open_for_all(self) -> None:
        self.open = True
        self._passes.release(100)


@pytest.fixture
def make_pool() -> Iterator[MakePool]:
    pools = []

    def make(runtime: FakeRuntime, **settings: object) -> Dispatcher:
        limits = EngineLimits(**{"max_rows": 8, **settings.pop("limits", {})})
        pools.append(thread_engine(runtime, limits, **settings))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close(0.0)


def gated(language: Callable = recite, **sizes: int) -> tuple[FakeRuntime, Gate]:
    runtime, gate = FakeRuntime(language, **sizes), Gate()
    runtime.before_step = gate
    return runtime, gate


def tokens(future: Future[SequenceResult]) -> tuple[int, ...]:
    return future.result(WAIT_S).hypotheses[0].tokens


def check_many_widths(pool: Dispatcher) -> None:
    """From many threads, at different beam widths, a pool that babbles says what the slow reference says."""
    failures: list[object] = []

    def client(number: int) -> None:
        options = DecodingOptions(beam_size=(1, 2, 4)[number % 3], max_decoding_length=20)
        sources = [(10 + number, 20 + n, 30) for n in range(6)]
        for source, future in zip(sources, pool.submit(str(number), sources, options), strict=True):
            expected = slow.decode(babble, source, options, 512)[0].tokens
            if tokens(future) != expected:
                failures.append(source)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert failures == []


def check_nothing_is_left_to_the_collector(pool: Dispatcher) -> None:
    """What a sentence consists of goes when nobody refers to it, not when circles are looked for."""
    gc.collect()
    gc.disable()
    try:
        futures = pool.submit("a", [(7, 10 + n) for n in range(6)], DecodingOptions(max_decoding_length=5))
        ends = [weakref.ref(future) for future in futures]
        for _ in ends:
            assert tokens(futures.pop())
        wait_for(lambda: not any(end() for end in ends))
    finally:
        gc.enable()


def check_that_who_has_nothing_to_do_gives_memory_back(pool: Dispatcher) -> None:
    """With `worker.IDLE_S` short, and more than once; meanwhile it keeps what it has."""
    for _ in range(3):
        futures = pool.submit("a", [(7, 10 + n) for n in range(6)], DecodingOptions(max_decoding_length=5))
        each = [tokens(future) for future in futures]
        assert pool.stats().kv_cache_bytes > 0
        wait_for(lambda: pool.stats().kv_cache_bytes == 0)
        assert all(each)
        assert pool.stats().alive
