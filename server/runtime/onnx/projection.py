"""The vocabulary projection of a bundle with a shortlist, of which any columns can be read."""

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from export.bundle import BundleError
from server.errors import InferenceError
from server.runtime.model_spec import Array

COLUMN_INPUTS = ("column_weights", "column_scales", "column_biases")


class OnnxColumns:
    """The graph from tokens to their columns; see `ColumnSource`. Thread-safe."""

    def __init__(self, file: str, session: ort.InferenceSession, run_options: ort.RunOptions) -> None:
        """Wrap a loaded graph.

        Raises:
            BundleError: it is another graph.
        """
        inputs = [node.name for node in session.get_inputs()]
        outputs = [node.name for node in session.get_outputs()]
        if (inputs, outputs) != (["ids"], list(COLUMN_INPUTS)):
            raise BundleError(file, f"its graph does not turn ids into {', '.join(COLUMN_INPUTS)}")
        width = session.get_outputs()[0].shape[:1]
        if not (width and isinstance(width[0], int)):
            raise BundleError(file, "its columns have no width: export the shortlist again")
        self.width: int = width[0]
        self._session = session
        self._run_options = run_options

    def columns(self, ids: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Read columns; see `ColumnSource.columns`."""
        try:
            weights, scales, biases = self._session.run(COLUMN_INPUTS, {"ids": ids}, self._run_options)
        except Exception as error:
            raise InferenceError(f"the columns cannot be read: {type(error).__name__}") from error
        return weights, scales, biases
