"""A bundle's graphs as ONNX Runtime's sessions on the processor, and the encoder and decoder that run them.

A graph has a session to run beside others and one to run alone; `Traffic` tells a run which it is. Numpy
arrays are the inputs and outputs of a decoder's run, where they are: nothing is copied.
"""

import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from export.bundle import BundleError
from server.errors import InferenceError
from server.runtime.model_spec import Array, ModelSpec, cache_names
from server.runtime.sessions import StepBuffers

_log = logging.getLogger("dragoman.runtime")
_WRITTEN = "_written_"

QUIET_S = 0.005
"""How long the other threads must not have run: a worker spends less than this between two of its steps."""

_REMEMBERED = 64
"""Threads that are kept in mind before the long idle ones are dropped; reloads leave some behind."""

FileStates = Mapping[str, tuple[int, int, int]]
"""Of every file of a directory: inode, bytes, and time of the last change in nanoseconds."""


def file_states(directory: Path) -> FileStates:
    """Note what would be another if a file were replaced or written to; nothing if the directory is gone."""
    try:
        found = {path.name: path.stat() for path in directory.iterdir()}
    except OSError:
        return {}
    return {name: (state.st_ino, state.st_size, state.st_mtime_ns) for name, state in found.items()}


class Traffic:
    """Notes which threads run graphs, of whatever model, and when. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with a quiet machine.

        Args:
            clock: monotonic seconds.
        """
        self._clock = clock
        self._ended_s: dict[int, float] = {}

    @contextmanager
    def run(self) -> Iterator[bool]:
        """Note a run of the calling thread.

        Yields:
            Whether no other thread is running a graph now, nor was within the last `QUIET_S`.
        """
        me, quiet_since_s = threading.get_ident(), self._clock() - QUIET_S
        if len(self._ended_s) > _REMEMBERED:
            for thread, ended_s in [*self._ended_s.items()]:
                if ended_s < quiet_since_s:
                    self._ended_s.pop(thread, None)
        alone = all(ended_s < quiet_since_s for thread, ended_s in [*self._ended_s.items()] if thread != me)
        self._ended_s[me] = math.inf
        try:
            yield alone
        finally:
            self._ended_s[me] = self._clock()


PROCESS_TRAFFIC = Traffic()
"""Of this process: models that are served together share its cores."""


class Graph:
    """One graph, loaded for a worker among others and, when that is first needed, for a worker alone.

    Thread-safe.
    """

    def __init__(
        self,
        load: Callable[[int], ort.InferenceSession],
        threads: int,
        solo_threads: int,
        is_unchanged: Callable[[], bool],
    ) -> None:
        """Load it.

        Args:
            load: makes a session of this graph with so many threads.
            threads: of a run beside others.
            solo_threads: of a run that has the machine to itself; not more than `threads` switches it off.
            is_unchanged: tells whether the files are still those that were verified. When a new bundle is
                being put in their place, what they hold now is no part of this model.
        """
        self._load = load
        self._threads = threads
        self._solo_threads = solo_threads if solo_threads > threads else 0
        self._is_unchanged = is_unchanged
        self._lock = threading.Lock()
        self._solo: ort.InferenceSession | None = None
        self.shared = load(threads)

    def renew(self) -> ort.InferenceSession | None:
        """Load it once more, in the place of `shared`, which lives on for who has it.

        None if the files are not what they were, or cannot be loaded any more.
        """
        if (renewed := self._load_again(self._threads)) is not None:
            self.shared = renewed
        return renewed

    def session(self, alone: bool) -> ort.InferenceSession:
        """Give the session for a run."""
        if not alone or not self._solo_threads:
            return self.shared
        with self._lock:
            if self._solo is None and self._solo_threads:
                self._solo = self._load_again(self._solo_threads)
                if self._solo is None:
                    self._solo_threads = 0  # what failed once is not tried again
            return self._solo or self.shared

    def _load_again(self, threads: int) -> ort.InferenceSession | None:
        if not self._is_unchanged():
            _log.warning("the bundle's files have changed since it was loaded: going on without them")
            return None
        try:
            return self._load(threads)
        except BundleError as error:
            _log.warning("going on without another session: %s", error)
            return None


class OnnxEncoder:
    """The encoder graph. Thread-safe."""

    def __init__(self, graph: Graph, run_options: ort.RunOptions, spec: ModelSpec) -> None:
        """Wrap the encoder graph; each decoder layer has an output for keys and one for values."""
        self._graph = graph
        self._run_options = run_options
        self._source = spec.source_input
        self._outputs = list(cache_names(spec.decoder_layers, "cross"))

    def encode(self, source: Array, lengths: NDArray[np.int32]) -> Sequence[Array]:
        """Compute cross-attention keys and values; see `EncoderSession.encode`."""
        feeds = {self._source: source, "lengths": lengths}
        try:
            with PROCESS_TRAFFIC.run() as alone:
                session = self._graph.session(alone)
                outputs: Sequence[Array] = session.run(self._outputs, feeds, self._run_options)
        except Exception as error:
            raise InferenceError(f"the encoder failed: {type(error).__name__}") from error
        return outputs


class OnnxDecoder:
    """A decoder graph with this worker's bindings. Owned by one worker thread."""

    def __init__(self, graph: Graph, run_options: ort.RunOptions) -> None:
        """Wrap the decoder graph of one beam width."""
        self._graph = graph
        self._run_options = run_options
        self._bindings: weakref.WeakKeyDictionary[StepBuffers, dict[bool, ort.IOBinding]] = (
            weakref.WeakKeyDictionary()
        )

    def step(self, buffers: StepBuffers) -> None:
        """Run the decoder for one target position of every row; see `DecoderSession.step`."""
        try:
            with PROCESS_TRAFFIC.run() as alone:
                session = self._graph.session(alone)
                bindings = self._bindings.setdefault(buffers, {})
                if alone not in bindings:
                    bindings[alone] = bind_step(session, buffers)
                session.run_with_iobinding(bindings[alone], self._run_options)
        except Exception as error:
            raise InferenceError(f"the decoder failed: {type(error).__name__}") from error


def bind_arrays(
    session: ort.InferenceSession,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    binding: ort.IOBinding | None = None,
) -> ort.IOBinding:
    """Bind arrays by their addresses; they must be C-contiguous and live as long as the binding.

    Args:
        session: on the processor.
        inputs: by the names of the graph's inputs.
        outputs: by the names of its outputs; the runs write them.
        binding: of the session, to be added to; a new one if None.
    """
    binding = binding or session.io_binding()
    for name, array in inputs.items():
        binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    return binding


def bind_step(session: ort.InferenceSession, buffers: StepBuffers) -> ort.IOBinding:
    """Bind the arrays of a decoder's step; arguments as of `bind_arrays`.

    A decoder that writes its self-attention's caches itself has them as further outputs, `self_key_written_i`
    and `self_value_written_i`: bound to the same memory, or it would copy them at every step.
    """
    written = {
        node.name: buffers.inputs[node.name.replace(_WRITTEN, "_")]
        for node in session.get_outputs()
        if _WRITTEN in node.name
    }
    return bind_arrays(session, buffers.inputs, {**buffers.outputs, **written})
