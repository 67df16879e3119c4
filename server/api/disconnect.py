"""Stops work whose client has gone away: uvicorn does not cancel a handler, it only tells who listens."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from server.api.errors import ClientDisconnectedError

T = TypeVar("T")


async def unless_disconnected(
    receive: Receive, work: Coroutine[Any, Any, T], on_disconnect: Callable[[], None]
) -> T:
    """Await work, or cancel it as soon as the client goes away.

    Args:
        receive: ASGI channel of a request whose body has been read: all that may come is `http.disconnect`.
        work: what the client waits for.
        on_disconnect: called before the work is cancelled.

    Returns:
        The result of the work.

    Raises:
        ClientDisconnectedError: the client went away first.
    """
    task = asyncio.ensure_future(work)
    listener = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, listener}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        on_disconnect()
        raise ClientDisconnectedError("the client went away")
    finally:
        for other in (task, listener):
            if not other.done():
                other.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await other


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
