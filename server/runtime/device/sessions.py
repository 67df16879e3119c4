"""A bundle's graphs on a device: what they compute stays there.

Each run ends with a wait for the device, so that runs of different sessions, which have streams of their own
there, see what was written before.
"""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from server.errors import InferenceError
from server.runtime.device.cuda_graphs import Recorder, ReplayedRun
from server.runtime.device.device import DeviceRun, DeviceTensor, OnnxDevice, bucket_size
from server.runtime.device.kv_cache import DeviceCaches
from server.runtime.device.ranker import DeviceRanker
from server.runtime.model_spec import ModelSpec, cache_names
from server.runtime.onnx.capture_lock import DEVICE_GATE
from server.runtime.onnx.sessions import Graph
from server.runtime.sessions import StepBuffers

RECORDED_AFTER = 2
"""Steps of a batch of one size before one is recorded: a recording takes as long as five, and sizes that a
batch only passes through are not worth it."""

LEAST_POSITIONS = 8
"""Of an encoder run."""


class DeviceEncoder:
    """The encoder graph, its outputs left on the device. Thread-safe.

    Runs are made for usual sizes: the first one of another size takes 4 to 12 ms instead of 0.9 (H200).
    """

    def __init__(
        self, session: ort.InferenceSession, run_options: ort.RunOptions, device: str, spec: ModelSpec
    ) -> None:
        """Wrap the session of an encoder graph on the device of this name."""
        self._session = session
        self._run_options = run_options
        self._device = device
        self._dtype = spec.cache_dtype
        self._longest = spec.max_source_tokens
        self._pad_id = spec.pad_id
        self._source = spec.source_input
        self._outputs = cache_names(spec.decoder_layers, "cross")

    def encode(self, source: NDArray[Any], lengths: NDArray[np.int32]) -> Sequence[DeviceTensor]:
        """Compute cross-attention keys and values; see `EncoderSession.encode`.

        Returns:
            As there, with more sentences and positions behind those that were asked for.
        """
        count, longest = source.shape[:2]
        padded = max(longest, min(max(LEAST_POSITIONS, bucket_size(longest)), self._longest))
        shape = (bucket_size(count), padded, *source.shape[2:])
        padded_source = np.full(shape, self._pad_id, source.dtype)
        padded_source[:count, :longest] = source
        padded_lengths = np.ones(len(padded_source), np.int32)
        padded_lengths[:count] = lengths
        try:
            run = DeviceRun(self._session, self._run_options)
            run.bind_new(self._outputs, self._device)
            run.run({self._source: padded_source, "lengths": padded_lengths})
            return run.results(self._device, self._dtype)
        except Exception as error:
            raise InferenceError(f"the encoder failed: {type(error).__name__}") from error


class DeviceDecoder:
    """A decoder graph with this worker's bindings. Owned by one worker thread."""

    def __init__(self, graph: Graph, run_options: ort.RunOptions, device: OnnxDevice) -> None:
        """Wrap a decoder graph of one beam width that was loaded for replays."""
        self._graph = graph
        self._recorder = Recorder(device, graph.shared, run_options)
        self._steps: weakref.WeakKeyDictionary[StepBuffers, _Step] = weakref.WeakKeyDictionary()
        self._may_renew = True

    def step(self, buffers: StepBuffers) -> None:
        """Run the decoder for one target position of every row; see `DecoderSession.step`."""
        try:
            step = self._steps.get(buffers)
            if step is not None and step.is_due and self._recorder.full and self._may_renew:
                self._renew()
                step = self._steps.get(buffers)
            if step is None:
                step = self._steps[buffers] = _Step(self._recorder, buffers)
            step.run()
        except Exception as error:
            raise InferenceError(f"the decoder failed: {type(error).__name__}") from error

    def _renew(self) -> None:
        """Go on with a session that has no recordings yet, if there can be one."""
        session = self._graph.renew()
        self._may_renew = session is not None
        if session is not None:
            with DEVICE_GATE.together():  # the old one's memory is freed
                self._steps.clear()
                self._recorder = Recorder(self._recorder.device, session, self._recorder.run_options)


class _Step:
    """Steps on the same buffers: bound anew with what the host says, later recorded."""

    def __init__(self, recorder: Recorder, buffers: StepBuffers) -> None:
        self._recorder = recorder
        self._host: dict[str, NDArray[Any]] = {}
        self._inputs: dict[str, DeviceTensor] = {}
        for name, value in buffers.inputs.items():
            if isinstance(value, DeviceTensor):
                self._inputs[name] = value
            else:
                self._host[name] = value
        self._outputs = dict(buffers.outputs)
        self._run = DeviceRun(recorder.session, recorder.run_options)
        self._run.bind_inputs(self._inputs)
        self._run.bind_outputs(self._outputs)
        self._replayed: ReplayedRun | None = None
        self._runs = 0

    @property
    def is_due(self) -> bool:
        """Whether it has been made so often that it is to be recorded."""
        return self._runs >= RECORDED_AFTER and self._replayed is None

    def run(self) -> None:
        """Make a step."""
        if self.is_due and not self._recorder.full:
            self._replayed = self._for_replays()
        if self._replayed is not None:
            self._replayed.replay()
        else:
            self._runs += 1
            self._run.run(self._host)

    def _for_replays(self) -> ReplayedRun:
        """Say on the device what the host says, but for the totals, which a recording takes as they are.

        They are only bounds of the lengths, which choose among kernels; every length fits the capacity.
        """
        own = self._inputs.get("self_key_0", self._inputs["cross_key_0"])  # with a state nobody asks
        totals = {
            "self_total": np.array(own.shape[2], np.int32),
            "cross_total": np.array(self._inputs["cross_key_0"].shape[2], np.int32),
        }
        arrays = {name: array for name, array in self._host.items() if name not in totals}
        return ReplayedRun(self._recorder, arrays, totals, self._inputs, self._outputs)


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
