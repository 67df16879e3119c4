"""Refusing translations that nobody has time to read: what overload asks most of is the event loop.

Parsing a request, calling the application and writing its refusal take half a millisecond of it. At four
times what a small model can do that is more than there is: of 420 translations a second 180 were left. So
while the event loop is behind and the line is full, a request that has come in one piece is refused without
any of that, in an eighth of a millisecond, and 350 are left.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from starlette.responses import Response

from server.api.ordinary import read_head
from server.api.trace_context import read_traceparent
from server.errors import QueueFullError

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class Unread:
    """What is looked at of a request that is not read.

    Attributes:
        request_id: that the client gave it, if it did.
        traceparent: of the client, if it sent a good one.
        body_bytes: of its body.
    """

    request_id: str | None
    traceparent: str | None
    body_bytes: int


class Shedding:
    """Knows when to refuse a request unread, and how. Used from one event loop."""

    def __init__(
        self,
        check_room: Callable[[int], None],
        refuse: Callable[[Unread, QueueFullError], Response],
    ) -> None:
        """Keep what is needed.

        Args:
            check_room: given the requests that are under way, raises QueueFullError if another translation
                should not be read.
            refuse: given a request and why it is refused, notes that and gives the answer.
        """
        self._check_room = check_room
        self._refuse = refuse

    def answer(self, data: bytes, headers: Sequence[tuple[bytes, bytes]], under_way: int) -> bytes | None:
        """Answer what a client has sent, if it is one translation, whole, and is to be refused.

        Args:
            data: all that came since the last answer on this connection.
            headers: that every answer has.
            under_way: requests that were parsed and have not ended.

        Returns:
            The answer, after which the connection is as it was before the request; None for all else.
        """
        try:
            self._check_room(under_way)
        except QueueFullError as error:
            request = _look_at(data)
            return None if request is None else _written(self._refuse(request, error), headers)
        return None


def _look_at(data: bytes) -> Unread | None:
    """Look at one whole, ordinary translation request; None is anything else."""
    head = read_head(data)
    if head is None or len(data) != head.size + head.body_bytes:
        return None
    headers = dict(reversed(head.headers))  # of those that occur twice, the first
    if b"origin" in headers:  # it changes the answer: the ordinary way knows how
        return None
    request_id, traceparent = headers.get(b"x-request-id", b""), headers.get(b"traceparent")
    return Unread(
        str(request_id, "ascii") if _REQUEST_ID.fullmatch(request_id) else None,
        None if traceparent is None else read_traceparent(traceparent),
        head.body_bytes,
    )


def _written(response: Response, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    status = HTTPStatus(response.status_code)
    lines = [b"HTTP/1.1 %d %s" % (status, status.phrase.encode())]
    lines += [b"%s: %s" % header for header in (*headers, *response.raw_headers)]
    return b"\r\n".join([*lines, b"", bytes(response.body)])
