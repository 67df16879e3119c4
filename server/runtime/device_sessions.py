"""A bundle's graphs on a device: what they compute stays there.

Each run ends with a wait for the device, so that runs of different sessions, which have streams of their own
there, see what was written before.
"""

import weakref
from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from server.errors import InferenceError

from .device import DeviceRun, DeviceTensor, OnnxDevice
from .device_caches import DeviceCaches
from .device_scores import DeviceRanker
from .session import ModelSpec, StepBuffers, cache_names


class DeviceEncoder:
    """The encoder graph, its outputs left on the device. Thread-safe."""

    def __init__(
        self, session: ort.InferenceSession, run_options: ort.RunOptions, device: str, spec: ModelSpec
    ) -> None:
        """Wrap a loaded session.

        Args:
            session: the encoder graph.
            run_options: options of every run.
            device: name of the device.
            spec: sizes of the model.
        """
        self._session = session
        self._run_options = run_options
        self._device = device
        self._dtype = spec.cache_dtype
        self._outputs = cache_names(spec.decoder_layers, "cross")

    def encode(self, input_ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> Sequence[DeviceTensor]:
        """Compute cross-attention keys and values; see `EncoderSession.encode`."""
        try:
            run = DeviceRun(self._session, self._run_options)
            run.bind_inputs({"input_ids": input_ids, "lengths": lengths})
            run.bind_new(self._outputs, self._device)
            run.run()
            return run.results(self._device, self._dtype)
        except Exception as error:
            raise InferenceError(f"the encoder failed: {type(error).__name__}") from error


class DeviceDecoder:
    """A decoder graph with this worker's bindings. Owned by one worker thread."""

    def __init__(self, session: ort.InferenceSession, run_options: ort.RunOptions) -> None:
        """Wrap a loaded session.

        Args:
            session: the decoder graph of one beam width.
            run_options: options of every run.
        """
        self._session = session
        self._run_options = run_options
        self._runs: weakref.WeakKeyDictionary[StepBuffers, DeviceRun] = weakref.WeakKeyDictionary()

    def step(self, buffers: StepBuffers) -> None:
        """Run the decoder for one target position of every row; see `DecoderSession.step`."""
        try:
            run = self._runs.get(buffers)
            if run is None:
                run = DeviceRun(self._session, self._run_options)
                run.bind_inputs(buffers.inputs)
                run.bind_outputs(buffers.outputs)
                self._runs[buffers] = run
            else:
                run.bind_inputs(
                    {name: value for name, value in buffers.inputs.items() if isinstance(value, np.ndarray)}
                )
            run.run()
        except Exception as error:
            raise InferenceError(f"the decoder failed: {type(error).__name__}") from error


class DeviceMemory:
    """Makes what an arena and a search keep on a device; see `memory.Device`. Thread-safe."""

    def __init__(self, device: OnnxDevice) -> None:
        """Take the device."""
        self._device = device

    def caches(self, spec: ModelSpec, beam_width: int, max_sentences: int) -> DeviceCaches:
        """Make caches; see `memory.Device`."""
        return DeviceCaches(self._device, spec, beam_width, max_sentences)

    def ranker(self, spec: ModelSpec, rows: int, best: int) -> DeviceRanker:
        """Make a ranker; see `memory.Device`."""
        return DeviceRanker(self._device, spec, rows, best)
