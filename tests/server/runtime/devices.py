"""Devices that tests run on: the CPU as one, always, and CUDA where there is one."""

from typing import Any

import onnxruntime as ort
import pytest

from server.errors import SettingError
from server.runtime.device.device import OnnxDevice, cuda

CPU_AS_DEVICE = OnnxDevice("cpu", ["CPUExecutionProvider"], ["CPUExecutionProvider"])


class RecordingSession(ort.InferenceSession):
    """Replays on the processor as CUDA does: what was bound when a number was first seen is what runs.

    A run of other bindings under that number gets the old ones' results in the old ones' places, on CUDA
    as here, and no error.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._recorded: dict[str, ort.IOBinding] = {}

    def run_with_iobinding(self, iobinding: ort.IOBinding, run_options: Any = None) -> None:
        number = "-1" if run_options is None else run_options.get_run_config_entry("gpu_graph_id")
        if number != "-1" and self.get_providers() == ["CPUExecutionProvider"]:
            iobinding = self._recorded.setdefault(number, iobinding)
        super().run_with_iobinding(iobinding, run_options)


def usable_cuda() -> bool:
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        return False
    try:
        cuda()
    except SettingError:
        return False
    return True


needs_cuda = pytest.mark.skipif(not usable_cuda(), reason="needs onnxruntime-gpu and a GPU")


def device_named(name: str) -> OnnxDevice:
    return cuda() if name == "cuda" else CPU_AS_DEVICE


EACH_DEVICE = ["cpu", pytest.param("cuda", marks=needs_cuda)]
