"""Runs that a device records once and plays back.

A decoder step of 6 layers is 130 kernels, and starting them one by one takes longer than most of them run:
0.8 ms for one sentence, of which the GPU works 0.3 (H200). CUDA can record them with all their addresses and
start them together (*CUDA graphs*): 0.4 ms.

A recording reads its inputs where they were, so what the host says has a fixed place on the device, too; and
what the graph read on the host when it was recorded stays as it was. When caches have grown there are others,
and the old recordings are of no use any more.
"""

import itertools
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from server.runtime.device.device import DeviceRun, DeviceTensor, OnnxDevice
from server.runtime.onnx.capture_lock import DEVICE_GATE

_log = logging.getLogger("dragoman.runtime")

_INT64 = np.dtype(np.int64)

_numbers = itertools.count(1)
"""Of all recordings of this process: two workers' recordings of one session must not have the same."""

MOST_RECORDINGS = 256
"""Of a session, which keeps them as long as it lives: 0.45 MiB each of 6 layers (ONNX Runtime 1.31)."""


class Recorder:
    """A session whose runs can be recorded. Owned by one thread.

    Attributes:
        device: where it runs.
        session: opened with `OnnxDevice.replaying`.
        run_options: of runs that are not recorded; they also say when to stop.
        made: recordings so far, those of runs that are no more included.
    """

    def __init__(
        self, device: OnnxDevice, session: ort.InferenceSession, run_options: ort.RunOptions
    ) -> None:
        """Record nothing yet."""
        self.device = device
        self.session = session
        self.run_options = run_options
        self.made = 0

    @property
    def full(self) -> bool:
        """Whether there are as many recordings as a session may have."""
        return self.made >= MOST_RECORDINGS

    def new_options(self) -> ort.RunOptions:
        """Give the options of a run that is recorded the first time and played back from then on."""
        self.made += 1
        options = ort.RunOptions()
        options.add_run_config_entry("gpu_graph_id", str(next(_numbers)))
        return options


class ReplayedRun(DeviceRun):
    """A session with bindings that never change, and its recording. Owned by one thread."""

    def __init__(
        self,
        recorder: Recorder,
        arrays: Mapping[str, NDArray[Any]],
        scalars: Mapping[str, NDArray[Any]],
        inputs: Mapping[str, DeviceTensor],
        outputs: Mapping[str, DeviceTensor],
    ) -> None:
        """Bind everything; the first run records.

        Args:
            recorder: with the session.
            arrays: on the host; what is in them is brought over before every run.
            scalars: that the graph reads on the host; they stay what they are.
            inputs: on the device.
            outputs: on the device.
        """
        super().__init__(recorder.session, recorder.run_options)
        self._arrays = StagingBuffer(recorder.device, arrays) if arrays else None
        self.bind_inputs({**inputs, **(self._arrays.tensors if self._arrays else {})})
        self.bind_now(scalars)
        self.bind_outputs(outputs)
        self._replaying = recorder.new_options()
        self._recorded = False
        self._may_record = True

    def replay(self) -> None:
        """Run to the end with what the host arrays hold now; record it if that can be done."""
        if self._run_options.terminate:
            raise RuntimeError("no run is wanted any more")
        if not self._recorded and self._may_record:
            with DEVICE_GATE.alone() as alone:
                if alone and self._record():
                    return
        with DEVICE_GATE.together():
            self._bring()
            self._run(self._replaying if self._recorded else self._run_options)

    def _bring(self) -> None:
        if self._arrays is not None:
            self._arrays.bring()

    def _record(self) -> bool:
        self._bring()
        try:
            self._run(self._replaying)
        except Exception:  # noqa: BLE001 - whatever it is, plain runs may still do
            _log.exception("a run cannot be recorded; its kernels are started one by one")
            self._may_record = False
        else:
            self._recorded = True
        return self._recorded


class StagingBuffer:
    """Host arrays and their places on a device: one copy brings all up to date. Owned by one thread.

    Attributes:
        tensors: their places by name.
    """

    def __init__(self, device: OnnxDevice, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the arrays, and memory for what is in them."""
        words = [-(-array.nbytes // _INT64.itemsize) for array in arrays.values()]
        ends = list(itertools.accumulate(words))
        self._arrays = dict(arrays)
        self._parts = {
            name: slice(end - size, end) for name, size, end in zip(arrays, words, ends, strict=True)
        }
        self._host = np.zeros(sum(words), _INT64)
        self._copies = self._views_of(self._host)
        self._memory = device.zeros([sum(words)], _INT64)
        self.tensors = {
            name: self._memory[part].view(arrays[name].shape, arrays[name].dtype)
            for name, part in self._parts.items()
        }

    def bring(self) -> None:
        """Copy what is in the arrays to the device; for who has passed the gate."""
        for name, array in self._arrays.items():
            self._copies[name][...] = array
        self._memory.memory.update_inplace(self._host)

    def fetch(self) -> dict[str, NDArray[Any]]:
        """Copy what is on the device, into new arrays."""
        with DEVICE_GATE.together():
            return self._views_of(self._memory.memory.numpy())

    def _views_of(self, words: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Give the arrays that lie side by side in words, int64."""
        found: dict[str, NDArray[Any]] = {}
        for name, like in self._arrays.items():
            flat = words[self._parts[name]].view(like.dtype)[: like.size]
            found[name] = flat.reshape(like.shape)
        return found
