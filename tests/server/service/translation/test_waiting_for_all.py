import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from server.engine.sequence import Hypothesis, SequenceResult
from server.errors import AbortedError, DeadlineExceededError, InferenceError
from server.service.translation.cached_decoding import wait_for_all

SOON_S = 20.0


def result(number: int) -> SequenceResult:
    return SequenceResult((Hypothesis((number,), 0.0),), "eos", 1, 1, 0.0, 0.0, 0.0)


def on_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_results_come_in_the_order_of_the_futures() -> None:
    async def main() -> None:
        futures: list[Future[SequenceResult]] = [Future() for _ in range(5)]
        waiting = asyncio.create_task(wait_for_all(futures, SOON_S))
        await asyncio.sleep(0)
        on_a_thread(lambda: [futures[n].set_result(result(n)) for n in (3, 0, 4, 1, 2)])
        assert await waiting == [result(n) for n in range(5)]

    asyncio.run(main())


def test_the_first_failure_ends_the_waiting() -> None:
    async def main() -> None:
        futures: list[Future[SequenceResult]] = [Future(), Future()]
        waiting = asyncio.create_task(wait_for_all(futures, SOON_S))
        await asyncio.sleep(0)
        on_a_thread(lambda: futures[1].set_exception(InferenceError("the run failed")))
        with pytest.raises(InferenceError):
            await waiting
        futures[0].set_result(result(0))  # late, and of no interest
        await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_cancelled_future_is_an_abort() -> None:
    async def main() -> None:
        future: Future[SequenceResult] = Future()
        future.cancel()
        with pytest.raises(AbortedError):
            await wait_for_all([future], SOON_S)

    asyncio.run(main())


def test_the_time_is_bounded() -> None:
    async def main() -> None:
        with pytest.raises(DeadlineExceededError):
            await wait_for_all([Future()], 0.01)

    asyncio.run(main())


def test_many_threads_and_many_requests_lose_nothing() -> None:
    async def main() -> None:
        requests: list[list[Future[SequenceResult]]] = [[Future() for _ in range(3)] for _ in range(300)]
        flat = [future for futures in requests for future in futures]

        def end(start: int) -> None:
            for future in flat[start::4]:
                future.set_result(result(1))

        threads = [threading.Thread(target=end, args=(start,)) for start in range(4)]
        tasks = [asyncio.create_task(wait_for_all(futures, SOON_S)) for futures in requests]
        await asyncio.sleep(0)
        for thread in threads:
            thread.start()
        assert all(len(found) == 3 for found in await asyncio.gather(*tasks))
        for thread in threads:
            thread.join()

    asyncio.run(main())


def test_ends_after_the_loop_are_looked_over() -> None:
    futures: list[Future[SequenceResult]] = [Future()]

    async def main() -> None:
        with pytest.raises(DeadlineExceededError):
            await wait_for_all(futures, 0.0)

    asyncio.run(main())
    futures[0].set_result(result(0))
    assert futures[0].result() == result(0)
