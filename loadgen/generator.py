"""Sends requests at times that were fixed beforehand (open loop), or when an answer came (closed loop).

In an open loop a request's latency counts from the time at which it was meant to be sent. A client that waits
for a slow answer before it sends the next one would leave out just the requests that would have been slow.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Literal

from loadgen.connection import Connection, Target
from loadgen.samples import ANSWERED, Samples

Arrivals = Literal["poisson", "fixed"]
_UNANSWERED = "unanswered"
_DEFAULT_RETRY_S = 1.0


@dataclass(frozen=True)
class Plan:
    """How much is sent, and for how long. Exactly one of `rate` and `clients` is given.

    Attributes:
        seconds: that count.
        warm_s: before them, sent and not counted.
        rate: requests a second of an open loop.
        arrivals: of an open loop, independent of each other or evenly spaced.
        clients: of a closed loop, each sends its next request when it has its answer.
        timeout_s: after which a request is given up.
        retries: how often a request that is answered with 429 or 503 is sent again after its `Retry-After`.
        seed: of the draw of Poisson arrivals; the same seed gives the same times.
    """

    seconds: float
    warm_s: float = 0.0
    rate: float | None = None
    arrivals: Arrivals = "poisson"
    clients: int | None = None
    timeout_s: float = 60.0
    retries: int = 0
    seed: int = 1

    @property
    def end_s(self) -> float:
        """When the last request is sent at the latest."""
        return self.warm_s + self.seconds


def arrival_times(plan: Plan) -> Iterator[float]:
    """Seconds from the beginning at which an open loop sends, always the same ones for a plan."""
    assert plan.rate is not None
    draw, offset_s, number = random.Random(plan.seed), 0.0, 0
    while True:
        if plan.arrivals == "poisson":
            offset_s += draw.expovariate(plan.rate)
        else:
            offset_s = number / plan.rate
            number += 1
        if offset_s >= plan.end_s:
            return
        yield offset_s


class Generator:
    """One run of a load. Used from one event loop.

    Attributes:
        samples: what has come of the requests so far.
        under_way: requests that have not ended.
    """

    def __init__(self, target: Target, bodies: Iterator[bytes], plan: Plan) -> None:
        """Prepare a run.

        Args:
            target: where requests go.
            bodies: of the requests, endless.
            plan: how much and for how long.
        """
        self.samples = Samples()
        self.under_way = 0
        self._target, self._bodies, self._plan = target, bodies, plan
        self._start_s = 0.0
        self._free: list[Connection] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the load began."""
        return time.perf_counter() - self._start_s if self._start_s else 0.0

    async def run(self) -> None:
        """Send everything and wait for the answers; cancelling it leaves `samples` as they are then."""
        self._start_s = time.perf_counter()
        try:
            if self._plan.rate is None:
                for _ in range(self._plan.clients or 1):
                    self._spawn(self._client())
            else:
                await self._arrive()
            await asyncio.gather(*self._tasks)
        finally:
            left = list(self._tasks)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            for connection in self._free:
                connection.close()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _arrive(self) -> None:
        for meant_s in arrival_times(self._plan):
            # Behind its times, too: answers and Ctrl-C must get their turn.
            await asyncio.sleep(max(0.0, meant_s - self.elapsed_s))
            self._spawn(self._one(meant_s, next(self._bodies)))

    async def _client(self) -> None:
        connection = Connection(self._target)
        try:
            while (now_s := self.elapsed_s) < self._plan.end_s:
                await self._request(connection, next(self._bodies), now_s)
        finally:
            connection.close()

    async def _one(self, meant_s: float, body: bytes) -> None:
        connection = self._free.pop() if self._free else Connection(self._target)
        try:
            await self._request(connection, body, meant_s)
        finally:
            self._free.append(connection)

    async def _request(self, connection: Connection, body: bytes, meant_s: float) -> None:
        late_s = self.elapsed_s - meant_s
        kind, words, finished_s = _UNANSWERED, 0, None
        self.under_way += 1
        try:
            async with asyncio.timeout(self._plan.timeout_s):
                answer = await connection.send(body)
                for _ in range(self._plan.retries):
                    if answer.status not in (429, 503):
                        break
                    self.samples.retries += 1
                    delay_s = answer.retry_after_s
                    await asyncio.sleep(_DEFAULT_RETRY_S if delay_s is None else delay_s)
                    answer = await connection.send(body)
            finished_s = self.elapsed_s  # before the answer is read, which may take long
            if answer.status == 200:
                kind, words = ANSWERED, answer.words
            else:
                kind = answer.kind
        except TimeoutError:
            kind = "timeout"
        except ConnectionRefusedError:
            kind = "connection refused"
        except (EOFError, ConnectionError):
            kind = "connection closed"
        except OSError as error:
            kind = f"no connection: {error.strerror or type(error).__name__}"
        except (ValueError, asyncio.LimitOverrunError):
            kind = "unreadable answer"
        finally:
            if kind != ANSWERED and not kind[0].isdigit():
                connection.close()  # an answer may still come, and would be taken for the next one
            self.under_way -= 1
            self.samples.add(kind, meant_s, late_s, finished_s or self.elapsed_s, words)
