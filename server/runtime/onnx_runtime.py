"""A bundle's graphs on ONNX Runtime.

One `InferenceSession` per graph, shared by all workers, each run on the caller's thread: on a CPU many
workers of one thread beat one worker of many. Every worker has its own IO bindings.

Settings that were measured, not assumed:

- The fusion of Add + LayerNormalization into SkipLayerNormalization is kept out: a decoder step of 6 layers
  of 512 with 32 rows takes 12.8 ms with it and 11.5 without. Leaving out all extended optimisations gives
  11.3, too little to forgo them for every graph to come.
- Spinning is off: a spinning thread takes a core from a worker that has something to do.
- Memory patterns are off: they are kept per combination of shapes, and ours change with every sentence. No
  difference in speed was seen, with or without them, nor with or without the memory arena.
"""

import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from export.bundle import BundleError, Manifest
from server.errors import InferenceError

from .session import Array, ModelSpec, StepBuffers, cache_names

CPU = ("CPUExecutionProvider",)

_SLOW_FUSIONS = ["SkipLayerNormFusion"]
_DTYPES: dict[str, np.dtype[Any]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(float16)": np.dtype(np.float16),
}


class OnnxEncoder:
    """The encoder graph. Thread-safe."""

    def __init__(self, session: ort.InferenceSession, run_options: ort.RunOptions, layers: int) -> None:
        """Wrap a loaded session.

        Args:
            session: the encoder graph.
            run_options: options of every run.
            layers: decoder layers, each of which has an output for keys and one for values.
        """
        self._session = session
        self._run_options = run_options
        self._outputs = list(cache_names(layers, "cross"))

    def encode(self, input_ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> Sequence[Array]:
        """Compute cross-attention keys and values; see `EncoderSession.encode`."""
        feeds = {"input_ids": input_ids, "lengths": lengths}
        try:
            outputs: Sequence[Array] = self._session.run(self._outputs, feeds, self._run_options)
        except Exception as error:
            raise InferenceError(f"the encoder failed: {type(error).__name__}") from error
        return outputs


class OnnxDecoder:
    """A decoder graph with this worker's bindings. Owned by one worker thread."""

    def __init__(self, session: ort.InferenceSession, run_options: ort.RunOptions) -> None:
        """Wrap a loaded session.

        Args:
            session: the decoder graph of one beam width.
            run_options: options of every run.
        """
        self._session = session
        self._run_options = run_options
        self._bindings: weakref.WeakKeyDictionary[StepBuffers, ort.IOBinding] = weakref.WeakKeyDictionary()

    def step(self, buffers: StepBuffers) -> None:
        """Run the decoder for one target position of every row; see `DecoderSession.step`."""
        binding = self._bindings.get(buffers)
        try:
            if binding is None:
                binding = self._bindings[buffers] = self._bind(buffers)
            self._session.run_with_iobinding(binding, self._run_options)
        except Exception as error:
            raise InferenceError(f"the decoder failed: {type(error).__name__}") from error

    def _bind(self, buffers: StepBuffers) -> ort.IOBinding:
        """Bind every array by its address; the arrays live as long as `buffers`, and so does the binding."""
        binding = self._session.io_binding()
        for name, array in buffers.inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in buffers.outputs.items():
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        return binding


class ModelRuntime:
    """A bundle's encoder and decoders, loaded. Thread-safe."""

    def __init__(
        self, directory: Path, manifest: Manifest, intra_op_threads: int, providers: Sequence[str]
    ) -> None:
        """Load the encoder and the decoder of width 1; `load` does this and more.

        Args:
            directory: a verified bundle.
            manifest: its manifest.
            intra_op_threads: threads of one run.
            providers: ONNX Runtime execution providers, best first.
        """
        self._directory = directory
        self._manifest = manifest
        self._session_options = session_options(intra_op_threads)
        self._providers = list(providers)
        self._run_options = run_options()
        self._lock = threading.Lock()
        self._decoders: dict[int, ort.InferenceSession] = {}
        self._spec = self._read_spec(self._decoder_session(1))
        self._encoder = OnnxEncoder(
            self._session(manifest.graphs.encoder), self._run_options, self._spec.decoder_layers
        )

    @classmethod
    def load(
        cls,
        directory: Path,
        manifest: Manifest,
        *,
        intra_op_threads: int = 1,
        providers: Sequence[str] = CPU,
        beam_widths: Sequence[int] = (1,),
    ) -> Self:
        """Load a verified bundle.

        Args:
            directory: the bundle; its files must have been compared with the manifest.
            manifest: its manifest.
            intra_op_threads: threads of one run; 1 is best when there are as many workers as cores.
            providers: ONNX Runtime execution providers, best first.
            beam_widths: widths whose decoder is loaded now; the others are loaded when they are first needed.

        Returns:
            The loaded model.

        Raises:
            BundleError: a graph is not what the manifest says, or ONNX Runtime refuses it.
        """
        runtime = cls(directory, manifest, intra_op_threads, providers)
        for width in beam_widths:
            runtime._decoder_session(width)
        return runtime

    @property
    def spec(self) -> ModelSpec:
        """What the engine must know of the model."""
        return self._spec

    @property
    def encoder(self) -> OnnxEncoder:
        """The encoder, shared by all workers."""
        return self._encoder

    def decoder(self, beam_width: int) -> OnnxDecoder:
        """Give a decoder of this beam width: new bindings over the shared session.

        Raises:
            InferenceError: its graph was not loaded before and cannot be loaded now.
        """
        try:
            session = self._decoder_session(beam_width)
        except BundleError as error:
            raise InferenceError(str(error)) from error
        return OnnxDecoder(session, self._run_options)

    def terminate(self) -> None:
        """Make every run, now and later, end with InferenceError."""
        self._run_options.terminate = True

    def _decoder_session(self, beam_width: int) -> ort.InferenceSession:
        """Load the decoder of a beam width, once."""
        with self._lock:
            if beam_width not in self._decoders:
                self._decoders[beam_width] = self._session(self._manifest.graphs.decoders[str(beam_width)])
            return self._decoders[beam_width]

    def _session(self, file: str) -> ort.InferenceSession:
        """Load one graph."""
        try:
            return open_session(self._directory / file, self._session_options, self._providers)
        except Exception as error:
            raise BundleError(file, f"ONNX Runtime does not load it: {error}") from error

    def _read_spec(self, decoder: ort.InferenceSession) -> ModelSpec:
        """Check that the decoder graph is the one that the manifest describes."""
        manifest = self._manifest
        size, tokens, limits = manifest.architecture, manifest.special_tokens, manifest.limits
        inputs = {node.name: node for node in decoder.get_inputs()}
        outputs = {node.name: node for node in decoder.get_outputs()}
        file = manifest.graphs.decoders["1"]
        missing = _expected_inputs(size.decoder_layers) - inputs.keys() or {"logits"} - outputs.keys()
        if missing:
            raise BundleError(file, f"the graph has no tensor {min(missing)}")
        first = inputs["self_key_0"]
        _require(file, "self_key_0 heads", first.shape[1], size.decoder_heads)
        _require(file, "self_key_0 head size", first.shape[3], size.head_dim)
        _require(file, "logits width", outputs["logits"].shape[-1], size.vocab_size)
        if first.type not in _DTYPES:
            raise BundleError(file, f"self_key_0 is a {first.type}")
        return ModelSpec(
            decoder_layers=size.decoder_layers,
            decoder_heads=size.decoder_heads,
            head_size=size.head_dim,
            vocabulary_size=size.vocab_size,
            cache_dtype=_DTYPES[first.type],
            pad_id=tokens.pad_id,
            eos_id=tokens.eos_id,
            decoder_start_id=tokens.decoder_start_id,
            beam_widths=manifest.graphs.beam_widths,
            max_source_tokens=limits.max_source_tokens,
            max_target_tokens=limits.max_target_tokens,
        )


def open_session(file: Path, options: ort.SessionOptions, providers: Sequence[str]) -> ort.InferenceSession:
    """Load a graph without the fusions that are slower than what they replace."""
    return ort.InferenceSession(
        str(file), options, providers=list(providers), disabled_optimizers=_SLOW_FUSIONS
    )


def session_options(intra_op_threads: int) -> ort.SessionOptions:
    """Options of every session; the module's docstring says why."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = intra_op_threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return options


def run_options() -> ort.RunOptions:
    """Options of every run; graph capture is a matter of WebGPU and CUDA, and off.

    Saying so saves time on the CPU: where the entry is missing, `run_with_iobinding` looks for it, raises and
    catches an exception, which took 0.08 ms of a step of 3 ms.
    """
    options = ort.RunOptions()
    options.add_run_config_entry("gpu_graph_id", "-1")
    return options


def _expected_inputs(layers: int) -> set[str]:
    """Names of a decoder graph's inputs."""
    names = {"input_ids", "positions", "self_lengths", "self_total", "cross_lengths", "cross_total"}
    for kind in ("self", "cross", "cross_last"):
        names.update(cache_names(layers, kind))
    return names


def _require(file: str, what: str, found: Any, expected: int) -> None:
    """Compare a static size of a graph with the manifest; a symbolic one says nothing."""
    if isinstance(found, int) and found != expected:
        raise BundleError(file, f"{what} is {found}, the manifest says {expected}")
