"""What is noted about a request for its log line and the metrics. Never any of its text."""

import time
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from server.service.translation.request import Work

_KEY = "dragoman.record"


@dataclass(slots=True)
class RequestRecord:
    """Notes about one request; written by the middleware and the route that handles it.

    Attributes:
        request_id: accepted from the client or made here; on every answer and log line.
        traceparent: of the client, if it sent a good one; once traced, that of the request's own span.
        started_s: monotonic time at which its headers were parsed.
        body_bytes: bytes of the body read so far.
        status: status sent, 0 until then.
        error: what was raised, if anything.
        key: name of the API key it came with, never the key itself.
        disconnect_phase: set if the client went away: `receiving`, `queued` or `running`.
        texts: texts to translate.
        pair: source and target language of a translation, and the language between them or nothing.
        model: name of the model, where the client chooses it.
        work: what its translation has cost.
        stages_s: seconds in each stage.
    """

    request_id: str
    traceparent: str | None = None
    started_s: float = field(default_factory=time.monotonic)
    body_bytes: int = 0
    status: int = 0
    error: BaseException | None = None
    key: str | None = None
    disconnect_phase: str | None = None
    texts: int = 0
    pair: tuple[str, str, str] | None = None
    model: str | None = None
    work: Work = field(default_factory=Work)
    stages_s: dict[str, float] = field(default_factory=dict)


def record_of(scope: MutableMapping[str, Any]) -> RequestRecord:
    """Find the record of a request whose scope has passed the middleware."""
    record = scope[_KEY]
    assert isinstance(record, RequestRecord)
    return record


def attach(scope: MutableMapping[str, Any], record: RequestRecord) -> None:
    """Put a record into a scope, where `record_of` finds it."""
    scope[_KEY] = record
