"""Spans of translations, sent to an OpenTelemetry collector; loads OpenTelemetry only where that is wanted.

A request's spans are made when it has ended, of the times that its record holds anyway: while it runs,
tracing does nothing.
"""

import re
import threading
import time
from typing import TYPE_CHECKING, Any

from server.errors import SettingError
from server.http.request_record import RequestRecord
from server.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_STAGES = ("parse", "tokenize", "queue", "encode", "decode", "detokenize")
_EXPORT_TIMEOUT_S = 2.0  # of each of the batches that may be left at the end
_CLOSE_TIMEOUT_S = 5.0
_MAX_WAITING = 4096


class Tracing:
    """Makes spans of requests that have ended. Used from the event loop; a thread sends them."""

    def __init__(self, provider: "TracerProvider") -> None:
        """Use a provider whose processor sends what ends."""
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._provider = provider
        self._tracer = provider.get_tracer("dragoman")
        self._propagator = TraceContextTextMapPropagator()

    def request_ended(
        self, record: RequestRecord, method: str, route: str, status: int, reason: str | None
    ) -> None:
        """Make the spans of a request: one for all of it and one for each stage within.

        Of several sentences a stage's span has the time of the slowest, as in `Server-Timing`. The record
        gets the request's own `traceparent`.

        Args:
            record: of the request.
            method: of HTTP.
            route: template.
            status: that was sent, or 499.
            reason: of an error.
        """
        parent = None
        if record.traceparent is not None:
            parent = self._propagator.extract({"traceparent": record.traceparent})
        # The wall clock is looked at once; what is between is monotonic.
        end_ns = time.time_ns()
        start_ns = end_ns - int((time.monotonic() - record.started_s) * 1e9)
        attributes: dict[str, Any] = {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "dragoman.request_id": record.request_id,
            "dragoman.texts": record.texts,
            "dragoman.sentences": record.work.sentences,
            "dragoman.source_tokens": record.work.source_tokens,
            "dragoman.target_tokens": record.work.target_tokens,
        }
        if reason is not None:
            attributes["error.type"] = reason
        root = self._tracer.start_span(
            f"{method} {route}", parent, self._trace.SpanKind.SERVER, attributes, start_time=start_ns
        )
        context = root.get_span_context()
        record.traceparent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        if root.is_recording():
            if status >= 500:
                root.set_status(self._trace.StatusCode.ERROR)
            inside = self._trace.set_span_in_context(root)
            at_ns = start_ns
            for stage in _STAGES:
                if stage in record.stages_s:
                    span = self._tracer.start_span(stage, inside, start_time=at_ns)
                    # The slowest of each stage need not be one sentence: together they may be too long.
                    at_ns = min(end_ns, at_ns + int(record.stages_s[stage] * 1e9))
                    span.end(at_ns)
        root.end(end_ns)

    def close(self) -> None:
        """Send what is left, for some seconds at most; call it on a thread."""
        # A daemon: what a collector never answers would hold up the end of the process, too.
        closing = threading.Thread(target=self._provider.shutdown, name="tracing-close", daemon=True)
        closing.start()
        closing.join(_CLOSE_TIMEOUT_S)


def make_tracing(settings: Settings) -> Tracing | None:
    """Begin to trace if the settings say where to; None if nothing is traced.

    Raises:
        SettingError: OpenTelemetry is not installed.
    """
    if settings.otel_endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError:
        raise SettingError(
            "setting otel_endpoint: OpenTelemetry is not installed; pip install 'dragoman[otel]'"
        ) from None
    provider = TracerProvider(
        resource=Resource.create({"service.name": "dragoman"}),
        sampler=ParentBased(TraceIdRatioBased(settings.otel_sample_ratio)),
        shutdown_on_exit=False,
    )
    url = settings.otel_endpoint.rstrip("/")
    if not url.endswith("/v1/traces"):
        url += "/v1/traces"
    exporter = OTLPSpanExporter(endpoint=url, timeout=_EXPORT_TIMEOUT_S)
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter, max_queue_size=_MAX_WAITING, export_timeout_millis=1e3 * _EXPORT_TIMEOUT_S
        )
    )
    return Tracing(provider)


_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def read_traceparent(value: bytes) -> str | None:
    """Read a `traceparent` header: its first four fields; None if it is none, and is to be ignored."""
    if not 55 <= len(value) <= 256 or not value.isascii():
        return None
    found = _TRACEPARENT.fullmatch(str(value, "ascii"))
    if found is None:
        return None
    version, trace, parent, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(parent, 16):
        return None
    return f"{version}-{trace}-{parent}-{flags}"
