"""Runs that are recorded. The processor records nothing, so that here the plain run is what is replayed."""

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from server.runtime.device.cuda_graphs import Recorder, ReplayedRun, StagingBuffer
from server.runtime.device.device import DeviceTensor, OnnxDevice
from server.runtime.onnx.capture_lock import DEVICE_GATE
from server.runtime.onnx.graph_writer import GraphWriter
from tests.server.runtime.devices import CPU_AS_DEVICE, EACH_DEVICE, device_named

FLOAT, INT64, INT32 = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.int32)
NEVER = "-1"


class WatchedSession(ort.InferenceSession):
    """Notes which recording every run was of; may fail at one."""

    fails_to_record = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.numbers: list[str] = []

    def run_with_iobinding(self, iobinding: ort.IOBinding, run_options: Any = None) -> None:
        number = run_options.get_run_config_entry("gpu_graph_id")
        if self.fails_to_record and number != NEVER:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.numbers.append(number)
        super().run_with_iobinding(iobinding, run_options)


class Sums:
    """A graph that adds two host arrays and a tensor of the device, into another tensor there."""

    def __init__(self, device: OnnxDevice) -> None:
        graph = GraphWriter()
        first = graph.input("first", INT64, ["n", 1])
        second = graph.input("second", INT32, ["n", 1])
        third = graph.input("third", INT64, ["n", 1])
        as_long = graph.node("Cast", [second], to=7)
        graph.node("Add", [graph.node("Add", [first, as_long]), third], ["sum"])
        graph.output("sum", INT64, ["n", 1])
        options = ort.SessionOptions()
        options.log_severity_level = 4
        self.session = WatchedSession(graph.serialise(), options, providers=device.replaying)
        self.recorder = Recorder(device, self.session, device.run_options)
        self.arrays = {"first": np.zeros((3, 1), np.int64), "second": np.zeros((3, 1), np.int32)}
        third_of = ort.OrtValue.ortvalue_from_numpy(np.full((3, 1), 1000), device.name, 0)
        self.inputs = {"third": DeviceTensor.of(third_of, device.name, INT64)}
        self.outputs = {"sum": device.zeros([3, 1], INT64)}
        self.run = self.make()

    def make(self) -> ReplayedRun:
        return ReplayedRun(self.recorder, self.arrays, {}, self.inputs, self.outputs)

    def check(self, first: int, second: int) -> None:
        self.arrays["first"][...] = [[first], [first + 1], [first + 2]]
        self.arrays["second"][...] = second
        self.run.replay()
        found = self.outputs["sum"].memory.numpy().reshape(-1).tolist()
        assert found == [1000 + first + second + place for place in range(3)]


@pytest.mark.parametrize("device", EACH_DEVICE)
def test_a_replay_sees_what_the_host_arrays_hold_now(device: str) -> None:
    sums = Sums(device_named(device))
    for first, second in ((0, 0), (10, 5), (-7, 3), (1 << 40, -9)):
        sums.check(first, second)
    (number,) = set(sums.session.numbers)
    assert number != NEVER


@pytest.mark.parametrize("device", EACH_DEVICE)
def test_every_recording_has_a_number_of_its_own(device: str) -> None:
    """Of one recorder, and of two workers' over one session: with the same, one would replay the other's."""
    place = device_named(device)
    sums = Sums(place)
    sums.check(1, 2)
    sums.run = sums.make()
    sums.check(3, 4)
    sums.check(5, 6)
    first, second, third = sums.session.numbers
    assert first != second == third
    assert sums.recorder.made == 2
    assert not sums.recorder.full
    sums.recorder = Recorder(place, sums.session, place.run_options)
    sums.outputs["sum"] = place.zeros([3, 1], INT64)
    sums.run = sums.make()
    sums.check(7, 8)
    assert sums.session.numbers[-1] not in (first, second)


@pytest.mark.parametrize("device", EACH_DEVICE)
def test_beside_another_thread_on_the_device_nothing_is_recorded(device: str) -> None:
    sums = Sums(device_named(device))
    with DEVICE_GATE.together():
        sums.check(1, 2)
    sums.check(3, 4)
    assert sums.session.numbers[0] == NEVER != sums.session.numbers[1]


def test_what_cannot_be_recorded_is_run_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    sums = Sums(CPU_AS_DEVICE)
    sums.session.fails_to_record = True
    for first in range(3):
        sums.check(first, 1)
    assert sums.session.numbers == [NEVER] * 3
    assert [record.message for record in caplog.records] == [
        "a run cannot be recorded; its kernels are started one by one"
    ]


def test_a_replay_ends_with_all_others() -> None:
    device = OnnxDevice("cpu", ["CPUExecutionProvider"], ["CPUExecutionProvider"])
    sums = Sums(device)
    sums.check(1, 2)
    device.run_options.terminate = True
    with pytest.raises(RuntimeError):
        sums.run.replay()


def test_arrays_side_by_side_do_not_touch() -> None:
    arrays = {
        "long": np.arange(5, dtype=np.int64).reshape(5, 1),
        "odd": np.arange(10, 13, dtype=np.int32),
        "half": np.arange(20, 29, dtype=np.float16).reshape(3, 3),
    }
    beside = StagingBuffer(CPU_AS_DEVICE, arrays)
    beside.bring()
    arrays["odd"] += 1  # seen by the next one only
    for name, tensor in beside.tensors.items():
        assert (tensor.shape, tensor.dtype) == (arrays[name].shape, arrays[name].dtype)
    memory = beside.tensors["long"].memory
    assert memory.numpy()[5:7].tobytes() == pad(np.array([10, 11, 12], np.int32))
    beside.bring()
    assert memory.numpy().tobytes() == b"".join(map(pad, arrays.values()))


def pad(array: np.ndarray) -> bytes:
    """The array's bytes, filled up to whole words of eight."""
    content = array.tobytes()
    return content + b"\0" * (-len(content) % 8)
