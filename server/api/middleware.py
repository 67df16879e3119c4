"""Pure ASGI middleware that notes, logs, counts, and answers what went wrong.

Starlette's `BaseHTTPMiddleware` is not used: with it `http.disconnect` never arrives.
"""

import asyncio
import logging
import random
import re
import time
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.tracing import Tracing, read_traceparent
from server.errors import DragomanError, DrainingError
from server.http.errors import (
    AmbiguousFramingError,
    ClientDisconnectedError,
    HeadersTooLargeError,
    reason_of,
    response_for,
)
from server.http.request_record import RequestRecord, attach
from server.metrics.registry import Metrics

access_log = logging.getLogger("dragoman.access")
error_log = logging.getLogger("dragoman.error")

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_FRAMINGS = (b"content-length", b"transfer-encoding")
_MAX_HEADERS = 100
_DROPPED = "the server shut down before the translation was ready"
_TRACED = ("/translate", "/generate", "/detect")
_MAX_HEADER_BYTES = 16384


class RequestMiddleware:
    """Gives every request an id, a log line and its metrics; answers what nobody else caught."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, route: str | None = None, tracing: Tracing | None = None
    ) -> None:
        """Wrap an application.

        Args:
            app: what is called.
            metrics: where requests are counted.
            route: template of the only route that `app` serves; None if a router in it finds one.
            tracing: makes spans of translations; None makes none.
        """
        self._app = app
        self._metrics = metrics
        self._route = route
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        target_bytes = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        request_id, traceparent, fault = _read_headers(scope["headers"], target_bytes)
        record = RequestRecord(request_id, traceparent)
        attach(scope, record)

        async def send_noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                headers = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
                message = {**message, "headers": headers}
            await send(message)

        self._metrics.requests_in_flight.inc()
        try:
            if fault is not None:
                raise fault
            await self._app(scope, receive, send_noted)
        except ClientDisconnectedError as error:
            record.error = error
        except (Exception, asyncio.CancelledError) as error:
            record.error = DrainingError(_DROPPED) if isinstance(error, asyncio.CancelledError) else error
            if record.status:
                raise  # half an answer is out; the server can only close the connection
            await response_for(record.error, request_id)(scope, receive, send_noted)
        finally:
            self._metrics.requests_in_flight.dec()
            self._finish(scope, record)

    def _finish(self, scope: Scope, record: RequestRecord) -> None:
        duration_s = time.monotonic() - record.started_s
        status = record.status or 499
        route = self._route or getattr(scope.get("route"), "path", None)
        if route is None and "endpoint" in scope:
            route = scope["path"]  # FastAPI's own /docs and /openapi.json, which have no parameters
        reason = None
        if record.error is not None:
            reason = reason_of(record.error)
            if reason == "internal" and isinstance(record.error, Exception):
                error_log.error(
                    "request failed", exc_info=record.error, extra={"request_id": record.request_id}
                )
            self._metrics.rejected(route, reason)
        if record.disconnect_phase is not None:
            self._metrics.disconnected(record.disconnect_phase)
        for stage, stage_s in record.stages_s.items():
            if stage != "queue":  # has a series of its own, per sentence
                self._metrics.stage(stage, stage_s)
        if record.pair is not None:
            self._metrics.models.translated(record.pair)
        for (found, outcome), times in record.work.guards.items():
            self._metrics.guarded(found, outcome, times)
        self._metrics.answered(route, scope["method"], status, duration_s, record.body_bytes)
        if self._tracing is not None and route in _TRACED:
            self._tracing.request_ended(record, scope["method"], route, status, reason)
        _log(scope["method"], route, status, reason, duration_s, record)


def _read_headers(
    headers: Sequence[tuple[bytes, bytes]], size: int
) -> tuple[str, str | None, DragomanError | None]:
    """Find the request's id, or make one, and its trace; check number and size, to which theirs is added."""
    request_id = traceparent = None
    # The parser's own limit holds for headers that arrive in parts, not for those that come in one read.
    framings = set()
    for name, value in headers:
        size += len(name) + len(value)
        if name in _FRAMINGS:
            framings.add(name)
        elif name == b"x-request-id" and request_id is None and _REQUEST_ID.fullmatch(value):
            request_id = str(value, "ascii")
        elif name == b"traceparent" and traceparent is None:
            traceparent = read_traceparent(value)
    fault: DragomanError | None = None
    if len(framings) > 1:
        # Two ways to find the body's end, and a proxy before us may choose the other one: request smuggling.
        fault = AmbiguousFramingError("Content-Length and Transfer-Encoding exclude each other")
    elif len(headers) > _MAX_HEADERS or size > _MAX_HEADER_BYTES:
        fault = HeadersTooLargeError(f"more than {_MAX_HEADERS} headers or {_MAX_HEADER_BYTES} bytes of them")
    return request_id or _new_id(), traceparent, fault


def _new_id() -> str:
    return f"{random.getrandbits(64):016x}"


def _log(
    method: str, route: str | None, status: int, reason: str | None, duration_s: float, r: RequestRecord
) -> None:
    # Probes and scrapes come every few seconds and say nothing when they succeed.
    quiet = status < 400 and route in ("/livez", "/readyz", "/health", "/metrics")
    level = logging.DEBUG if quiet else logging.INFO
    if not access_log.isEnabledFor(level):
        return
    fields: dict[str, object] = {
        "request_id": r.request_id,
        "method": method if method.isalpha() and len(method) < 10 else "_OTHER",
        "route": route or "<unmatched>",
        "code": status,
        "duration_ms": round(1000 * duration_s, 2),
    }
    fields |= {
        "traceparent": r.traceparent,
        "reason": reason,
        "key": r.key,
        "disconnect_phase": r.disconnect_phase,
        **dict(zip(("source", "target", "pivot"), r.pair or (), strict=False)),
        "model": r.model,
        "cached": r.work.cached,
    }
    fields = {name: value for name, value in fields.items() if value not in (None, "")}
    if r.work.guards:
        fields["guards"] = {
            f"{reason}_{outcome}": times for (reason, outcome), times in r.work.guards.items()
        }
    if r.texts:
        fields |= {
            "body_bytes": r.body_bytes,
            "texts": r.texts,
            "sentences": r.work.sentences,
            "source_tokens": r.work.source_tokens,
            "target_tokens": r.work.target_tokens,
            "finish_reasons": dict(r.work.finish_reasons),
            **{f"{stage}_ms": round(1000 * stage_s, 2) for stage, stage_s in r.stages_s.items()},
        }
    access_log.log(level, "request", extra=fields)
