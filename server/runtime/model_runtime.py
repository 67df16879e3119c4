"""A bundle's graphs on ONNX Runtime.

One `InferenceSession` per graph, shared by all workers, each run on the caller's thread: on a CPU many
workers of one thread beat one worker of many. Every worker has its own IO bindings.

A worker that has the machine to itself uses the cores of the others: a second session of the same graph,
with several threads that spin while a run lasts. On two cores that takes 1.5 instead of 2.5 ms for one row of
6+6 layers of 512 (int8), and gives the same bits. It takes as much memory again as the graphs that were used
so, unless packed weights are shared (`packed_weights`).
"""

import functools
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from export.bundle import BundleError, Manifest
from server.errors import InferenceError
from server.process_tuning import return_free_memory
from server.runtime.device.device import OnnxDevice
from server.runtime.device.sessions import DeviceDecoder, DeviceEncoder, DeviceMemory
from server.runtime.model_spec import ModelSpec, cache_names
from server.runtime.multi_step.graphs import MultiStepGraphs
from server.runtime.multi_step.session import OnnxBeamMultiStep, OnnxGreedyMultiStep
from server.runtime.onnx.packed_weights import open_packed, packed_graphs
from server.runtime.onnx.projection import COLUMN_INPUTS, OnnxColumns
from server.runtime.onnx.session_options import CPU, Provider, open_session, run_options, session_options
from server.runtime.onnx.sessions import FileStates, Graph, OnnxDecoder, OnnxEncoder, file_states
from server.runtime.onnx.top_k_ranker import OnnxRanker, host_ranking_graph
from server.runtime.sessions import DecoderSession, EncoderSession, MultiStepSession

PROCESSOR = OnnxDevice("cpu", CPU, CPU)

_log = logging.getLogger("dragoman.runtime")

Loader = Callable[[str], Callable[[int], ort.InferenceSession]]
"""Given a file, gives what loads its graph for runs of so many threads."""

_INT8 = "tensor(int8)"
_DTYPES: dict[str, np.dtype[Any]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(float16)": np.dtype(np.float16),
    _INT8: np.dtype(np.int8),
}


class ModelRuntime:
    """A bundle's encoder and decoders, loaded. Thread-safe.

    Attributes:
        spec: what the engine must know of the model.
        device: where caches and scores lie; None for numpy arrays.
        encoder: shared by all workers.
        columns: of the projection, if decoders with a shortlist are loaded, which take them as inputs.
    """

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        *,
        intra_op_threads: int = 1,
        solo_threads: int = 1,
        device: OnnxDevice | None = None,
        beam_widths: Sequence[int] = (1,),
        shortlist: bool = False,
        multi_step: bool = False,
        weights_cache: Path | None = None,
    ) -> None:
        """Load a verified bundle.

        Args:
            directory: the bundle; its files must have been compared with the manifest.
            manifest: its manifest.
            intra_op_threads: threads of one run; 1 is best when there are as many workers as cores.
            solo_threads: threads of a run while no other is in progress; the number of cores is best.
            device: where caches and scores lie; None for numpy arrays.
            beam_widths: widths whose decoder is loaded now; the others are loaded when they are first needed.
            shortlist: use the bundle's shortlist, if it has one.
            multi_step: load the multi-step graphs of width 1 and of the model's own beam width now, not when
                they are first needed: who forks processes wants them to share these.
            weights_cache: folder of weights that were packed for this processor, which all sessions share;
                None packs them for every session.

        Raises:
            BundleError: a graph is not what the manifest says, or ONNX Runtime refuses it.
        """
        self._manifest = manifest
        self._device, self.device = device, None if device is None else DeviceMemory(device)
        self._shortlist = manifest.shortlist if shortlist and device is None else None
        graphs = manifest.graphs if self._shortlist is None else self._shortlist
        self._decoder_files = graphs.decoders
        self._threads, self._solo_threads = intra_op_threads, solo_threads
        # Neither knows this object, so that nothing keeps weights that are let go.
        self._is_unchanged = functools.partial(_is_unchanged, directory, file_states(directory))
        where = PROCESSOR if device is None else device
        packed = {} if device or not weights_cache else packed_graphs(weights_cache, directory, manifest)
        self._encoder_loader = functools.partial(_loader, directory, packed, where.providers)
        self._loader = functools.partial(_loader, directory, packed, where.replaying)
        self._run_options = run_options()
        self._locks = {int(width): threading.Lock() for width in self._decoder_files}
        self._decoders: dict[int, Graph] = {}
        self.spec = self._read_spec(self._decoder_graph(1).shared)
        self.encoder = self._load_encoder()
        self._multi_step = self._load_multi_step()
        self.columns = self._load_columns()
        self._load_now(beam_widths, multi_step)

    def decoder(self, beam_width: int) -> DecoderSession:
        """Give a decoder of this beam width: new bindings over the shared session.

        Raises:
            InferenceError: its graph was not loaded before and cannot be loaded now.
        """
        try:
            graph = self._decoder_graph(beam_width)
        except BundleError as error:
            raise InferenceError(str(error)) from error
        if self._device is not None:
            return DeviceDecoder(graph, self._run_options, self._device)
        return OnnxDecoder(graph, self._run_options)

    def multi_step(self, beam_width: int, stop: NDArray[np.int64]) -> MultiStepSession | None:
        """Give what makes several steps of a few sentences; see `Runtime.multi_step`.

        Beams have it loaded with the first sentence of their width, though it may be long until there are
        few: memory that comes much later looks like a leak.
        """
        graphs = [] if self._multi_step is None else self._multi_step.of(beam_width)
        if not graphs:
            return None
        if beam_width == 1:
            return OnnxGreedyMultiStep(graphs, self._run_options, stop, self.spec)
        for graph in graphs:
            graph.session(alone=True)
        return OnnxBeamMultiStep(graphs, self._run_options, stop, self.spec)

    def ranker(self, best: int) -> OnnxRanker:
        """Give what finds the best columns of scores in numpy arrays; see `Runtime.ranker`."""
        own_columns = self._shortlist is not None  # every batch has scores of another width
        graph = host_ranking_graph(None if own_columns else self.spec.vocabulary_size, best)
        return OnnxRanker(PROCESSOR.session(graph), PROCESSOR.run_options)

    def terminate(self) -> None:
        """Make every run, now and later, end with InferenceError."""
        self._run_options.terminate = True

    def _load_encoder(self) -> EncoderSession:
        file, device = self._manifest.graphs.encoder, self._device
        graph = self._graph(file, self._encoder_loader)
        inputs = {node.name: node for node in graph.shared.get_inputs()}
        if self.spec.source_input not in inputs:
            raise BundleError(file, f"the graph has no tensor {self.spec.source_input}")
        if self.spec.source_features:
            _require(file, "features", inputs["features"].shape[-1], self.spec.source_features)
        if device is not None:
            return DeviceEncoder(graph.shared, self._run_options, device.name, self.spec)
        return OnnxEncoder(graph, self._run_options, self.spec)

    def _decoder_graph(self, beam_width: int) -> Graph:
        """Load the decoder of a beam width, once."""
        with self._locks[beam_width]:
            if beam_width not in self._decoders:
                self._decoders[beam_width] = self._graph(self._decoder_files[str(beam_width)])
            return self._decoders[beam_width]

    def _load_multi_step(self) -> MultiStepGraphs | None:
        """Prepare what makes several steps at once, if sentences are decoded over all words."""
        if self._device is not None or self._shortlist is not None:
            return None
        graphs, threads = self._manifest.graphs, (self._threads, self._solo_threads)
        return MultiStepGraphs(graphs, self._loader, *threads, self._is_unchanged)

    def _load_columns(self) -> OnnxColumns | None:
        if self._shortlist is None:
            return None
        file = self._shortlist.columns
        return OnnxColumns(file, self._graph(file).shared, self._run_options)

    def _load_now(self, beam_widths: Sequence[int], multi_step: bool) -> None:
        """Load what need not wait until it is needed."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # opening a session lets other threads run
            [*pool.map(self._decoder_graph, beam_widths)]
        if multi_step and self._multi_step is not None:
            for width in {1, self._manifest.generation.beam_size or 1}:
                self._multi_step.load(width)
        return_free_memory()  # of loading; forked processes would have it, too

    def _graph(self, file: str, loader: Loader | None = None) -> Graph:
        """Load one graph."""
        load = (loader or self._loader)(file)
        return Graph(load, self._threads, self._solo_threads, self._is_unchanged)

    def _read_spec(self, decoder: ort.InferenceSession) -> ModelSpec:
        """Check that the decoder graph is the one that the manifest describes."""
        manifest = self._manifest
        size, tokens, limits = manifest.architecture, manifest.special_tokens, manifest.limits
        inputs = {node.name: node for node in decoder.get_inputs()}
        outputs = {node.name: node for node in decoder.get_outputs()}
        file = self._decoder_files["1"]
        state = inputs.get("self_state_0")
        expected = _expected_inputs(size.decoder_layers, has_state=state is not None)
        expected |= set(COLUMN_INPUTS) if self._shortlist is not None else set()
        missing = expected - inputs.keys() or {"logits"} - outputs.keys()
        if missing:
            raise BundleError(file, f"the graph has no tensor {min(missing)}")
        # Of keys and values of both attentions, shapes and types are alike.
        first = inputs["cross_key_0" if state else "self_key_0"]
        _require(file, f"{first.name} heads", first.shape[1], size.decoder_heads)
        _require(file, f"{first.name} head size", first.shape[3], size.head_dim)
        if state is not None:
            _require(file, "self_state_0 size", state.shape[3], size.d_model)
        _require(file, "logits width", outputs["logits"].shape[-1], size.vocab_size)
        if first.type not in _DTYPES or (first.type == _INT8 and self._device):
            raise BundleError(file, f"{first.name} is a {first.type}")
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
            suppressed_ids=tokens.suppressed_ids,
            forced_end=tokens.forced_end,
            appends_cross="cross_last_key_0" in inputs,
            source_features=size.source_features,
            state_size=0 if state is None else size.d_model,
        )


def _loader(
    directory: Path,
    packed: Mapping[str, Path],
    providers: Sequence[Provider],
    file: str,
) -> Callable[[int], ort.InferenceSession]:
    """Give what loads a graph for runs of so many threads."""
    return functools.partial(_load, directory / file, packed.get(file), providers)


def _load(
    file: Path, packed: Path | None, providers: Sequence[Provider], threads: int
) -> ort.InferenceSession:
    """Load a graph for runs of so many threads, with packed weights if there are any."""
    options = functools.partial(session_options, threads, providers, spin=threads > 1)
    if packed is not None:
        try:
            return open_packed(packed, options())
        except Exception as error:  # noqa: BLE001 - the bundle's own graph says whether it is the reason
            _log.warning("%s packs its weights for itself: %s", file.name, error)
    try:
        return open_session(file, options(), providers)
    except Exception as error:
        raise BundleError(file.name, f"ONNX Runtime does not load it: {error}") from error


def _is_unchanged(directory: Path, states: FileStates) -> bool:
    return file_states(directory) == states


def _expected_inputs(layers: int, *, has_state: bool) -> set[str]:
    """Names of a decoder graph's inputs."""
    names = {"input_ids", "positions", "self_lengths", "self_total", "cross_lengths", "cross_total"}
    names.update(cache_names(layers, "cross"))
    own = [f"self_state_{layer}" for layer in range(layers)] if has_state else cache_names(layers, "self")
    return names | {*own}


def _require(file: str, what: str, found: Any, expected: int) -> None:
    """Compare a static size of a graph with the manifest; a symbolic one says nothing."""
    if isinstance(found, int) and found != expected:
        raise BundleError(file, f"{what} is {found}, the manifest says {expected}")
