"""What is served and how it is: languages, models, health, metrics."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.types import DecoratedCallable
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import JSONResponse, PlainTextResponse, Response

from server.api.access import Access
from server.api.schemas import ErrorAnswer, LanguageAnswer
from server.errors import EngineDeadError
from server.http.lifecycle import Lifecycle
from server.metrics.registry import Metrics
from server.service.text.languages import language_name
from server.service.translation.model_slot import ModelSlot
from server.service.translation.router import Router

# A step takes milliseconds. An engine that has work and has not moved for this long will not move again.
_STUCK_AFTER_S = 60.0
_SHOWN = {
    "name",
    "version",
    "created",
    "task",
    "purpose",
    "segmentation",
    "directions",
    "languages",
    "precision",
    "batch_invariant",
    "architecture",
    "limits",
    "parity",
    "quality",
    "agreement",
}
_UNAVAILABLE: dict[int | str, dict[str, Any]] = {503: {"model": ErrorAnswer, "description": "Not now."}}


def status_routes(
    router: Router, lifecycle: Lifecycle, metrics: Metrics, access: Access | None = None
) -> APIRouter:
    """Build the routes that say how the server is; `access` says who may see the models, None: all."""
    routes = APIRouter(tags=["status"])

    _add_health(routes, router, lifecycle)

    @routes.get("/languages", summary="Languages and their targets", response_model=list[LanguageAnswer])
    async def languages() -> list[LanguageAnswer]:
        """Every language there is; those with no targets can only be translated to."""
        directions = router.directions
        return [
            LanguageAnswer(code=code, name=language_name(code), targets=list(directions.targets(code)))
            for code in directions.codes
        ]

    @routes.get("/models", summary="The models being served", response_model=None)
    async def models(request: Request) -> Response:
        """What each bundle's manifest says about its model, and the limits of this server."""
        if access is not None:
            access.identify(request.scope)
        return JSONResponse({"models": [_describe(slot) for slot in router.slots]})

    @routes.get(
        "/metrics", summary="Prometheus metrics", response_model=None, response_class=PlainTextResponse
    )
    @_with_head(routes, "/metrics")
    async def render_metrics() -> Response:
        """All series in Prometheus' text format."""
        metrics.refresh(router.stats(), router.stats_by_model())
        # 2 to 5 ms of pure Python, which would hold up every other request.
        body = await asyncio.to_thread(metrics.render)
        return Response(body, media_type=None, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    return routes


def _add_health(routes: APIRouter, router: Router, lifecycle: Lifecycle) -> None:
    @routes.get(
        "/livez", summary="Is the process worth keeping?", responses=_UNAVAILABLE, response_model=None
    )
    @_with_head(routes, "/livez")
    async def livez() -> Response:
        """200 while the engine's threads run, busy or not; 503 if only a restart can help."""
        return JSONResponse({"status": "alive", "models": _check_alive(router)})

    @routes.get("/readyz", summary="Send requests here?", responses=_UNAVAILABLE, response_model=None)
    @_with_head(routes, "/readyz")
    async def readyz() -> Response:
        """200 once every model has translated its golden sentences, until the server is told to stop."""
        lifecycle.check_accepting()
        return JSONResponse({"status": "ready", "models": _check_alive(router)})

    @routes.get(
        "/health", summary="LibreTranslate's health check", responses=_UNAVAILABLE, response_model=None
    )
    @_with_head(routes, "/health")
    async def health() -> Response:
        """As /readyz."""
        lifecycle.check_accepting()
        return JSONResponse({"status": "ok", "models": _check_alive(router)})


def _with_head(routes: APIRouter, path: str) -> Callable[[DecoratedCallable], DecoratedCallable]:
    """Answer GET and HEAD, undocumented. Goes below the route that documents GET.

    A refusal of other methods allows those of the path's first route, so they must be together.
    """
    return routes.api_route(path, methods=["GET", "HEAD"], include_in_schema=False)


def _check_alive(router: Router) -> list[str]:
    """Check all engines, since only a restart brings one back, and name their models."""
    names = []
    for slot in router.slots:
        stats, name = slot.model.engine.stats(), slot.model.manifest.name
        if not stats.alive:
            raise EngineDeadError(f"the engine of {name} has ended")
        busy = stats.queue_sentences or stats.rows_busy
        if busy and time.monotonic() - stats.last_progress_s > _STUCK_AFTER_S:
            raise EngineDeadError(f"the engine of {name} has work and does not move")
        names.append(name)
    return names


def _describe(slot: ModelSlot) -> dict[str, Any]:
    model, limits = slot.model, slot.translator.limits
    shown: dict[str, Any] = model.manifest.model_dump(mode="json", include=_SHOWN)
    shown["sha256"] = model.sha256
    shown["source_features"] = model.manifest.architecture.source_features
    shown["beam_sizes"] = list(limits.usable_widths)
    shown["request_limits"] = {
        "max_texts": limits.max_texts,
        "max_text_chars": limits.max_text_chars,
        "max_request_tokens": limits.max_request_tokens,
    }
    return shown
