"""Text to token ids and back, through SentencePiece (Kudo and Richardson, 2018).

A leaf: imports nothing of this project, so that the server can use it without torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import sentencepiece


class TokenizerError(ValueError):
    """A tokenizer file is missing or is not a SentencePiece model; the message names the file."""


def _load(path: Path) -> sentencepiece.SentencePieceProcessor:
    if not path.is_file():
        raise TokenizerError(f"{path}: no such tokenizer file")
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise TokenizerError(f"{path}: not a SentencePiece model") from error


class Tokenizer:
    """One SentencePiece model for both sides, or one a side. Thread-safe.

    Special ids never come out of text: SentencePiece treats ``</s>`` or ``<pad>`` typed by a user as
    ordinary characters, because the special pieces are control symbols.
    """

    def __init__(
        self, source: sentencepiece.SentencePieceProcessor, target: sentencepiece.SentencePieceProcessor
    ) -> None:
        self._source = source
        self._target = target

    @classmethod
    def load(cls, source: Path, target: Path | None = None) -> Tokenizer:
        """Load from files.

        Args:
            source: SentencePiece model of the source language, or of both if ``target`` is None.
            target: SentencePiece model of the target language.

        Raises:
            TokenizerError: a file is missing or is no SentencePiece model.
        """
        first = _load(source)
        return cls(first, first if target is None else _load(target))

    @property
    def source_vocab_size(self) -> int:
        """Entries of the source vocabulary."""
        return int(self._source.get_piece_size())

    @property
    def target_vocab_size(self) -> int:
        """Entries of the target vocabulary."""
        return int(self._target.get_piece_size())

    @property
    def pad_id(self) -> int:
        """Id of padding."""
        return int(self._target.pad_id())

    @property
    def unk_id(self) -> int:
        """Id of an unknown piece; does not occur with byte fallback."""
        return int(self._target.unk_id())

    @property
    def bos_id(self) -> int:
        """Id that decoding starts with."""
        return int(self._target.bos_id())

    @property
    def eos_id(self) -> int:
        """Id that ends a sentence."""
        return int(self._target.eos_id())

    def encode(self, text: str) -> list[int]:
        """Turn source text into ids, without special ids; text without content gives an empty list."""
        ids: list[int] = self._source.encode(text, out_type=int)
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn source texts into ids, as ``encode`` does."""
        ids: list[list[int]] = self._source.encode(list(texts), out_type=int, num_threads=1)
        return ids

    def encode_target_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn target texts into ids, for training and scoring."""
        ids: list[list[int]] = self._target.encode(list(texts), out_type=int, num_threads=1)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Turn target ids into text; special ids leave no trace."""
        text: str = self._target.decode([int(i) for i in ids])
        return text
