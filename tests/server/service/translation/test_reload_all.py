"""Reloads of several models over fake engines: all or one, and what a refusal of one means for the others."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from export.bundle import BundleError
from server.errors import BundleRefusedError, ReloadFailedError, ReloadInProgressError, UnknownModelError
from server.service.models.served_model import ServedModel
from server.service.request_limits import request_limits
from server.service.translation.model_slot import ModelSlot
from server.service.translation.reload import Reloads
from server.service.translation.translator import Translator
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model


class Bench:
    """Models `a`, `b` and `c` whose next versions a test chooses."""

    def __init__(self) -> None:
        self.faults: dict[str, Exception] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.loads: list[str] = []
        self.slots = {name: ModelSlot(self.translator_of(self.model(name, "1"))) for name in "abc"}
        slots = list(self.slots.values())
        self.exchange = Reloads(slots, self.load, self.translator_of, *[lambda *_: None] * 3, 5.0)

    def model(self, name: str, version: str) -> ServedModel:
        return served_model(FakeEngine(), name=name, version=version)

    def translator_of(self, model: ServedModel) -> Translator:
        return Translator(model, request_limits(Settings(), model.manifest), text_threads=1)

    def load(self, slot: ModelSlot) -> ServedModel:
        name = slot.model.manifest.name
        self.loads.append(name)
        assert self.gate.wait(10)
        if name in self.faults:
            raise self.faults[name]
        return self.model(name, "2")

    @property
    def versions(self) -> str:
        return "".join(serving.model.manifest.version for serving in self.slots.values())


def run(test: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(test(Bench()), 20)

    asyncio.run(main())


def test_all_are_reloaded_one_after_the_other() -> None:
    async def test(bench: Bench) -> None:
        loaded = await bench.exchange.reload()
        assert [model.manifest.name for model in loaded] == bench.loads == ["a", "b", "c"]
        assert bench.versions == "222"

    run(test)


def test_one_is_reloaded_by_its_name() -> None:
    async def test(bench: Bench) -> None:
        (loaded,) = await bench.exchange.reload("b")
        assert (loaded.manifest.name, bench.versions, bench.loads) == ("b", "121", ["b"])

    run(test)


def test_an_unknown_name_says_which_there_are() -> None:
    async def test(bench: Bench) -> None:
        with pytest.raises(UnknownModelError, match="there are: a, b, c"):
            await bench.exchange.reload("d")
        assert bench.loads == []

    run(test)


def test_a_refusal_leaves_its_model_and_the_others_are_reloaded() -> None:
    async def test(bench: Bench) -> None:
        bench.faults["b"] = BundleError("encoder.onnx", "is missing")
        with pytest.raises(BundleRefusedError) as caught:
            await bench.exchange.reload()
        assert str(caught.value) == "b: encoder.onnx: is missing; reloaded: a, c"
        assert bench.versions == "212"
        with pytest.raises(BundleRefusedError) as caught:
            await bench.exchange.reload("b")
        assert str(caught.value) == "encoder.onnx: is missing"

    run(test)


def test_failures_of_another_kind_are_told_apart() -> None:
    async def test(bench: Bench) -> None:
        bench.faults = dict.fromkeys("abc", MemoryError())
        with pytest.raises(ReloadFailedError, match=r"^a: the new model could not be started"):
            await bench.exchange.reload()
        bench.faults["a"] = BundleError("encoder.onnx", "is missing")
        with pytest.raises(BundleRefusedError):
            await bench.exchange.reload()
        assert bench.versions == "111"

    run(test)


def test_one_reload_at_a_time_whatever_it_names() -> None:
    async def test(bench: Bench) -> None:
        bench.gate.clear()
        running = asyncio.create_task(bench.exchange.reload("a"))
        await asyncio.sleep(0)
        for name in (None, "a", "b"):
            with pytest.raises(ReloadInProgressError):
                await bench.exchange.reload(name)
        bench.gate.set()
        await running
        await bench.exchange.reload()
        assert bench.loads == ["a", "a", "b", "c"]

    run(test)


def test_it_goes_on_when_nobody_waits_for_it_any_more() -> None:
    async def test(bench: Bench) -> None:
        waiting = asyncio.create_task(bench.exchange.reload())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        while bench.versions != "222":
            await asyncio.sleep(0.001)

    run(test)


def test_the_end_of_the_server_gives_it_up() -> None:
    async def test(bench: Bench) -> None:
        bench.gate.clear()
        running = asyncio.create_task(bench.exchange.reload())
        while not bench.loads:
            await asyncio.sleep(0.001)
        await bench.exchange.close(0.1)
        assert running.cancelled() or (await asyncio.wait([running]))[0]
        bench.gate.set()
        assert (bench.versions, bench.loads) == ("111", ["a"])

    run(test)
