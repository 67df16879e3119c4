import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import pytest

from server.engine.sequence import Hypothesis, SequenceResult
from server.errors import AbortedError, DeadlineExceededError, InferenceError
from server.service.translation.cached_decoding import CompletionNotifier

SOON_S = 20.0


def result(number: int) -> SequenceResult:
    return SequenceResult((Hypothesis((number,), 0.0),), "eos", 1, 1, 0.0, 0.0, 0.0)


def on_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def run(test: Callable[[CompletionNotifier], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await test(CompletionNotifier())

    return asyncio.run(main())


def test_results_come_in_the_order_of_the_futures() -> None:
    async def test(notifier: CompletionNotifier) -> None:
        futures: list[Future[SequenceResult]] = [Future() for _ in range(5)]
        waiting = asyncio.create_task(notifier.wait(futures, SOON_S))
        await asyncio.sleep(0)
        on_a_thread(lambda: [futures[n].set_result(result(n)) for n in (3, 0, 4, 1, 2)])
        assert await waiting == [result(n) for n in range(5)]

    run(test)


def test_what_ends_together_wakes_the_loop_once() -> None:
    async def test(notifier: CompletionNotifier) -> None:
        loop, wakes = asyncio.get_running_loop(), []
        wake = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *call: (wakes.append(call), wake(*call))[1]  # type: ignore[method-assign]
        requests: list[list[Future[SequenceResult]]] = [[Future(), Future()] for _ in range(10)]
        tasks = [asyncio.create_task(notifier.wait(futures, SOON_S)) for futures in requests]
        await asyncio.sleep(0)
        # The loop is held here, as it is while it does something else.
        on_a_thread(lambda: [future.set_result(result(1)) for futures in requests for future in futures])
        await asyncio.gather(*tasks)
        assert len(wakes) == 1

    run(test)


def test_the_first_failure_ends_the_waiting() -> None:
    async def test(notifier: CompletionNotifier) -> None:
        futures: list[Future[SequenceResult]] = [Future(), Future()]
        waiting = asyncio.create_task(notifier.wait(futures, SOON_S))
        await asyncio.sleep(0)
        on_a_thread(lambda: futures[1].set_exception(InferenceError("the run failed")))
        with pytest.raises(InferenceError):
            await waiting
        futures[0].set_result(result(0))  # late, and of no interest
        await asyncio.sleep(0.01)

    run(test)


def test_a_cancelled_future_is_an_abort() -> None:
    async def test(notifier: CompletionNotifier) -> None:
        future: Future[SequenceResult] = Future()
        future.cancel()
        with pytest.raises(AbortedError):
            await notifier.wait([future], SOON_S)

    run(test)


def test_the_time_is_bounded() -> None:
    async def test(notifier: CompletionNotifier) -> None:
        with pytest.raises(DeadlineExceededError):
            await notifier.wait([Future()], 0.01)

    run(test)


def test_many_threads_and_many_requests_lose_nothing() -> None:
    async def test(notifier: CompletionNotifier) -> None:
        requests: list[list[Future[SequenceResult]]] = [[Future() for _ in range(3)] for _ in range(300)]
        flat = [future for futures in requests for future in futures]

        def end(start: int) -> None:
            for future in flat[start::4]:
                future.set_result(result(1))

        threads = [threading.Thread(target=end, args=(start,)) for start in range(4)]
        tasks = [asyncio.create_task(notifier.wait(futures, SOON_S)) for futures in requests]
        await asyncio.sleep(0)
        for thread in threads:
            thread.start()
        assert all(len(found) == 3 for found in await asyncio.gather(*tasks))
        for thread in threads:
            thread.join()

    run(test)


def test_ends_after_the_loop_are_looked_over() -> None:
    futures: list[Future[SequenceResult]] = [Future()]

    async def test(notifier: CompletionNotifier) -> None:
        with pytest.raises(DeadlineExceededError):
            await notifier.wait(futures, 0.0)

    run(test)
    futures[0].set_result(result(0))
    assert futures[0].result() == result(0)
