"""What a model reads of a sentence, before and in the encoder: token ids, or feature vectors.

A feature vector is float32 [F] as bytes: so a source is a tuple of plain values either way, has a length, can
be compared and hashed, for caches, and goes through a pipe.
"""

import numpy as np
from numpy.typing import NDArray

Source = tuple[int | bytes, ...]
"""Token ids with the model's prefix and suffix, or feature vectors."""


def source_of(features: NDArray[np.float32]) -> Source:
    """Make a source of feature vectors, [length, F]."""
    return tuple([vector.tobytes() for vector in features])
