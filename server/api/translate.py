"""`POST /translate` and `POST /detect`."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from server.api.access import Access
from server.api.body import MEDIA_TYPES, Fields, parse_fields, read_body
from server.api.glossary import read_glossary
from server.api.schemas import (
    TRANSLATE_SCHEMA,
    DetectedLanguage,
    DetectFields,
    ErrorAnswer,
    TranslateAnswer,
    read_detect_fields,
    read_translate_fields,
    translate_answer,
)
from server.errors import InvalidRequestError
from server.http.lifecycle import Lifecycle
from server.http.protocol import unless_disconnected
from server.http.request_record import RequestRecord, record_of
from server.service.text.options import TextOptions
from server.service.translation.request import Translation, TranslationRequest
from server.service.translation.router import Router

TRANSLATE_PATH = "/translate"

_READ_HEADERS = {
    name.encode(): name
    for name in ("content-length", "content-type", "content-encoding", "x-request-timeout-ms")
}
_MAX_TIMEOUT_DIGITS = 9
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request cannot be served as it is written."},
    401: {"model": ErrorAnswer, "description": "The server wants an API key."},
    403: {"model": ErrorAnswer, "description": "The API key is not one of the server's."},
    413: {"model": ErrorAnswer, "description": "The body is too large."},
    415: {"model": ErrorAnswer, "description": "The body is neither JSON nor a form, or has a file."},
    429: {
        "model": ErrorAnswer,
        "description": "The queue is full, or this client sent its share; wait for `Retry-After` seconds.",
    },
    503: {"model": ErrorAnswer, "description": "Loading, draining or out of order."},
    504: {"model": ErrorAnswer, "description": "The deadline passed."},
}


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def documented(fields: type[BaseModel]) -> dict[str, Any]:
    """Describe a request's fields for OpenAPI, as JSON and as a form."""
    schema = fields.model_json_schema()
    schema = _inlined(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in MEDIA_TYPES}}}


def _inlined(value: Any, definitions: Mapping[str, Any]) -> Any:
    """Write definitions where they are named: in the whole document their names would lead nowhere."""
    if isinstance(value, list):
        return [_inlined(one, definitions) for one in value]
    if not isinstance(value, dict):
        return value
    name = str(value.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions:
        return _inlined(definitions[name], definitions)
    return {key: _inlined(one, definitions) for key, one in value.items()}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was read.

    Attributes:
        job: its texts, options and deadline.
        work: has a model answer it.
        answer: gives the result the caller's shape.
    """

    job: TranslationRequest
    work: Callable[[], Coroutine[Any, Any, Translation]]
    answer: Callable[[Translation], dict[str, Any]]


class TextEndpoint(ABC):
    """Answers requests that bring texts for a model. Used from the event loop.

    It is plain ASGI: FastAPI documents it and can route to it, but two thirds of what a request costs the
    event loop would be spent between FastAPI's layers.
    """

    def __init__(
        self,
        router: Router,
        lifecycle: Lifecycle,
        request_timeout_s: float,
        max_body_bytes: int,
        check_room: Callable[[int], None],
        access: Access | None = None,
    ) -> None:
        """Keep what is needed.

        Args:
            router: knows who does the work.
            lifecycle: says whether requests are accepted.
            request_timeout_s: longest deadline of a request.
            max_body_bytes: largest body that is read.
            check_room: given the requests that were taken on, raises QueueFullError if another should not be
                read.
            access: who may send how much; None for everybody and anything.
        """
        self.router = router
        self._lifecycle = lifecycle
        self._request_timeout_s = request_timeout_s
        self._max_body_bytes = max_body_bytes
        self._check_room = check_room
        self._access = access

    @abstractmethod
    def ask(
        self, given: Fields, record: RequestRecord, request_id: str, deadline_s: float, *, typed: bool
    ) -> Asked:
        """Read the fields of a request.

        Args:
            given: the fields.
            record: of the request.
            request_id: unique among the requests in flight.
            deadline_s: monotonic time at which it ends.
            typed: whether numbers must be numbers (JSON), or come as strings (form and query).

        Raises:
            InvalidRequestError: a field is missing or of the wrong type, or cannot be served.
        """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request as an ASGI application."""
        response = await self.answer(scope, receive)
        await response(scope, receive, send)

    async def answer(self, scope: Scope, receive: Receive) -> Response:
        """Read a request and have it answered.

        Raises:
            DragomanError: the request cannot be served; the middleware knows how to say so.
            ClientDisconnectedError: the client went away.
        """
        record, access = record_of(scope), self._access
        self._lifecycle.check_accepting()
        client = None if access is None else access.authenticate(scope)
        self._check_room(self._lifecycle.active)
        headers = _headers(scope)
        given, typed = await self.read(scope, headers, receive)
        if access is not None:
            client = access.admit(scope, given, client)
        # Two clients may send the same id at the same time.
        request_id = f"{record.request_id}/{id(record):x}"
        asked = self.ask(given, record, request_id, record.started_s + self._time(headers), typed=typed)
        record.texts = len(asked.job.texts)
        record.stages_s["parse"] = time.monotonic() - record.started_s

        with self._lifecycle.admit():

            def record_disconnect() -> None:
                record.disconnect_phase = self.router.phase(request_id)

            def answered() -> Coroutine[Any, Any, Translation]:
                return unless_disconnected(scope, asked.work(), record_disconnect)

            if access is None or client is None:
                translation = await answered()
            else:
                with access.charge(client, sum(map(len, asked.job.texts))):
                    translation = await answered()
        _record(record, translation)
        return _json(asked.answer(translation), _answer_headers(record))

    async def read(self, scope: Scope, headers: Mapping[str, str], receive: Receive) -> tuple[Fields, bool]:
        """Read the fields of a request, and whether they are typed; errors are those of `body`."""
        body = await read_body(scope, receive, headers.get("content-length"), self._max_body_bytes)
        return parse_fields(body, headers, scope["query_string"])

    def _time(self, headers: Mapping[str, str]) -> float:
        """Seconds for a request: the client may ask for less than the server allows, never for more."""
        asked = headers.get("x-request-timeout-ms")
        if asked is None:
            return self._request_timeout_s
        if not (asked.isascii() and asked.isdigit() and len(asked) <= _MAX_TIMEOUT_DIGITS and int(asked) > 0):
            raise InvalidRequestError(
                "X-Request-Timeout-Ms must be a whole number of milliseconds, at least 1"
            )
        return min(self._request_timeout_s, int(asked) / 1000)


class TranslateEndpoint(TextEndpoint):
    """Answers `POST /translate`. Used from the event loop.

    Attributes:
        text_defaults: how texts are treated where a request does not choose.
    """

    text_defaults = TextOptions()

    def ask(
        self, given: Fields, record: RequestRecord, request_id: str, deadline_s: float, *, typed: bool
    ) -> Asked:
        """Read the fields of a request."""
        fields = read_translate_fields(given, typed=typed)
        job = TranslationRequest(
            request_id=request_id,
            texts=fields.texts,
            source=fields.source,
            target=fields.target,
            deadline_s=deadline_s,
            options=fields.requested_options(),
            is_html=fields.format == "html",
            text_options=fields.text_options(self.text_defaults),
            glossary=None if fields.glossary is None else read_glossary(fields.glossary),
        )
        explained = job.text_options if job.text_options.explains else None
        return Asked(
            job,
            lambda: self.router.translate(job),
            lambda found: translate_answer(fields, found, explained),
        )


def translate_routes(
    endpoint: TranslateEndpoint, router: Router, lifecycle: Lifecycle, access: Access | None = None
) -> APIRouter:
    """Build the routes that take text: `POST /translate`, answered by `endpoint`, and `POST /detect`."""
    routes = APIRouter(tags=["translate"])

    @routes.post(
        TRANSLATE_PATH,
        summary="Translate a text, or an array of texts as one batch",
        response_model=TranslateAnswer,
        responses=ERRORS,
        openapi_extra=documented(TRANSLATE_SCHEMA),
    )
    async def translate(request: Request) -> Response:
        """LibreTranslate's request as JSON, urlencoded form or query string, with decoding options."""
        return await endpoint.answer(request.scope, request.receive)

    @routes.post(
        "/detect",
        summary="Guess which served language a text is written in",
        response_model=list[DetectedLanguage],
        responses=ERRORS,
        openapi_extra=documented(DetectFields),
    )
    async def detect(request: Request) -> Response:
        """All served languages with a confidence of 0 to 100, likeliest first."""
        lifecycle.check_accepting()
        client = None if access is None else access.authenticate(request.scope)
        given, typed = await endpoint.read(request.scope, _headers(request.scope), request.receive)
        if access is not None:
            client = access.admit(request.scope, given, client)
        fields = read_detect_fields(given, typed=typed)
        with lifecycle.admit():
            found = await router.detect(fields.q)
        if access is not None and client is not None:
            access.count(client, "admitted")
        return _json([{"confidence": d.confidence, "language": d.language} for d in found])

    return routes


def _headers(scope: Scope) -> dict[str, str]:
    """The headers that matter here, by name; of one that occurs several times, the first."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        if name in _READ_HEADERS:
            found.setdefault(_READ_HEADERS[name], str(value, "latin-1"))
    return found


def _record(record: RequestRecord, translation: Translation) -> None:
    record.work = translation.work
    if record.model is None:
        record.pair = translation.source, translation.target, translation.pivot or ""
    record.stages_s.update(translation.work.stages_s)


def _answer_headers(record: RequestRecord) -> dict[str, str]:
    """Say where the time went, and how many of the sentences were in the cache."""
    timing, cached, sentences = _server_timing(record), record.work.cached, record.work.sentences
    if cached is None:
        return {"Server-Timing": timing}
    found = "miss" if not cached else "hit" if cached == sentences else "partial"
    return {
        "Server-Timing": f'{timing}, cache;desc="{cached}/{sentences}"',
        "X-Cache": found,
    }


def _server_timing(record: RequestRecord) -> str:
    """Write milliseconds per stage, of the slowest sentence each; `total` is from the headers' arrival on."""
    stages = ", ".join(f"{stage};dur={1000 * stage_s:.2f}" for stage, stage_s in record.stages_s.items())
    return f"{stages}, total;dur={1000 * (time.monotonic() - record.started_s):.2f}"


def _json(value: Any, headers: dict[str, str] | None = None) -> Response:
    body = _encode(value).encode("utf-8")
    return Response(body, headers=headers, media_type="application/json")
