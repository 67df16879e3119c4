"""Reloads of the model over fake engines: who translates what, what becomes of the old one, and faults."""

import asyncio
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from export.bundle import BundleError
from server.errors import (
    AbortedError,
    BundleRefusedError,
    ReloadFailedError,
    ReloadInProgressError,
    SettingError,
)
from server.service.models.served_model import ServedModel
from server.service.request_limits import request_limits
from server.service.translation.model_slot import ModelSlot
from server.service.translation.reload import ReloadOutcome, Reloads
from server.service.translation.request import TranslationRequest
from server.service.translation.translator import Translator
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model


class Engine(FakeEngine):
    """Knows that it was closed."""

    closed = False

    def close(self, timeout_s: float) -> None:
        super().close(timeout_s)
        self.closed = True


class Server:
    """What `create_app` wires, without HTTP."""

    def __init__(self, load: Callable[[], ServedModel], finish_s: float = 10.0) -> None:
        self.first = Engine()
        self.serving = ModelSlot(self.translator_of(served_model(self.first)))
        self.outcomes: list[ReloadOutcome] = []
        self.announced: list[str] = []
        self.reloader = Reloads(
            [self.serving],
            lambda _slot: load(),
            self.translator_of,
            self.check,
            self.announce,
            self.outcomes.append,
            finish_s,
        )

    def translator_of(self, model: ServedModel) -> Translator:
        return Translator(model, request_limits(Settings(), model.manifest), text_threads=1)

    def check(self, _slot: ModelSlot, model: ServedModel) -> None:
        if model.manifest.version == "unwanted":
            raise SettingError("setting bundle: not beside the others")

    def announce(self) -> None:
        self.announced.append(self.version)

    @property
    def version(self) -> str:
        return self.serving.model.manifest.version

    async def translate(self, name: str) -> str:
        request = TranslationRequest(name, ["Word."], "en", "de", time.monotonic() + 5)
        with self.serving.translator as translator:
            return (await translator.translate(request, "en", "de")).texts[0].hypotheses[0]


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(test(), 20)

    asyncio.run(main())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.001)


def second(engine: Engine | None = None) -> ServedModel:
    return served_model(engine or Engine(), version="2")


def test_new_requests_get_the_new_model_and_old_ones_finish_with_the_old_one() -> None:
    async def test() -> None:
        new = Engine()
        server = Server(lambda: second(new))
        server.first.gate.clear()
        old_request = asyncio.create_task(server.translate("old"))
        await until(lambda: server.first.waiting == 1)
        reload = asyncio.create_task(server.reloader.reload())
        await until(lambda: server.version == "2")
        assert await server.translate("new") == "WORD."
        assert [len(engine.submitted) for engine in (server.first, new)] == [1, 1]
        assert server.serving.stats().queue_sentences == 1
        assert not server.first.closed
        assert not reload.done()
        server.first.release()
        assert await old_request == "WORD."
        assert (await reload)[0].manifest.version == "2"
        assert server.first.closed
        assert not new.closed
        assert (server.outcomes, server.announced) == (["success"], ["2"])
        assert server.serving.stats().queue_sentences == 0

    run(test)


def test_nothing_keeps_the_old_model() -> None:
    async def test() -> None:
        server = Server(second)
        old = weakref.ref(server.serving.translator)
        await server.translate("a")
        await server.reloader.reload()
        assert old() is None

    run(test)


def test_a_request_that_does_not_end_holds_the_old_model_up_for_a_while_only() -> None:
    async def test() -> None:
        server = Server(second, finish_s=0.05)
        server.first.gate.clear()
        stuck = asyncio.create_task(server.translate("stuck"))
        await until(lambda: server.first.waiting == 1)
        await server.reloader.reload()
        assert server.first.closed
        with pytest.raises(AbortedError):
            await stuck

    run(test)


@pytest.mark.parametrize(
    "fault", [BundleError("encoder.onnx", "is missing"), SettingError("setting max_kv_cache_mib: too low")]
)
def test_a_bundle_that_is_refused_changes_nothing(fault: Exception) -> None:
    async def test() -> None:
        def load() -> ServedModel:
            raise fault

        server = Server(load)
        with pytest.raises(BundleRefusedError, match=str(fault)):
            await server.reloader.reload()
        assert await server.translate("a") == "WORD."
        assert (server.version, server.outcomes, server.announced) == ("1", ["refused"], [])
        assert not server.first.closed

    run(test)


def test_a_model_that_does_not_fit_the_others_is_refused_and_closed() -> None:
    async def test() -> None:
        new = Engine()
        server = Server(lambda: served_model(new, version="unwanted"))
        with pytest.raises(BundleRefusedError, match="not beside the others"):
            await server.reloader.reload()
        assert new.closed
        assert (server.version, server.outcomes, server.announced) == ("1", ["refused"], [])

    run(test)


def test_a_failure_of_another_kind_changes_nothing_and_is_not_told_to_strangers() -> None:
    async def test() -> None:
        def load() -> ServedModel:
            raise MemoryError("at 0xdeadbeef")

        server = Server(load)
        with pytest.raises(ReloadFailedError) as caught:
            await server.reloader.reload()
        assert "0xdeadbeef" not in str(caught.value)
        assert (server.version, server.outcomes) == ("1", ["failed"])

    run(test)


def test_a_model_that_cannot_be_warmed_up_is_closed_again() -> None:
    async def test() -> None:
        new = Engine()
        server = Server(lambda: second(new))

        async def fail(_translator: Translator) -> None:
            raise RuntimeError("no rules for this language")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Translator, "warm_up", fail)
            with pytest.raises(ReloadFailedError):
                await server.reloader.reload()
        assert new.closed
        assert (server.version, server.outcomes) == ("1", ["failed"])

    run(test)


def test_one_reload_at_a_time() -> None:
    async def test() -> None:
        gate = threading.Event()
        loads: list[int] = []

        def load() -> ServedModel:
            loads.append(1)
            assert gate.wait(10)
            return second()

        server = Server(load)
        reload = asyncio.create_task(server.reloader.reload())
        await until(lambda: len(loads) == 1)
        for _ in range(3):
            with pytest.raises(ReloadInProgressError):
                await server.reloader.reload()
        gate.set()
        await reload
        await server.reloader.reload()
        assert (len(loads), server.outcomes) == (2, ["success", "success"])

    run(test)


def test_it_goes_on_when_nobody_waits_for_it_any_more() -> None:
    async def test() -> None:
        gate = threading.Event()

        def load() -> ServedModel:
            assert gate.wait(10)
            return second()

        server = Server(load)
        waiting = asyncio.create_task(server.reloader.reload())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        gate.set()
        await until(lambda: server.version == "2")

    run(test)


def test_the_end_of_the_server_does_not_wait_long_for_a_load_whose_model_is_closed_when_it_comes() -> None:
    gate, new = threading.Event(), Engine()

    async def test() -> None:
        def load() -> ServedModel:
            assert gate.wait(10)
            return second(new)

        server = Server(load)
        reload = asyncio.create_task(server.reloader.reload())
        await asyncio.sleep(0.01)
        started_s = time.monotonic()
        await server.reloader.close(0.1)
        await server.serving.close(1.0)
        assert time.monotonic() - started_s < 1
        assert server.first.closed
        assert reload.cancelled() or (await asyncio.wait([reload]))[0]
        gate.set()
        await until(lambda: new.closed)
        assert server.version == "1"

    run(test)


def test_the_end_of_the_server_closes_a_model_that_was_being_let_go() -> None:
    async def test() -> None:
        new = Engine()
        server = Server(lambda: second(new))
        server.first.gate.clear()
        request = asyncio.create_task(server.translate("old"))
        await until(lambda: server.first.waiting == 1)
        reload = asyncio.create_task(server.reloader.reload())
        await until(lambda: server.version == "2")
        await server.reloader.close(1.0)
        await server.serving.close(1.0)
        assert server.first.closed
        assert new.closed
        results: list[Any] = await asyncio.gather(request, reload, return_exceptions=True)
        assert [type(result) for result in results] == [AbortedError, asyncio.CancelledError]

    run(test)
