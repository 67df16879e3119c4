"""Where a bundle runs."""

from pathlib import Path

import pytest

from server import cli
from server.errors import DeviceError, SettingError
from server.service import loading
from server.service.loading import choose_device
from server.settings import Settings
from tests.server import random_bundle
from tests.server.runtime.devices import CPU_AS_DEVICE


def test_the_processor_is_taken_where_it_is_asked_for_or_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = random_bundle.write(tmp_path).model_copy(update={"precision": "fp16"})
    assert choose_device(Settings(device="cpu"), manifest) is None
    monkeypatch.setattr("server.runtime.device.ort.get_available_providers", lambda: ["CPUExecutionProvider"])
    assert choose_device(Settings(), manifest) is None
    with pytest.raises(SettingError, match="install onnxruntime-gpu"):
        choose_device(Settings(device="cuda"), manifest)


def test_without_a_driver_cuda_is_refused_and_auto_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = random_bundle.write(tmp_path).model_copy(update={"precision": "fp16"})

    def without_driver() -> None:
        raise DeviceError("setting device: CUDA cannot be used (no driver)")

    monkeypatch.setattr(loading, "has_cuda", lambda: True)
    monkeypatch.setattr(loading, "cuda", without_driver)
    assert choose_device(Settings(device="auto"), manifest) is None
    assert "no driver" in caplog.text
    with pytest.raises(SettingError, match="no driver"):
        choose_device(Settings(device="cuda"), manifest)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_cuda_takes_fp16_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    manifest = random_bundle.write(tmp_path).model_copy(update={"precision": precision})
    monkeypatch.setattr(loading, "has_cuda", lambda: True)
    monkeypatch.setattr(loading, "cuda", lambda: CPU_AS_DEVICE)
    assert choose_device(Settings(device="auto"), manifest) is None
    fitting = manifest.model_copy(update={"precision": "fp16"})
    assert choose_device(Settings(device="auto"), fitting) is CPU_AS_DEVICE
    with pytest.raises(SettingError, match=f"this one is {precision}; export it with --precision fp16"):
        choose_device(Settings(device="cuda"), manifest)


def test_the_command_line_says_it_in_one_line(tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.serve({"bundle": tiny_bundle, "device": "cuda"}) == cli.EXIT_USAGE
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("dragoman: setting device: ")
    assert said.endswith("--device cpu")
