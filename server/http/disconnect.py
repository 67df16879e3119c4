"""Stops work whose client has gone away: uvicorn does not cancel a handler, it only tells who listens."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.types import Scope

from server.http.errors import ClientDisconnectedError

T = TypeVar("T")

EXTENSION = "dragoman.on_disconnect"
"""Our protocol's ASGI extension: takes what to call when the connection is lost, None for nothing more."""
FAULT_EXTENSION = "dragoman.fault"
"""Another: gives what is wrong with the framing of the request's body, None as long as nothing is."""


async def unless_disconnected(
    scope: Scope, work: Coroutine[Any, Any, T], on_disconnect: Callable[[], None]
) -> T:
    """Await work, or cancel it as soon as the client goes away.

    The work runs in the caller's own task. Our protocol calls back when it loses the connection.

    Args:
        scope: ASGI scope, of our protocol.
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

    register = scope["extensions"][EXTENSION]
    register(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if not gone:
            raise
        caller.uncancel()
        raise ClientDisconnectedError("the client went away") from None
    finally:
        register(None)
