"""The best columns of every row of scores and their log-probabilities, in one run of ONNX Runtime.

numpy does the same with a dozen calls, each of which gives Python's lock away and waits to have it back; see
docs/experiments/search.md.

**Blocks.** The k best columns lie in the k blocks with the largest maxima: a block that is not among them has
k others before it, each with a column that is better than all of its own. So the maximum of every block is
computed, which is one pass of vector instructions, and only k blocks are searched.

**Ties.** By ONNX's definition the lower of two equal columns is the better one, and ONNX Runtime's CPU kernel
keeps to it. Of its CUDA kernels not all do: where more than k columns reach the k-th score, which of the
equal ones are found depends on the kernel that is chosen for the size.

**Broken rows.** A number that is not finite makes all of a row's log-probabilities NaN. CUDA's LogSoftmax of
up to 1,024 columns gives finite ones for a row of nothing but minus infinity, its ReduceMax a finite largest
score, and its TopK some other row's column: for so few it is counted how many are more than that.
"""

from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from server.runtime.memory import Floats
from server.runtime.model_spec import Array
from server.runtime.onnx.graph_writer import ELEMENT_TYPES, GraphWriter
from server.runtime.onnx.sessions import bind_arrays

_FLOAT, _INT64 = np.dtype(np.float32), np.dtype(np.int64)

_RUN_ELEMENTS = 1 << 18
"""Scores of one run: 1 MiB, so that they and what is computed of them stay in the caches."""


class OnnxRanker:
    """Ranks scores that lie in a numpy array; see `memory.Ranker`. Owned by the worker thread."""

    def __init__(self, session: ort.InferenceSession, run_options: ort.RunOptions) -> None:
        """Wrap a session of `host_ranking_graph`, on the processor."""
        self._session = session
        self._run_options = run_options
        self._best: int = session.get_outputs()[0].shape[1]
        # Of scores of any width only the last are kept bound.
        self._same_again = isinstance(session.get_inputs()[0].shape[1], int)
        self._bound: dict[tuple[int, ...], _Bound] = {}

    def best(self, logits: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Rank the columns of every row; see `memory.Ranker`. Raises MemoryError if the run failed."""
        where = (logits.ctypes.data, *logits.shape)
        bound = self._bound.get(where)
        if bound is None:
            if not self._same_again:
                self._bound.clear()
            bound = self._bound[where] = _Bound(self._session, logits, self._best)
        try:
            for binding in bound.bindings:
                self._session.run_with_iobinding(binding, self._run_options)
        except Exception as error:  # the graph works, so there is only one reason
            raise MemoryError(f"scores cannot be ranked: {error}") from error
        return bound.columns, bound.log_probabilities


class _Bound:
    """Arrays of one address and size, and the runs over them, a few rows each."""

    def __init__(self, session: ort.InferenceSession, logits: Floats, best: int) -> None:
        self._logits = logits  # bound by its address, which must stay its own
        self.columns = np.empty((len(logits), best), np.int64)
        self.log_probabilities = np.empty((len(logits), best), np.float32)
        self.bindings: list[ort.IOBinding] = []
        rows = max(1, _RUN_ELEMENTS // logits.shape[1])
        for first in range(0, len(logits), rows):
            part = slice(first, first + rows)
            outputs: dict[str, Array] = {
                "columns": self.columns[part],
                "log_probabilities": self.log_probabilities[part],
            }
            self.bindings.append(bind_arrays(session, {"logits": logits[part]}, outputs))


def host_ranking_graph(vocabulary: int | None, best: int) -> bytes:
    """Write the graph that suits a processor best; no `vocabulary` if the number of columns changes."""
    if vocabulary is None:
        return any_width_graph(best)
    return ranking_graph(vocabulary, best, block=block_size(vocabulary, best))


def block_size(vocabulary: int, best: int) -> int | None:
    """Choose how many columns make a block, so that the least has to be searched for the best ones.

    Gives a divisor of the vocabulary; None if there is none with which half of it need not be searched.
    """

    def searched(block: int) -> int:
        return vocabulary // block + best * block

    fitting = [block for block in range(1, vocabulary // best + 1) if vocabulary % block == 0]
    block = min(fitting, key=searched, default=1)
    return block if 2 * searched(block) < vocabulary else None


def ranking_graph(
    vocabulary: int,
    best: int,
    never: Sequence[int] = (),
    block: int | None = None,
    *,
    doubts_softmax: bool = False,
) -> bytes:
    """Write the graph that finds the best columns of rows and their log-probabilities.

    Scores are compared, not their log-probabilities: subtracting can make two of them equal.

    Args:
        vocabulary: columns V.
        best: columns k of each row to find, at most V.
        never: columns whose scores are taken to be minus infinity.
        block: a divisor of V, at most V / k: only the k best blocks of so many columns are searched; None
            searches all columns.
        doubts_softmax: whether LogSoftmax may give numbers for a row without any.
    """
    graph = GraphWriter()
    scores = graph.input("logits", _FLOAT, ["R", vocabulary])
    if never:
        bans = np.zeros(vocabulary, np.float32)
        bans[list(never)] = -np.inf
        scores = graph.node("Add", [scores, graph.weight(bans)])
    if block is None:
        _search_all(graph, scores, best)
    else:
        _search_blocks(graph, scores, vocabulary, best, block)
    return _with_log_probabilities(graph, scores, best, doubts_softmax=doubts_softmax)


def any_width_graph(best: int) -> bytes:
    """Write the graph that does the same for rows of any number of columns, without bans and blocks.

    Columns of minus infinity behind a row leave no trace, if their number is a multiple of
    `server.engine.search.log_sum_exp.LANES`, as ONNX Runtime sums in fewer lanes.

    Args:
        best: columns k of each row to find; there must be as many.
    """
    graph = GraphWriter()
    scores = graph.input("logits", _FLOAT, ["R", "V"])
    _search_all(graph, scores, best)
    return _with_log_probabilities(graph, scores, best)


def _with_log_probabilities(
    graph: GraphWriter, scores: str, best: int, *, doubts_softmax: bool = False
) -> bytes:
    """Add the nodes that give the log-probabilities of the `columns` that were found; returns the graph."""
    every = graph.node("LogSoftmax", [scores])
    if doubts_softmax:
        found = graph.node("GatherElements", [every, "columns"], axis=1)
        are_more = graph.node("Greater", [scores, graph.weight(np.full(1, -np.inf, np.float32))])
        ones = graph.node("Cast", [are_more], to=ELEMENT_TYPES[_FLOAT.name])
        count = graph.node("ReduceSum", [ones, graph.weight(_ints(1))])
        zero_or_nan = graph.node("Div", [graph.weight(np.zeros(1, np.float32)), count])
        graph.node("Add", [found, zero_or_nan], ["log_probabilities"])
    else:
        graph.node("GatherElements", [every, "columns"], ["log_probabilities"], axis=1)
    graph.output("log_probabilities", _FLOAT, ["R", best])
    graph.output("columns", _INT64, ["R", best])
    return graph.serialise()


def _search_all(graph: GraphWriter, scores: str, best: int) -> None:
    """Add the node that finds the `columns` of the k best scores."""
    graph.node("TopK", [scores, graph.weight(_ints(best))], ["values", "columns"])


def _search_blocks(graph: GraphWriter, scores: str, vocabulary: int, best: int, block: int) -> None:
    """Add the nodes that find the `columns` of the k best scores in the k blocks with the largest maxima."""
    wanted = graph.weight(_ints(best))
    blocks = graph.node("Reshape", [scores, graph.weight(_ints(0, vocabulary // block, block))])
    largest = graph.node("ReduceMax", [blocks, graph.weight(_ints(2))], keepdims=0)
    graph.node("TopK", [largest, wanted], ["maxima", "by_maximum"])
    # Ascending, so that of two equal scores the one in the lower column comes first.
    graph.node("TopK", ["by_maximum", wanted], ["chosen", "order"], largest=0)
    indices = graph.node("Unsqueeze", ["chosen", graph.weight(_ints(2))])
    few = graph.node("GatherND", [blocks, indices], batch_dims=1)
    side_by_side = graph.node("Reshape", [few, graph.weight(_ints(0, best * block))])
    graph.node("TopK", [side_by_side, wanted], ["values", "places"])
    size = graph.weight(_ints(block))
    nth = graph.node("Div", ["places", size])
    skipped = graph.node("Sub", [graph.node("GatherElements", ["chosen", nth], axis=1), nth])
    graph.node("Add", ["places", graph.node("Mul", [skipped, size])], ["columns"])


def _ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)
