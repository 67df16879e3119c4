"""Devices that tests run on: the CPU as one, always, and CUDA where there is one."""

import onnxruntime as ort
import pytest

from server.errors import SettingError
from server.runtime.device import OnnxDevice, cuda

CPU_AS_DEVICE = OnnxDevice("cpu", ["CPUExecutionProvider"], ["CPUExecutionProvider"])


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
