"""The multi-step graphs of one bundle: for greedy search and for each beam width.

One is loaded when few sentences are first decoded, mostly golden ones at the start, and then stands in for
the decoder's own session of that kind (`sessions.Graph`): with several threads if a step is worth them, and
then only while no other worker runs.
"""

import logging
import threading
from collections.abc import Callable

import onnxruntime as ort

from export.bundle import BundleError, Graphs

TOKENS = "tokens"
_INPUTS = frozenset({"steps", "stop", "end_id", "bans"})
"""Inputs of a graph but for the decoder's."""

_BEAM_INPUTS = _INPUTS | {"order", "scores", "room", "first_rows"}
BEAM_OUTPUTS = ("offers", TOKENS, "totals", "chosen", "sums")
"""The first outputs of the graph of a beam search; behind them come the caches."""

_log = logging.getLogger("dragoman.runtime")


class MultiStepGraph:
    """A multi-step graph, loaded once. Thread-safe."""

    def __init__(
        self,
        file: str,
        load: Callable[[int], ort.InferenceSession],
        threads: int,
        is_unchanged: Callable[[], bool],
        beams: bool,
        needs_machine: bool,
    ) -> None:
        """Load nothing yet.

        Args:
            file: its name.
            load: makes a session with so many threads.
            threads: of a run.
            is_unchanged: as for `sessions.Graph`.
            beams: whether it is one of beam search.
            needs_machine: whether it is for a run that has the machine to itself.
        """
        self._file = file
        self._load = load
        self._threads = threads
        self._is_unchanged = is_unchanged
        self._inputs = _BEAM_INPUTS if beams else _INPUTS
        self._outputs = BEAM_OUTPUTS if beams else (TOKENS,)
        self._needs_machine = needs_machine
        self._lock = threading.Lock()
        self._session: ort.InferenceSession | None = None
        self._given_up = False

    def session(self, alone: bool) -> ort.InferenceSession | None:
        """Give the session for a run; None if there is to be none."""
        if self._given_up or (self._needs_machine and not alone):
            return None
        with self._lock:
            if self._session is None and not self._given_up:
                try:
                    if not self._is_unchanged():
                        raise BundleError(self._file, "the bundle's files have changed since it was loaded")
                    self._session = self._checked(self._load(self._threads))
                except BundleError as error:
                    self._given_up = True
                    _log.warning("few sentences are decoded step by step: %s", error)
            return self._session

    def _checked(self, session: ort.InferenceSession) -> ort.InferenceSession:
        """Compare a graph's tensors with what is bound; those of the caches are the decoder's."""
        given = {node.name for node in session.get_inputs()}
        outputs = [node.name for node in session.get_outputs()]
        found, caches = outputs[: len(self._outputs)], outputs[len(self._outputs) :]
        missing = {"input_ids", *self._inputs} - given
        if missing or found != [*self._outputs] or not all(name.startswith("self_") for name in caches):
            raise BundleError(self._file, "the graph is none that makes several steps of a decoder")
        return session


class MultiStepGraphs:
    """The graphs, each loaded when a sentence first could need it. Thread-safe."""

    def __init__(
        self,
        graphs: Graphs,
        loader: Callable[[str], Callable[[int], ort.InferenceSession]],
        threads: int,
        solo_threads: int,
        is_unchanged: Callable[[], bool],
    ) -> None:
        """Load nothing yet.

        Args:
            graphs: of the bundle.
            loader: given a file, gives what makes a session of it with so many threads.
            threads: of a run beside others.
            solo_threads: of a run that has the machine to itself.
            is_unchanged: as for `sessions.Graph`.
        """
        files = {int(width): file for width, file in graphs.beam_multi_step.items()}
        if graphs.multi_step is not None:
            files[1] = graphs.multi_step
        most = max(threads, solo_threads)
        self._graphs: dict[int, list[MultiStepGraph]] = {}
        for width, file in files.items():
            # Of greedy search only one thread is worth a run beside others.
            shared = 1 if width == 1 else threads
            self._graphs[width] = [
                MultiStepGraph(file, loader(file), number, is_unchanged, width > 1, number > shared)
                for number in sorted({most} if width == 1 else {most, threads}, reverse=True)
            ]

    def of(self, beam_width: int) -> list[MultiStepGraph]:
        """Give the graphs of a beam width, none if the bundle has none.

        The first is for who is alone, if that has more threads; beams have a second one for who is not.
        """
        return self._graphs.get(beam_width, [])

    def load(self, beam_width: int) -> None:
        """Load the graphs of a beam width now, not when they are first needed."""
        for graph in self.of(beam_width):
            graph.session(alone=True)
