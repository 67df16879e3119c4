"""Early load shedding: an overloaded event loop refuses translations before they cost it more.

The layers of the application and reading a body take longer than writing a refusal. While the event loop is
behind and the queue is full, what comes is refused without any of that.
"""

from collections.abc import Callable

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import QueueFullError


class LoadShedding:
    """ASGI middleware around the translations. Used from one event loop."""

    def __init__(
        self,
        app: ASGIApp,
        check_room: Callable[[int], None],
        refuse: Callable[[Scope, QueueFullError], Response],
    ) -> None:
        """Wrap an application.

        Args:
            app: what is called.
            check_room: given the requests that `app` is handling, raises QueueFullError if another one should
                not be read.
            refuse: given a request and why it is refused, records that and gives the answer.
        """
        self._app = app
        self._check_room = check_room
        self._refuse = refuse
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        # An Origin changes the answer: the application knows how.
        if not any(name == b"origin" for name, _ in scope["headers"]):
            try:
                self._check_room(self._active)
            except QueueFullError as error:
                await self._refuse(scope, error)(scope, receive, send)
                return
        self._active += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._active -= 1
