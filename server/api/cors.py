"""Pages of other sites that may use the server from a browser. Off unless the operator names them."""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.api.middleware import RequestMiddleware
from server.errors import InvalidRequestError
from server.metrics.registry import PREFLIGHT_ROUTE, Metrics

_METHODS = ("GET", "HEAD", "POST")
_REQUEST_HEADERS = ("Authorization", "Content-Type", "X-Request-ID", "X-Request-Timeout-Ms", "traceparent")
_ANSWER_HEADERS = ("Retry-After", "Server-Timing", "X-Cache", "X-Request-ID")
_REMEMBERED_S = 600


class CrossOriginMiddleware:
    """Starlette's CORS, around everything that answers, errors too. Used from the event loop.

    Cookies are never allowed: keys are what opens this server, and a page has to be given one.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str], metrics: Metrics) -> None:
        """Wrap an application that gives every request its id.

        Args:
            app: what is called.
            origins: that may read answers; `*` is any.
            metrics: where preflights are counted, which never reach `app`.
        """
        self._cors = _Cors(
            app,
            allow_origins=tuple(origins),
            allow_methods=_METHODS,
            allow_headers=_REQUEST_HEADERS,
            expose_headers=_ANSWER_HEADERS,
            max_age=_REMEMBERED_S,
        )
        self._preflight = RequestMiddleware(self._cors, metrics, PREFLIGHT_ROUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        await (self._preflight if _is_preflight(scope) else self._cors)(scope, receive, send)


class _Cors(CORSMiddleware):
    def preflight_response(self, request_headers: Headers) -> Response:
        """Answer a preflight; what is not allowed gets the body that every error has."""
        response = super().preflight_response(request_headers)
        if response.status_code != 200:
            raise InvalidRequestError(f"{bytes(response.body).decode()} (see cors_origins)")
        return response


def _is_preflight(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "OPTIONS":
        return False
    names = {name for name, _ in scope["headers"]}
    return b"origin" in names and b"access-control-request-method" in names
