"""What is served and how it is: languages, models, health, metrics."""

import asyncio
import time
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import JSONResponse, PlainTextResponse, Response

from server.api.access import Access
from server.api.lifecycle import Lifecycle
from server.api.schemas import ErrorAnswer, LanguageAnswer
from server.engine.sequence import EngineStats
from server.errors import EngineDeadError
from server.metrics import Metrics
from server.service.languages import language_name
from server.service.reloading import Serving

# A step takes milliseconds. An engine that has work and has not moved for this long will not move again.
_STUCK_AFTER_S = 60.0
_SHOWN = {
    "name",
    "version",
    "created",
    "directions",
    "precision",
    "batch_invariant",
    "architecture",
    "limits",
    "quality",
}
_UNAVAILABLE: dict[int | str, dict[str, Any]] = {503: {"model": ErrorAnswer, "description": "Not now."}}


def status_routes(
    serving: Serving, lifecycle: Lifecycle, metrics: Metrics, access: Access | None = None
) -> APIRouter:
    """Build the routes that say how the server is.

    Args:
        serving: with the model.
        lifecycle: of the server.
        metrics: to render.
        access: who may see the model; None for everybody.

    Returns:
        A router.
    """
    router = APIRouter(tags=["status"])

    def check_alive() -> EngineStats:
        stats = serving.model.engine.stats()
        if not stats.alive:
            raise EngineDeadError("a worker of the engine has crashed")
        busy = stats.queue_sentences or stats.rows_busy
        if busy and time.monotonic() - stats.last_progress_s > _STUCK_AFTER_S:
            raise EngineDeadError("the engine has work and does not move")
        return stats

    @router.head("/livez", include_in_schema=False)
    @router.get(
        "/livez", summary="Is the process worth keeping?", responses=_UNAVAILABLE, response_model=None
    )
    async def livez() -> Response:
        """200 while the engine's threads run, busy or not; 503 if only a restart can help."""
        check_alive()
        return JSONResponse({"status": "alive"})

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", summary="Send requests here?", responses=_UNAVAILABLE, response_model=None)
    async def readyz() -> Response:
        """200 once the model has translated its golden sentences, until the server is told to stop."""
        lifecycle.check_accepting()
        check_alive()
        return JSONResponse({"status": "ready"})

    @router.head("/health", include_in_schema=False)
    @router.get(
        "/health", summary="LibreTranslate's health check", responses=_UNAVAILABLE, response_model=None
    )
    async def health() -> Response:
        """As /readyz."""
        lifecycle.check_accepting()
        check_alive()
        return JSONResponse({"status": "ok"})

    @router.get("/languages", summary="Languages and their targets", response_model=list[LanguageAnswer])
    async def languages() -> list[LanguageAnswer]:
        """Every language of the model; those with no targets can only be translated to."""
        directions = serving.translator.directions
        return [
            LanguageAnswer(code=code, name=language_name(code), targets=list(directions.targets(code)))
            for code in directions.codes
        ]

    @router.get("/models", summary="The model being served", response_model=None)
    async def models(request: Request) -> Response:
        """What the bundle's manifest says about the model, and the limits of this server."""
        if access is not None:
            access.identify(request.scope)
        model, limits = serving.model, serving.translator.limits
        shown = model.manifest.model_dump(mode="json", include=_SHOWN)
        shown["sha256"] = model.sha256
        shown["beam_sizes"] = list(limits.usable_widths)
        shown["request_limits"] = {
            "max_texts": limits.max_texts,
            "max_text_chars": limits.max_text_chars,
            "max_request_tokens": limits.max_request_tokens,
        }
        return JSONResponse({"models": [shown]})

    @router.head("/metrics", include_in_schema=False)
    @router.get(
        "/metrics", summary="Prometheus metrics", response_model=None, response_class=PlainTextResponse
    )
    async def render_metrics() -> Response:
        """All series in Prometheus' text format."""
        metrics.refresh(serving.stats())
        # 2 to 5 ms of pure Python, which would hold up every other request.
        body = await asyncio.to_thread(metrics.render)
        return Response(body, media_type=None, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    return router
