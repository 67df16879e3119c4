"""Where a bundle runs."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from server.cli import serve
from server.engine.dispatch.dispatcher import Dispatcher
from server.engine.observer import NullObserver
from server.engine.options import DecodingOptions
from server.errors import DeviceError, SettingError
from server.service.models import engine_start
from server.service.models.engine_start import choose_device
from server.service.models.loading import load_model
from server.service.models.served_model import ServedModel
from server.settings import Settings
from tests.server import random_bundle
from tests.server.runtime.devices import CPU_AS_DEVICE
from tests.server.service import device_processes

WAIT_S = 60.0


def test_the_processor_is_taken_where_it_is_asked_for_or_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = random_bundle.write(tmp_path).model_copy(update={"precision": "fp16"})
    assert choose_device(Settings(device="cpu"), manifest) is None
    available = "server.runtime.device.device.ort.get_available_providers"
    monkeypatch.setattr(available, lambda: ["CPUExecutionProvider"])
    assert choose_device(Settings(), manifest) is None
    with pytest.raises(SettingError, match="install onnxruntime-gpu"):
        choose_device(Settings(device="cuda"), manifest)


def test_without_a_driver_cuda_is_refused_and_auto_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = random_bundle.write(tmp_path).model_copy(update={"precision": "fp16"})

    def without_driver() -> None:
        raise DeviceError("setting device: CUDA cannot be used (no driver)")

    monkeypatch.setattr(engine_start, "has_cuda", lambda: True)
    monkeypatch.setattr(engine_start, "cuda", without_driver)
    assert choose_device(Settings(device="auto"), manifest) is None
    assert "no driver" in caplog.text
    with pytest.raises(SettingError, match="no driver"):
        choose_device(Settings(device="cuda"), manifest)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_cuda_takes_fp16_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    manifest = random_bundle.write(tmp_path).model_copy(update={"precision": precision})
    monkeypatch.setattr(engine_start, "has_cuda", lambda: True)
    monkeypatch.setattr(engine_start, "cuda", lambda: CPU_AS_DEVICE)
    assert choose_device(Settings(device="auto"), manifest) is None
    fitting = manifest.model_copy(update={"precision": "fp16"})
    assert choose_device(Settings(device="auto"), fitting) is CPU_AS_DEVICE
    with pytest.raises(SettingError, match=f"this one is {precision}; export it with --precision fp16"):
        choose_device(Settings(device="cuda"), manifest)


@pytest.fixture
def load(tiny_bundle_fp16: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ServedModel]]:
    """Load an fp16 model for an event loop where ONNX Runtime has CUDA; processes do as they are told."""
    models: list[ServedModel] = []
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def load(start: Callable[..., Dispatcher], **settings: Any) -> ServedModel:
        monkeypatch.setattr(engine_start, "has_cuda", lambda: True)
        monkeypatch.setattr(engine_start, "_load_in_process", start)
        chosen = Settings(bundle=(tiny_bundle_fp16,), **settings)
        models.append(load_model(chosen, NullObserver(), served=True))
        loop.call_soon_threadsafe(models[-1].engine.attach, loop)
        return models[-1]

    yield load
    for model in models:
        model.engine.close(WAIT_S)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def translated(model: ServedModel) -> list[tuple[int, ...]]:
    sources = [golden.source_ids for golden in model.manifest.golden]
    futures = model.engine.submit("request", sources, DecodingOptions())
    return [future.result(WAIT_S).hypotheses[0].tokens for future in futures]


@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_a_served_model_has_a_process_of_its_own_on_a_device(
    load: Callable[..., ServedModel], device: str
) -> None:
    model = load(device_processes.on_the_processor, device=device, workers=3)
    assert translated(model) == [golden.target_ids for golden in model.manifest.golden]
    stats = model.engine.stats()
    assert len(stats.engine_pids) == 3, "one to fork, one that waits, one that decodes"
    assert stats.rows_total == stats.max_rows


def test_where_a_process_finds_no_driver_the_processor_is_taken(
    load: Callable[..., ServedModel], caplog: pytest.LogCaptureFixture
) -> None:
    model = load(device_processes.without_driver, workers=2)
    assert "no driver" in caplog.text
    assert translated(model) == [golden.target_ids for golden in model.manifest.golden]
    assert len(model.engine.stats().engine_pids) == 4
    with pytest.raises(DeviceError, match="no driver"):
        load(device_processes.without_driver, device="cuda")


def test_the_command_line_says_it_in_one_line(tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.serve({"bundle": tiny_bundle, "device": "cuda"}) == serve.EXIT_USAGE
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("dragoman serve: setting device: ")
    assert said.endswith("--device cpu")
