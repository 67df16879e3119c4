"""Refusing translations that nobody has time to read: what overload asks most of is the event loop.

Parsing a request, calling the application and writing its refusal take half a millisecond of it. At four
times what a small model can do that is more than there is: of 420 translations a second 180 were left. So
while the event loop is behind and the line is full, a request that has come in one piece is refused without
any of that, in an eighth of a millisecond, and 350 are left.
"""

from collections.abc import Callable, Sequence

from starlette.responses import Response

from server.errors import QueueFullError
from server.http.fast_path import Head, answer_head


class Shedding:
    """Knows when to refuse a request unread, and how. Used from one event loop."""

    def __init__(
        self,
        check_room: Callable[[int], None],
        refuse: Callable[[Head, QueueFullError], Response],
    ) -> None:
        """Keep what is needed.

        Args:
            check_room: given the requests that are under way, raises QueueFullError if another translation
                should not be read.
            refuse: given a request's head and why it is refused, notes that and gives the answer.
        """
        self._check_room = check_room
        self._refuse = refuse

    def answer(self, head: Head, headers: Sequence[tuple[bytes, bytes]], under_way: int) -> bytes | None:
        """Answer an ordinary request of which all has come, if it is to be refused.

        Args:
            head: of the request.
            headers: that every answer has.
            under_way: requests that were parsed and have not ended.

        Returns:
            The answer, after which the connection is as it was before the request; None for all else.
        """
        try:
            self._check_room(under_way)
        except QueueFullError as error:
            if any(name == b"origin" for name, _ in head.headers):
                return None  # it changes the answer: the application knows how
            response = self._refuse(head, error)
            return answer_head(response.status_code, [*headers, *response.raw_headers]) + bytes(response.body)
        return None
