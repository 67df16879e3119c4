"""Sizes of a model, and the names of its tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""An array of any dtype."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What the engine must know of a model.

    Attributes:
        decoder_layers: layers that have a cache.
        decoder_heads: attention heads H of the decoder.
        head_size: size D of one head.
        vocabulary_size: target vocabulary V.
        cache_dtype: dtype of keys and values: float32, float16 or int8.
        source_features: values F of a feature vector, where sources are such vectors; 0 for token ids.
        appends_cross: whether the decoder is given the last source token's keys and values at every step.
        state_size: numbers E of the state that each layer of a recurrent decoder keeps of a target instead of
            keys and values: a cache of one position, however long the target; 0 if there is self-attention.
        pad_id: fills the source on the right.
        eos_id: ends a target.
        decoder_start_id: the first input of the decoder.
        beam_widths: beam sizes for which there is a decoder, ascending.
        max_source_tokens: longest source, prefix and suffix included.
        max_target_tokens: longest target, to which a larger `max_decoding_length` is lowered; also the
            largest cache capacity.
        suppressed_ids: tokens that are never written.
        forced_end: whether a target that reaches its longest length must have the end token there.
    """

    decoder_layers: int
    decoder_heads: int
    head_size: int
    vocabulary_size: int
    cache_dtype: np.dtype[Any]
    pad_id: int
    eos_id: int
    decoder_start_id: int
    beam_widths: tuple[int, ...]
    max_source_tokens: int
    max_target_tokens: int
    suppressed_ids: tuple[int, ...] = ()
    forced_end: bool = False
    appends_cross: bool = False
    source_features: int = 0
    state_size: int = 0

    @property
    def source_input(self) -> str:
        """Name of the encoder's input: `input_ids` int64 [N, S], or `features` float32 [N, S, F]."""
        return "features" if self.source_features else "input_ids"

    @property
    def self_names(self) -> Sequence[str]:
        """Names of what the decoder keeps of a target, layer by layer."""
        if self.state_size:
            return [f"self_state_{layer}" for layer in range(self.decoder_layers)]
        return cache_names(self.decoder_layers, "self")

    @property
    def state_dtype(self) -> np.dtype[Any]:
        """Dtype of the state: a sum over all positions, which 8 bits would not do for."""
        return np.dtype(np.float32) if self.cache_dtype == np.int8 else self.cache_dtype


def cache_names(layers: int, kind: str) -> Sequence[str]:
    """Names of one kind of cache tensor (`self`, `cross` or `cross_last`), layer by layer.

    They are `<kind>_key_0`, `<kind>_value_0`, `<kind>_key_1`, ...
    """
    return [f"{kind}_{part}_{layer}" for layer in range(layers) for part in ("key", "value")]
