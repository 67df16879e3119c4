"""What an operator on the same machine may see and do, on a port of its own that others cannot reach."""

import re
import time
from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from server.api.access import Access
from server.api.middleware import RequestMiddleware
from server.errors import DragomanError, ForbiddenError
from server.http.errors import handle_error
from server.http.lifecycle import Lifecycle
from server.metrics.registry import Metrics
from server.service.models.served_model import ServedModel
from server.service.translation.router import Router
from server.settings import Settings

_LOCAL_HOST = re.compile(rb"(127\.0\.0\.1|\[::1\]|localhost)(:[0-9]{1,5})?", re.IGNORECASE)


class AdminPages:
    """Shows the server's state, exchanges its model and begins its end. Used from the event loop."""

    def __init__(
        self,
        settings: Settings,
        lifecycle: Lifecycle,
        access: Access | None,
        router: Callable[[], Router],
        reload: Callable[[str | None], Awaitable[list[ServedModel]]],
        begin_end: Callable[[], None],
    ) -> None:
        """Keep what is shown; the uptime counts from here.

        Args:
            settings: of the server.
            lifecycle: of the server.
            access: whose keys there are, if there are any.
            router: gives what knows the models; asked once the server has started.
            reload: does what SIGHUP does, to the end, with all models or the one of a name.
            begin_end: does what SIGTERM does.
        """
        self._settings = settings
        self._lifecycle = lifecycle
        self._access = access
        self._router = router
        self._reload = reload
        self._begin_end = begin_end
        self._started_s = time.monotonic()

    async def status(self, _request: Request) -> Response:
        """Answer `GET /admin/status`."""
        return JSONResponse(self.describe())

    async def drain(self, _request: Request) -> Response:
        """Answer `POST /admin/drain`: finish what runs, refuse what is new, end."""
        self._lifecycle.begin_drain()
        self._begin_end()
        return JSONResponse({"status": self._lifecycle.state}, status_code=202)

    async def reload(self, request: Request) -> Response:
        """Answer `POST /admin/reload?model=NAME`: serve what is at the bundles' paths now, or say why not."""
        loaded = await self._reload(request.query_params.get("model"))
        return JSONResponse({"outcome": "success", "bundles": [_describe_bundle(model) for model in loaded]})

    def describe(self) -> dict[str, Any]:
        """Collect what an operator asks first, as plain values.

        Keys are there by name only. A setting that is a secret has to be pydantic's `SecretStr`, which shows
        itself as asterisks.
        """
        router, settings = self._router(), self._settings
        stats = router.stats()
        return {
            "version": metadata.version("dragoman"),
            "commit": settings.commit,
            "state": self._lifecycle.state,
            "uptime_s": round(time.monotonic() - self._started_s, 3),
            "requests": self._lifecycle.active,
            "bundles": [_describe_bundle(slot.model) for slot in router.slots],
            "queue": {
                "sentences": stats.queue_sentences,
                "max_sentences": settings.max_queue_sentences,
                "tokens": stats.queue_tokens,
                "max_tokens": settings.max_queue_tokens,
                "oldest_age_s": round(stats.queue_oldest_age_s, 3),
            },
            "engine": {
                "alive": stats.alive,
                "rows_busy": stats.rows_busy,
                "rows_total": stats.rows_total,
                "max_rows": stats.max_rows,
                "kv_cache_bytes": stats.kv_cache_bytes,
                "since_last_step_s": round(time.monotonic() - stats.last_progress_s, 3),
            },
            "api_keys": self._describe_keys(),
            "settings": settings.model_dump(mode="json"),
        }

    def _describe_keys(self) -> dict[str, Any] | None:
        keys = None if self._access is None else self._access.keys
        if keys is None:
            return None
        ring = keys.ring
        return {"file": str(keys.path), "keys": len(ring), "names": sorted(ring.names), "fault": keys.fault}


def _describe_bundle(model: ServedModel) -> dict[str, Any]:
    manifest = model.manifest
    return {
        "path": str(model.bundle),
        "name": manifest.name,
        "version": manifest.version,
        "sha256": model.sha256,
        "precision": manifest.precision,
        "directions": [pair.name for pair in manifest.directions],
        "languages": [language.code for language in manifest.languages],
        "load_duration_s": round(model.load_duration_s, 3),
    }


def admin_application(pages: AdminPages, metrics: Metrics) -> ASGIApp:
    """Build the application of the admin port, without a lifespan."""
    routes = [
        Route("/admin/status", pages.status, methods=["GET"]),
        Route("/admin/reload", pages.reload, methods=["POST"]),
        Route("/admin/drain", pages.drain, methods=["POST"]),
    ]
    app = Starlette(
        routes=routes, exception_handlers={DragomanError: handle_error, HTTPException: handle_error}
    )
    app.router.redirect_slashes = False
    return RequestMiddleware(_LocalCallers(app), metrics)


class _LocalCallers:
    """Lets programs on this machine in, and not the pages that a browser on this machine shows.

    A page can send requests to any address, and a name that it owns can turn into 127.0.0.1 (DNS rebinding).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for name, value in scope["headers"]:
            if name == b"host" and not _LOCAL_HOST.fullmatch(value):
                raise ForbiddenError("this port is asked for by its address on this machine")
            if name == b"origin":
                raise ForbiddenError("this port is not for pages in a browser")
        await self._app(scope, receive, send)
