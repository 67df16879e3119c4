import asyncio
import time

from server.http.event_loop_lag import LoopLag


def test_a_loop_that_is_held_up_is_behind_until_it_is_not() -> None:
    seen: list[float] = []

    async def main() -> None:
        lag = LoopLag(seen.append)
        assert not lag.is_behind
        watch = asyncio.create_task(lag.watch())
        await asyncio.sleep(0)
        time.sleep(0.4)
        while not seen:
            await asyncio.sleep(0.001)
        assert lag.is_behind
        assert 0.25 < lag.seconds < 10
        while lag.is_behind:
            await asyncio.sleep(0.01)
        watch.cancel()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert len(seen) >= 2
