"""The projection of a bundle with a shortlist: some of its columns, or all of it at once."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from export.bundle import BundleError
from server.errors import InferenceError
from server.runtime.model_spec import Array
from server.runtime.onnx.io_binding import bind_arrays

if TYPE_CHECKING:
    from server.runtime.onnx.graph import Graph

COLUMN_INPUTS = ("column_weights", "column_scales", "column_biases")
HIDDEN = "hidden"

_DTYPES = {"tensor(uint8)": np.dtype(np.uint8), "tensor(int8)": np.dtype(np.int8)}


class OnnxColumns:
    """The graphs of the projection's columns and of all of it; see `ColumnSource`. Thread-safe."""

    def __init__(
        self, columns: ort.InferenceSession, projection: "Graph | None", run_options: ort.RunOptions
    ) -> None:
        """Wrap loaded graphs.

        Args:
            columns: the graph from tokens to their columns.
            projection: the graph from a decoder's last integers to scores of all tokens, if there is one.
            run_options: options of every run.
        """
        self._columns = columns
        self._projection = projection
        self._run_options = run_options
        self.width = int(columns.get_outputs()[0].shape[1])
        self.hidden_dtype: np.dtype[Any] | None = None
        if projection is not None:
            self.hidden_dtype = _DTYPES[projection.shared.get_inputs()[0].type]

    @classmethod
    def load(
        cls,
        graph: "Callable[[str], Graph]",
        columns: str,
        projection: str | None,
        run_options: ort.RunOptions,
        vocabulary_size: int,
    ) -> Self:
        """Load both graphs of a verified bundle.

        Args:
            graph: loads a file.
            columns: name of the first file.
            projection: name of the second, if there is one.
            run_options: options of every run.
            vocabulary_size: target tokens V.

        Raises:
            BundleError: a file holds another graph.
        """
        some = graph(columns).shared
        _check(columns, some, ["ids"], COLUMN_INPUTS)
        shape = some.get_outputs()[0].shape
        if len(shape) != 2 or not isinstance(shape[1], int):
            raise BundleError(columns, "its columns have no width")
        if projection is None:
            return cls(some, None, run_options)
        whole = graph(projection)
        _check(projection, whole.shared, [HIDDEN], ["logits"])
        hidden, logits = whole.shared.get_inputs()[0], whole.shared.get_outputs()[0]
        if hidden.type not in _DTYPES:
            raise BundleError(projection, f"{HIDDEN} is a {hidden.type}")
        if logits.shape[-1:] != [vocabulary_size]:
            raise BundleError(projection, f"logits are not {vocabulary_size} wide, as the manifest says")
        return cls(some, whole, run_options)

    def columns(self, ids: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Read columns; see `ColumnSource.columns`."""
        try:
            weights, scales, biases = self._columns.run(COLUMN_INPUTS, {"ids": ids}, self._run_options)
        except Exception as error:
            raise InferenceError(f"the columns cannot be read: {type(error).__name__}") from error
        return weights, scales, biases

    def project(self, hidden: Array, logits: NDArray[np.float32]) -> None:
        """Multiply with the whole projection; see `ColumnSource.project`."""
        assert self._projection is not None
        try:
            with self._projection.traffic.run() as alone:
                session = self._projection.session(alone)
                binding = bind_arrays(session, {HIDDEN: hidden}, {"logits": logits})
                session.run_with_iobinding(binding, self._run_options)
        except Exception as error:
            raise InferenceError(f"the projection failed: {type(error).__name__}") from error


def _check(file: str, session: ort.InferenceSession, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Compare the names of a graph's tensors with what they must be."""
    found = [node.name for node in session.get_inputs()], [node.name for node in session.get_outputs()]
    if found != (list(inputs), list(outputs)):
        raise BundleError(file, f"its graph does not turn {', '.join(inputs)} into {', '.join(outputs)}")
