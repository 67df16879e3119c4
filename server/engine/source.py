"""What a model reads of a sentence, before and in the encoder: token ids, or feature vectors.

A feature vector is float32 [F] as bytes: so a source is a tuple of plain values either way, has a length, can
be compared and hashed, for caches, and goes through a pipe.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from server.runtime.model_spec import Array, ModelSpec

Source = tuple[int | bytes, ...]
"""Token ids with the model's prefix and suffix, or feature vectors."""


def source_of(features: NDArray[np.float32]) -> Source:
    """Make a source of feature vectors, [length, F]."""
    return tuple([vector.tobytes() for vector in features])


def encoder_input(sources: Sequence[Source], lengths: NDArray[np.int32], spec: ModelSpec) -> Array:
    """Lay sources side by side, padded on the right.

    Args:
        sources: N sources.
        lengths: int32 [N], of each.
        spec: of the model.

    Returns:
        Ids int64 [N, S], or features float32 [N, S, F].
    """
    longest = int(lengths.max())
    if spec.source_features:
        features = np.zeros((len(sources), longest, spec.source_features), np.float32)
        for row, source in enumerate(sources):
            joined = np.frombuffer(b"".join(source), np.float32)  # type: ignore[arg-type]
            features[row, : len(source)] = joined.reshape(len(source), -1)
        return features
    ids = np.full((len(sources), longest), spec.pad_id, np.int64)
    for row, source in enumerate(sources):
        ids[row, : len(source)] = source
    return ids
