"""A router over fake engines."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from server.engine.options import DecodingOptions
from server.service.request_limits import request_limits
from server.service.translation.model_slot import ModelSlot
from server.service.translation.request import TranslationRequest
from server.service.translation.router import Router
from server.service.translation.translator import Translator
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model


class Models:
    """A router over fake models: `Models("en-de", "de-en+fr-en")` has two, the second with two directions."""

    def __init__(self, *pairs: str, pivot: str | None = "en", **settings: Any) -> None:
        self.engines = {pair: FakeEngine() for pair in pairs}
        self.pivot = pivot
        self.settings = Settings(**settings)

    def __getitem__(self, pair: str) -> FakeEngine:
        return self.engines[pair]

    def router(self) -> Router:
        slots = []
        for number, (pairs, engine) in enumerate(self.engines.items()):
            model = served_model(engine, name=f"model-{number}", directions=directions(pairs))
            limits = request_limits(self.settings, model.manifest)
            slots.append(ModelSlot(Translator(model, limits, text_threads=1)))
        return Router(slots, [] if self.pivot is None else [self.pivot])

    def run(self, test: Callable[[Router], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            router = self.router()
            try:
                return await asyncio.wait_for(test(router), 20)
            finally:
                await router.close(0.0)

        return asyncio.run(main())

    def translate(self, *texts: str, **changes: Any) -> Any:
        return self.run(lambda router: router.translate(request(*texts, **changes)))


def directions(pairs: str) -> list[dict[str, str]]:
    both = [pair.split("-") for pair in pairs.split("+")]
    return [{"source": source, "target": target} for source, target in both]


def request(
    *texts: str, source: str = "en", target: str = "de", timeout_s: float = 5.0, **changes: Any
) -> TranslationRequest:
    return TranslationRequest("r1", texts, source, target, time.monotonic() + timeout_s, **changes)


def submitted(engine: FakeEngine) -> list[DecodingOptions]:
    return [options for _, _, options, _ in engine.submitted]
