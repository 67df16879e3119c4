"""Errors as HTTP: the one table from reasons to status codes, and the one body every error has."""

import json
import math
import random
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from server.errors import DragomanError, MalformedBodyError, OverloadedError, RateLimitedError
from server.http.request_record import record_of

STATUS = {
    "invalid_request": 400,
    "malformed": 400,
    "invalid_option": 400,
    "unsupported_language": 400,
    "too_many_texts": 400,
    "text_too_long": 400,
    "missing_key": 401,
    "bad_key": 403,
    "forbidden": 403,
    "not_found": 404,
    "unknown_model": 404,
    "method_not_allowed": 405,
    "reload_in_progress": 409,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "bundle_refused": 422,
    "glossary_refused": 422,
    "overloaded": 429,
    "rate_limited": 429,
    "quota_exceeded": 429,
    "queue_full": 429,
    "headers_too_large": 431,
    "client_disconnected": 499,  # never sent; nginx' number for logs and metrics
    "internal": 500,
    "reload_failed": 500,
    "unavailable": 503,
    "not_ready": 503,
    "draining": 503,
    "out_of_memory": 503,
    "engine_dead": 503,
    "aborted": 503,
    "deadline_exceeded": 504,
}
_MAX_MESSAGE_CHARS = 500
_UNAVAILABLE_RETRY_S = 5.0
_JITTER = 0.2


class ClientDisconnectedError(Exception):
    """The client went away; there is nobody to answer, so no handler turns this into a response."""


class AmbiguousFramingError(MalformedBodyError):
    """It is not certain where the body ends, so the connection cannot be used any further."""


class HeadersTooLargeError(DragomanError):
    """The request has too many headers, or too large ones."""

    reason = "headers_too_large"


def error_body(message: str, code: str, request_id: str) -> bytes:
    """Build the body of every error. It is flat because LibreTranslate's clients read `error` as a string.

    Args:
        message: one sentence for a person, without any of the input.
        code: the reason, for programs.
        request_id: for finding it in the log.

    Returns:
        JSON of at most 4 KiB.
    """
    body = {"error": message[:_MAX_MESSAGE_CHARS], "code": code, "request_id": request_id}
    return json.dumps(body).encode("ascii")


def reason_of(error: BaseException) -> str:
    """Name an exception by a key of `STATUS`; `internal` for what is not ours."""
    if isinstance(error, HTTPException):
        phrase = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
        return phrase if phrase in STATUS else "invalid_request"
    if isinstance(error, ClientDisconnectedError):
        return "client_disconnected"
    reason = error.reason if isinstance(error, DragomanError) else "internal"
    return reason if reason in STATUS else "internal"


def response_for(error: Exception, request_id: str) -> Response:
    """Turn an exception into what the client sees; anything unknown becomes `internal` without details."""
    reason = reason_of(error)
    message, headers = str(error), {"Cache-Control": "no-store"}
    if isinstance(error, HTTPException):
        message = HTTPStatus(error.status_code).phrase
        headers |= error.headers or {}
    elif reason == "internal":
        message = "internal error; the server's log has the details"
    elif STATUS[reason] in (429, 503):
        delay_s = error.retry_after_s if isinstance(error, OverloadedError) else _UNAVAILABLE_RETRY_S
        if not isinstance(error, RateLimitedError):
            # Spread, so that refused clients do not come back all at once. What one client has used up comes
            # back at a known time, and nobody else waits for it.
            delay_s = min(3600.0, delay_s * random.uniform(1 - _JITTER, 1 + _JITTER))
        headers["Retry-After"] = str(max(1, math.ceil(delay_s)))
    if reason in ("draining", "body_too_large") or isinstance(error, AmbiguousFramingError):
        # While draining, so that the client's next attempt reaches another replica. Of a body that was
        # refused the end is not waited for, and a next request would be behind it.
        headers["Connection"] = "close"
    if reason == "missing_key":
        headers["WWW-Authenticate"] = "Bearer"
    if reason == "unsupported_media_type":
        headers["Accept-Encoding"] = "identity"
    body = error_body(message, reason, request_id)
    return Response(body, STATUS[reason], headers=headers, media_type="application/json")


async def handle_error(request: Request, error: Exception) -> Response:
    """Answer an exception that a route let through; registered for all of our own and for routing errors."""
    record = record_of(request.scope)
    record.error = error
    return response_for(error, record.request_id)
