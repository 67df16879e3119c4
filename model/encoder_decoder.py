"""What every model here is: an encoder and a decoder, behind one interface for training and evaluation.

Shapes: N sentences, R rows, S source length, T target length, E width, V target vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor, nn

from model.config import AnyConfig


class EncoderDecoder(nn.Module):
    """A conditional language model of targets; not thread-safe while its cache or weights change.

    Attributes:
        config: the architecture.
        projection: decoder states to unnormalised scores of the target vocabulary, [V, E].
    """

    config: AnyConfig
    projection: nn.Linear

    @abstractmethod
    def encode(self, source_ids: Tensor, source_lengths: Tensor) -> Tensor:
        """Encode padded sources.

        Args:
            source_ids: int64 [N, S], right-padded; or, of a model that reads features, float [N, S, F].
            source_lengths: int64 [N], at least 1 each.

        Returns:
            [N, S, E]; rows beyond a sentence's length are arbitrary and never attended to.
        """

    @abstractmethod
    def decode_hidden(self, target_ids: Tensor, memory: Tensor, source_lengths: Tensor) -> Tensor:
        """Run the decoder over whole targets; returns states [N, T, E] before the output projection."""

    @abstractmethod
    def start_cache(self, memory: Tensor, source_lengths: Tensor, capacity: int) -> Any:
        """Prepare step-by-step decoding of at most ``capacity`` positions; the architecture's own cache."""

    @abstractmethod
    def decode_step(self, input_ids: Tensor, positions: Tensor, cache: Any) -> Tensor:
        """Decode one position.

        Args:
            input_ids: int64 [R, 1], the last token of each row.
            positions: int64 [R, 1], its position.
            cache: of ``start_cache``; changed in place.

        Returns:
            float [R, V], unnormalised scores of the next token.
        """

    def decode(self, target_ids: Tensor, memory: Tensor, source_lengths: Tensor) -> Tensor:
        """Predict every next token of known targets (teacher forcing, causal).

        Args:
            target_ids: int64 [N, T], starting with the decoder's start token.
            memory: [N, S, E], from ``encode``.
            source_lengths: int64 [N].

        Returns:
            float [N, T, V], unnormalised scores of the token after each position.
        """
        return self.projection(self.decode_hidden(target_ids, memory, source_lengths))

    def forward(self, source_ids: Tensor, source_lengths: Tensor, target_ids: Tensor) -> Tensor:
        """Return ``decode(target_ids, encode(source_ids))``, [N, T, V]."""
        return self.decode(target_ids, self.encode(source_ids, source_lengths), source_lengths)
