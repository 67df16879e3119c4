"""`POST /translate` and `POST /detect`."""

import json
import time
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.api.body import Fields, parse_fields, read_body
from server.api.disconnect import unless_disconnected
from server.api.errors import ClientDisconnectedError
from server.api.lifecycle import Lifecycle
from server.api.record import RequestRecord, record_of
from server.api.schemas import (
    DetectedLanguage,
    DetectFields,
    ErrorAnswer,
    TranslateAnswer,
    TranslateFields,
    read_detect_fields,
    read_translate_fields,
    translate_answer,
)
from server.errors import InvalidRequestError
from server.service.request import Translation, TranslationRequest
from server.service.translator import Translator

_MAX_TIMEOUT_DIGITS = 9
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request cannot be served as it is written."},
    413: {"model": ErrorAnswer, "description": "The body is too large."},
    415: {"model": ErrorAnswer, "description": "The body is neither JSON nor a urlencoded form."},
    429: {"model": ErrorAnswer, "description": "The queue is full; come back after `Retry-After` seconds."},
    503: {"model": ErrorAnswer, "description": "Loading, draining or out of order."},
    504: {"model": ErrorAnswer, "description": "The deadline passed."},
}


def _documented(fields: type[TranslateFields] | type[DetectFields]) -> dict[str, Any]:
    schema = fields.model_json_schema()
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


def translate_routes(translator: Translator, lifecycle: Lifecycle, request_timeout_s: float) -> APIRouter:
    """Build the routes that take text.

    Args:
        translator: does the work.
        lifecycle: says whether requests are accepted.
        request_timeout_s: longest deadline of a request.

    Returns:
        A router.
    """
    router = APIRouter(tags=["translate"])

    @router.post(
        "/translate",
        summary="Translate a text, or an array of texts as one batch",
        response_model=TranslateAnswer,
        responses=_ERRORS,
        openapi_extra=_documented(TranslateFields),
    )
    async def translate(request: Request) -> Response:
        """LibreTranslate's request as JSON, urlencoded form or query string, with decoding options."""
        record = record_of(request.scope)
        lifecycle.check_accepting()
        given, typed = await _read(request, record)
        fields = read_translate_fields(given, typed=typed)
        job = TranslationRequest(
            # Two clients may send the same id at the same time.
            request_id=f"{record.request_id}/{id(record):x}",
            texts=fields.texts,
            source=fields.source,
            target=fields.target,
            deadline_s=_deadline(request, record, request_timeout_s),
            wishes=fields.wishes(),
            is_html=fields.format == "html",
        )
        record.texts = len(job.texts)
        record.stages_s["parse"] = time.monotonic() - record.started_s

        def note_disconnect() -> None:
            record.disconnect_phase = translator.phase(job.request_id)

        with lifecycle.taking_on():
            translation = await unless_disconnected(
                request.receive, translator.translate(job), note_disconnect
            )
        _note(record, translation)
        return _json(translate_answer(fields, translation), {"Server-Timing": _server_timing(record)})

    @router.post(
        "/detect",
        summary="Guess which served language a text is written in",
        response_model=list[DetectedLanguage],
        responses=_ERRORS,
        openapi_extra=_documented(DetectFields),
    )
    async def detect(request: Request) -> Response:
        """All served languages with a confidence of 0 to 100, likeliest first."""
        record = record_of(request.scope)
        lifecycle.check_accepting()
        given, typed = await _read(request, record)
        fields = read_detect_fields(given, typed=typed)
        with lifecycle.taking_on():
            found = await translator.detect(fields.q)
        return _json([{"confidence": d.confidence, "language": d.language} for d in found])

    return router


async def _read(request: Request, record: RequestRecord) -> tuple[Fields, bool]:
    try:
        body = await read_body(request.receive)
    except ClientDisconnectedError:
        record.disconnect_phase = "receiving"
        raise
    return parse_fields(body, request.headers, request.scope["query_string"])


def _deadline(request: Request, record: RequestRecord, request_timeout_s: float) -> float:
    """The client may ask for less time than the server allows, never for more."""
    asked = request.headers.get("x-request-timeout-ms")
    if asked is None:
        return record.started_s + request_timeout_s
    if not (asked.isascii() and asked.isdigit() and len(asked) <= _MAX_TIMEOUT_DIGITS and int(asked) > 0):
        raise InvalidRequestError("X-Request-Timeout-Ms must be a whole number of milliseconds, at least 1")
    return record.started_s + min(request_timeout_s, int(asked) / 1000)


def _note(record: RequestRecord, translation: Translation) -> None:
    record.sentences = translation.sentences
    record.source_tokens = translation.source_tokens
    record.target_tokens = translation.target_tokens
    record.finish_reasons = translation.finish_reasons
    record.stages_s.update(translation.stages_s)


def _server_timing(record: RequestRecord) -> str:
    return ", ".join(f"{stage};dur={1000 * stage_s:.2f}" for stage, stage_s in record.stages_s.items())


def _json(value: Any, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    return Response(body, headers=headers, media_type="application/json")
