"""The composition root: settings and a model become an application."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from server.api.access import Access, document_keys, make_access
from server.api.cors import CrossOriginMiddleware
from server.api.generate import GENERATE_PATH, GenerateEndpoint, generate_routes
from server.api.middleware import RequestMiddleware
from server.api.page import page_routes
from server.api.status import status_routes
from server.api.tracing import Tracing, make_tracing
from server.api.translate import TRANSLATE_PATH, TranslateEndpoint, translate_routes
from server.errors import DragomanError, GlossaryRefusedError
from server.http.errors import handle_error
from server.http.event_loop_lag import LoopLag
from server.http.lifecycle import Lifecycle
from server.metrics.registry import Metrics
from server.service.clients.api_keys import KeyFile
from server.service.models.loading import load_model, load_models
from server.service.models.served_model import ServedModel, check_together
from server.service.request_limits import request_limits
from server.service.text.detection.detector import load_model as load_detector
from server.service.text.glossary.store import GlossaryStore
from server.service.text.options import TextOptions
from server.service.translation.model_slot import ModelSlot
from server.service.translation.reload import Reloads
from server.service.translation.router import Router
from server.service.translation.sentence_cache import SentenceCache
from server.service.translation.translator import Translator
from server.settings import NO_PIVOT, Settings

_log = logging.getLogger("dragoman.service")

_KEYS_INTERVAL_S = 1.0
_CLOSE_TIMEOUT_S = 5.0
_GRACE_S = 1.0  # what the last answer of a replaced model may take beyond its deadline
_DESCRIPTION = (
    "Translates texts. `POST /translate` takes LibreTranslate's requests; its clients work unchanged."
)


def create_app(
    settings: Settings,
    models: ServedModel | Sequence[ServedModel] = (),
    metrics: Metrics | None = None,
) -> "Application":
    """Build the application.

    Args:
        settings: of the server.
        models: loaded ones, which the application closes and, when another replaces one, lets go; without
            any, the bundles of the settings are loaded when the application starts.
        metrics: where events are counted; without one, a registry of its own is made.

    Returns:
        An application; `app.state.lifecycle` begins the drain, `app.state.metrics` holds the series,
        `app.state.access` the keys. Once it has started, `app.state.router` holds the models and
        `app.state.reload(name)` loads the bundle of one, or of all, in its place.

    Raises:
        SettingError: the file of API keys cannot be used, or OpenTelemetry is wanted and not installed.
        GlossaryRefusedError: a glossary cannot be used.
    """
    metrics = metrics or Metrics(CollectorRegistry(), settings.commit)
    parts = _Parts.make(settings, metrics)
    given = [models] if isinstance(models, ServedModel) else list(models)
    del models
    app = Application(
        title="dragoman",
        description=_DESCRIPTION,
        version="1",
        lifespan=lambda app: parts.running(app, given),
        docs_url=None,  # FastAPI's loads scripts from a CDN; ours is in `page`
        redoc_url=None,
        redirect_slashes=False,  # a redirect's address is made of the Host header, which is the client's
    )
    app.state.lifecycle = parts.lifecycle
    app.state.metrics = metrics
    app.state.access = parts.access
    app.include_router(page_routes())
    for raised in (DragomanError, HTTPException):
        app.add_exception_handler(raised, handle_error)
    # Added last is outermost.
    app.add_middleware(RequestMiddleware, metrics=metrics, tracing=parts.tracing)
    if settings.allowed_origins:
        app.add_middleware(CrossOriginMiddleware, origins=settings.allowed_origins, metrics=metrics)
    return app


@dataclass(frozen=True)
class _Parts:
    """What the routes work with, from the making of the application to its end."""

    settings: Settings
    metrics: Metrics
    lifecycle: Lifecycle
    access: Access | None
    tracing: Tracing | None
    glossaries: GlossaryStore
    cache: SentenceCache | None

    @classmethod
    def make(cls, settings: Settings, metrics: Metrics) -> "_Parts":
        return cls(
            settings,
            metrics,
            Lifecycle(metrics),
            make_access(settings, metrics),
            make_tracing(settings),
            GlossaryStore(settings.glossaries),
            SentenceCache(settings.cache_bytes) if settings.cache_bytes else None,
        )

    @contextlib.asynccontextmanager
    async def running(self, app: "Application", given: list[ServedModel]) -> AsyncIterator[None]:
        """Load the models unless they are given, add their routes, and watch over them until the end."""
        settings, metrics = self.settings, self.metrics
        loaded = given or await asyncio.to_thread(load_models, settings, metrics)
        pivots = () if settings.pivot_language == NO_PIVOT else (settings.pivot_language,)
        await asyncio.to_thread(load_detector)
        slots = [ModelSlot(self._translator_of(model)) for model in loaded]
        router = Router(slots, pivots, self.glossaries)
        loaded.clear()  # from here on only the router holds models: one that is replaced has to go
        reloads = self._reloads(router)
        app.state.router, app.state.reload = router, functools.partial(self._reload, reloads)
        lag = LoopLag(metrics.event_loop_lag.observe)
        self._add_routes(app, router, lag)
        for slot in router.slots:
            await slot.translator.warm_up()
        metrics.queue_capacity_tokens.set(settings.max_queue_tokens)
        metrics.kv_cache_capacity.set(settings.kv_cache_bytes)
        metrics.cache.watch(self.cache, settings.cache_bytes)
        self._announce(router)
        watches = [asyncio.create_task(lag.watch())]
        if self.access is not None and self.access.keys is not None:
            watches.append(asyncio.create_task(_watch_keys(self.access, self.access.keys)))
        self.lifecycle.set_ready()
        try:
            yield
        finally:
            self.lifecycle.begin_drain()
            for watch in watches:
                watch.cancel()
            await reloads.close(_CLOSE_TIMEOUT_S)
            await router.close(_CLOSE_TIMEOUT_S)
            if self.tracing is not None:
                await asyncio.to_thread(self.tracing.close)

    def _add_routes(self, app: "Application", router: Router, lag: LoopLag) -> None:
        settings, metrics, lifecycle, access = self.settings, self.metrics, self.lifecycle, self.access

        def check_room(active: int) -> None:
            """Refuse, while requests come faster than they can be read, what would be refused afterwards."""
            if lag.is_behind and not lifecycle.draining:  # which has an answer of its own
                router.check_room(active)

        limits = settings.request_timeout_s, settings.max_body_bytes
        shared = (router, lifecycle, *limits, check_room, access)
        translate, generate = TranslateEndpoint(*shared), GenerateEndpoint(*shared)
        translate.text_defaults = TextOptions(guard=settings.guard)
        for path, endpoint in ((TRANSLATE_PATH, translate), (GENERATE_PATH, generate)):
            shortcut: ASGIApp = RequestMiddleware(endpoint, metrics, path, self.tracing)
            if settings.allowed_origins:
                shortcut = CrossOriginMiddleware(shortcut, settings.allowed_origins, metrics)
            app.shortcuts["POST", path] = shortcut
        app.include_router(translate_routes(translate, router, lifecycle, access))
        app.include_router(generate_routes(generate))
        app.include_router(status_routes(router, lifecycle, metrics, access))

    def _translator_of(self, model: ServedModel) -> Translator:
        limits = request_limits(self.settings, model.manifest)
        return Translator(model, limits, self.settings.text_threads, self.cache)

    def _announce(self, router: Router) -> None:
        router.find_routes()
        self.metrics.models.set_models(router.slots, router.pairs)

    def _reloads(self, router: Router) -> Reloads:
        def load(slot: ModelSlot) -> ServedModel:
            return load_model(self.settings, self.metrics, slot.model.bundle, served=True)

        def check(slot: ModelSlot, model: ServedModel) -> None:
            others = [other.model.manifest for other in router.slots if other is not slot]
            check_together([*others, model.manifest])

        return Reloads(
            router.slots,
            load,
            self._translator_of,
            check,
            functools.partial(self._announce, router),
            self.metrics.reloaded,
            self.settings.request_timeout_s + _GRACE_S,
        )

    async def _reload(self, reloads: Reloads, name: str | None = None) -> list[ServedModel]:
        self.lifecycle.check_accepting()
        if name is None:
            await asyncio.to_thread(_reload_glossaries, self.glossaries)
        return await reloads.reload(name)


class Application(FastAPI):
    """FastAPI with short ways past its layers. Used from one event loop.

    Attributes:
        shortcuts: by method and path, an ASGI application that answers as the route of the same path would,
            middleware included.
    """

    def __init__(self, **options: Any) -> None:
        """Start without shortcuts; the options are FastAPI's."""
        self.shortcuts: dict[tuple[str, str], ASGIApp] = {}
        super().__init__(**options)

    def openapi(self) -> dict[str, Any]:
        """Describe the API, and the key that it wants."""
        document = super().openapi()
        access: Access | None = self.state.access
        if access is not None and access.keys is not None:
            document_keys(document)
        return document

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        shortcut = None
        if scope["type"] == "http" and not scope.get("root_path"):  # with a prefix, the router knows how
            shortcut = self.shortcuts.get((scope["method"], scope["path"]))
        await (shortcut or super().__call__)(scope, receive, send)


def _reload_glossaries(glossaries: GlossaryStore) -> None:
    try:
        glossaries.reload()
    except GlossaryRefusedError as error:
        _log.error("the glossaries are refused, those that were read before stay: %s", error)
        raise


async def _watch_keys(access: Access, keys: KeyFile) -> None:
    while True:
        await asyncio.sleep(_KEYS_INTERVAL_S)
        # On a thread: the file may lie on a disk that does not answer.
        if await asyncio.to_thread(keys.refresh):
            access.keys_changed()
