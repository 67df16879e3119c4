"""Stops work whose client has gone away: uvicorn does not cancel a handler, it only tells who listens."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from starlette.types import Receive, Scope

from server.http.errors import ClientDisconnectedError

T = TypeVar("T")

EXTENSION = "dragoman.on_disconnect"
"""Our protocol's ASGI extension: takes what to call when the connection is lost, None for nothing more."""
FAULT_EXTENSION = "dragoman.fault"
"""Another: gives what is wrong with the framing of the request's body, None as long as nothing is."""


async def unless_disconnected(
    scope: Scope, receive: Receive, work: Coroutine[Any, Any, T], on_disconnect: Callable[[], None]
) -> T:
    """Await work, or cancel it as soon as the client goes away.

    The work runs in the caller's own task. Our protocol calls back when it loses the connection; under any
    other server a second task listens, which costs a tenth of all that a request costs the event loop.

    Args:
        scope: ASGI scope.
        receive: ASGI channel of a request whose body has been read: all that may come is `http.disconnect`.
        work: what the client waits for.
        on_disconnect: called before the work is cancelled.

    Returns:
        The result of the work.

    Raises:
        ClientDisconnectedError: the client went away first.
    """
    caller = asyncio.current_task()
    assert caller is not None
    gone = False

    def leave() -> None:
        # The caller waits inside `work` whenever this is called: the watch ends with it, see below.
        nonlocal gone
        gone = True
        on_disconnect()
        caller.cancel()

    with _watching(scope, receive, leave):
        try:
            return await work
        except asyncio.CancelledError:
            if not gone:
                raise
            caller.uncancel()
            raise ClientDisconnectedError("the client went away") from None


@contextlib.contextmanager
def _watching(scope: Scope, receive: Receive, leave: Callable[[], None]) -> Iterator[None]:
    """Call `leave` if the client goes away while the block runs, and never afterwards."""
    register = (scope.get("extensions") or {}).get(EXTENSION)
    if register is not None:
        register(leave)
        try:
            yield
        finally:
            register(None)
        return
    listener = asyncio.create_task(_listen(receive, leave))
    try:
        yield
    finally:
        listener.cancel()  # comes before its next turn, and a cancelled task calls nothing


async def _listen(receive: Receive, leave: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    leave()
