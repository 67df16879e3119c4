"""Memory on a device, and the runs that work on it.

numpy cannot reach a device, so whatever happens there is an ONNX graph: small ones are written here
(`onnx.graph_writer`) and run by the same execution provider as the model. A tensor is bound by its address,
so a part of one costs nothing, and a graph whose output is bound to the address of an input works in place.

The CPU can be such a device, too: then all of this runs in tests, on the same code.

Things that bite on CUDA: a host array is copied to the device when it is *bound*, not when the graph runs, so
host inputs are bound anew for every run; the copy is only queued, so inputs are waited for before a run, as
outputs are after it; and memory from the allocator holds anything. Whatever may allocate passes a gate
(`onnx.capture_lock`).
"""

import contextlib
import functools
import io
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from server.errors import DeviceError
from server.runtime.onnx.capture_lock import DEVICE_GATE
from server.runtime.onnx.graph_writer import GraphWriter
from server.runtime.onnx.session_options import CPU, SILENT, Provider, run_options

_CUDA = "CUDAExecutionProvider"
_CUDA_OPTIONS = {
    "device_id": "0",
    # Grow by what is needed: the default doubles, and the caches do so themselves already.
    "arena_extend_strategy": "kSameAsRequested",
    # Nothing is convolved; do not search for algorithms.
    "cudnn_conv_algo_search": "DEFAULT",
}
_REPLAYED_OPTIONS = {**_CUDA_OPTIONS, "enable_cuda_graph": "1"}
_PLAIN_OPTIONS = {
    **_CUDA_OPTIONS,
    # Attention by flash (1), memory-efficient (2) or unfused (16) kernels, not by cuDNN's: those are built
    # for every number of sentences and length, which takes 50 ms and saves 0.08 of a run's 0.9 (H200).
    "sdpa_kernel": "19",
}
_ENVIRONMENT = {
    # Attention of one position by ONNX Runtime's XQA kernels, their default, takes 67 us for 256 rows of 8
    # heads of 64 (H200), two thirds of a step of 6 layers of 512; what it has besides takes a fraction.
    "ORT_ENABLE_XQA": "0",
}
_INT64 = np.dtype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTensor:
    """A C-contiguous tensor, or a part of one, in a device's memory, which it keeps alive. Immutable.

    Attributes:
        memory: what was allocated.
        device: its name, as ONNX Runtime has it.
        address: of the first element.
        shape: sizes of the axes.
        dtype: of the elements.
    """

    memory: ort.OrtValue
    device: str
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, memory: ort.OrtValue, device: str, dtype: np.dtype[Any]) -> Self:
        """Wrap a whole value."""
        return cls(memory, device, memory.data_ptr(), tuple(memory.shape()), dtype)

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __getitem__(self, rows: slice) -> Self:
        """Give a part along the first axis: the same memory."""
        first, last, step = rows.indices(self.shape[0])
        if step != 1:
            raise IndexError("a part of a tensor has no steps")
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        shape = (max(0, last - first), *self.shape[1:])
        return type(self)(self.memory, self.device, self.address + first * row_bytes, shape, self.dtype)

    def view(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Self:
        """Give the same memory with another shape and dtype of as many bytes."""
        return type(self)(self.memory, self.device, self.address, tuple(shape), dtype)


class DeviceRun:
    """A session with its bindings. Owned by one thread."""

    def __init__(self, session: ort.InferenceSession, run_options: ort.RunOptions) -> None:
        """Bind nothing yet."""
        self._session = session
        self._run_options = run_options
        self._binding = session.io_binding()
        self._kept: dict[str, DeviceTensor | NDArray[Any]] = {}

    def bind_inputs(self, inputs: Mapping[str, DeviceTensor]) -> None:
        """Bind tensors on the device for all runs to come."""
        for name, value in inputs.items():
            self._kept[name] = value
            dtype = value.dtype.type
            self._binding.bind_input(name, value.device, 0, dtype, value.shape, value.address)

    def bind_outputs(self, outputs: Mapping[str, DeviceTensor | NDArray[Any]]) -> None:
        """Bind where results go, on the device or on the host."""
        for name, value in outputs.items():
            self._kept[name] = value
            if isinstance(value, DeviceTensor):
                place, address = value.device, value.address
            else:
                place, address = "cpu", value.ctypes.data
            self._binding.bind_output(name, place, 0, value.dtype.type, value.shape, address)

    def bind_new(self, names: Sequence[str], device: str) -> None:
        """Let results be allocated on a device; `results` gives them."""
        for name in names:
            self._binding.bind_output(name, device, 0)

    def results(self, device: str, dtype: np.dtype[Any]) -> list[DeviceTensor]:
        """Give what the last run allocated, in the order of `bind_new`; of one dtype."""
        return [DeviceTensor.of(value, device, dtype) for value in self._binding.get_outputs()]

    def run(self, inputs: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Run on what is bound and on these host arrays, to the end: results are there when it returns."""
        with DEVICE_GATE.together():
            self.bind_now(inputs or {})
            self._run(self._run_options)

    def bind_now(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Bind host arrays, with what is in them now; for who has passed the gate."""
        for name, value in inputs.items():
            self._kept[name] = value
            self._binding.bind_cpu_input(name, value)

    def _run(self, run_options: ort.RunOptions) -> None:
        self._binding.synchronize_inputs()
        self._session.run_with_iobinding(self._binding, run_options)
        self._binding.synchronize_outputs()


class OnnxDevice:
    """A device by its name and execution provider. Thread-safe.

    Attributes:
        name: as ONNX Runtime has it, `cuda` or `cpu`.
        providers: execution providers, best first.
        replaying: the same for sessions whose runs may be recorded and replayed; see `cuda_graphs`.
        run_options: of every run on it.
    """

    def __init__(self, name: str, providers: Sequence[Provider], replaying: Sequence[Provider]) -> None:
        """Name a device; `cuda` makes the one that counts."""
        self.name = name
        self.providers, self.replaying = list(providers), list(replaying)
        self.run_options = run_options()

    @functools.cache  # noqa: B019 - there is one device, for the life of the process
    def session(self, model: bytes) -> ort.InferenceSession:
        """Load a small graph, once: on CUDA every session has handles and workspaces of its own."""
        return _open(model, self.providers)

    def session_for_replays(self, model: bytes) -> ort.InferenceSession:
        """Load a small graph for who records its runs: another one every time, as it keeps recordings."""
        return _open(model, self.replaying)

    def zeros(self, shape: Sequence[int], dtype: np.dtype[Any]) -> DeviceTensor:
        """Allocate zeros.

        Raises:
            MemoryError: the device has no room.
        """
        try:
            with DEVICE_GATE.together():
                memory = ort.OrtValue.ortvalue_from_shape_and_type(list(shape), dtype.type, self.name, 0)
        except Exception as error:
            raise MemoryError(f"{self.name}: no room for {list(shape)} of {dtype}") from error
        tensor = DeviceTensor.of(memory, self.name, dtype)
        self.clear(tensor)
        return tensor

    def clear(self, tensor: DeviceTensor) -> None:
        """Set a tensor to zero.

        Raises:
            MemoryError: the run failed.
        """
        run = DeviceRun(self._zeros_session(tensor.dtype), self.run_options)
        elements = math.prod(tensor.shape)
        run.bind_outputs({"zeros": tensor.view([elements], tensor.dtype)})
        try:
            run.run({"shape": np.array([elements], np.int64)})
        except Exception as error:
            raise MemoryError(f"{self.name}: a tensor cannot be cleared") from error

    def _zeros_session(self, dtype: np.dtype[Any]) -> ort.InferenceSession:
        graph = GraphWriter()
        graph.input("shape", _INT64, [1])
        graph.node("ConstantOfShape", ["shape"], ["zeros"], value=np.zeros(1, dtype))
        graph.output("zeros", dtype, ["elements"])
        return self.session(graph.serialise())


def _open(model: bytes, providers: Sequence[Provider]) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = SILENT
    with DEVICE_GATE.together():
        return ort.InferenceSession(model, options, providers=list(providers), enable_fallback=0)


@functools.cache
def cuda() -> OnnxDevice:
    """Give the first CUDA device, after a run on it; always the same one.

    Raises:
        DeviceError: it cannot be used; says why and what to do.
    """
    remedy = "or use --device cpu"
    if _CUDA not in ort.get_available_providers():
        raise DeviceError(
            "setting device: this onnxruntime has no CUDA; install onnxruntime-gpu in its place "
            f"(extra `gpu`, never beside `cpu`), {remedy}"
        )
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    ort.set_default_logger_severity(SILENT)  # of warnings that no log of a session silences
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it lacks; the error below says that
        ort.preload_dlls()
    device = OnnxDevice("cuda", [(_CUDA, _PLAIN_OPTIONS), *CPU], [(_CUDA, _REPLAYED_OPTIONS), *CPU])
    try:
        found = device._zeros_session(np.dtype(np.float32)).get_providers()
        if _CUDA in found:
            device.zeros([1], np.dtype(np.float32))
            return device
        reason = "its CUDA provider does not load"
    except Exception as error:  # noqa: BLE001 - whatever the driver says is the reason
        reason = str(error).splitlines()[0]
    raise DeviceError(
        f"setting device: CUDA cannot be used ({reason}); check the driver with nvidia-smi and, in a "
        f"container, --gpus all, {remedy}"
    )


def has_cuda() -> bool:
    """Whether this onnxruntime was built with CUDA; says nothing about the machine."""
    return _CUDA in ort.get_available_providers()


def bucket_size(count: int) -> int:
    """Round up to a size that is met again: a power of two or one and a half times one, 1, 2, 3, 4, 6, 8, 12.

    On a GPU, rows that nobody needs hardly cost anything, and every new size does: cuDNN builds its attention
    for it (41 ms, H200), cuBLAS chooses its kernels and memory is found (4 to 12 ms for an encoder), and a
    recording of a step takes 4.
    """
    power = 1 << max(0, (count - 1).bit_length())
    return power * 3 // 4 if power > 2 and count <= power * 3 // 4 else power
