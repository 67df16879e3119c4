"""Text to token ids and back, through SentencePiece (Kudo and Richardson, 2018).

A leaf: imports nothing of this project but ``model.byte_level``, so that the server can use it without torch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from model.byte_level import split_words, to_bytes, to_characters

UNKNOWN, END, PADDING, START = "<unk>", "</s>", "<pad>", "<s>"
_WORD_BEGINS = "\u2581"
_MAX_VOCABULARY_BYTES = 1 << 26
_MANY = 256
"""Texts that SentencePiece takes in one call, which saves 0.8 of 3 us a text but begins a thread, 50 us."""


class TokenizerError(ValueError):
    """A tokenizer file is missing or is not what it should be; the message names the file."""


class _Side:
    """One language's SentencePiece model; its own ids."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        self.processor = processor
        self.size = int(processor.get_piece_size())
        self.pad_id = int(processor.pad_id())
        self.unk_id = int(processor.unk_id())
        self.bos_id = int(processor.bos_id())
        self.eos_id = int(processor.eos_id())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]]
        if len(texts) < _MANY:
            ids = [self.processor.encode(text, out_type=int) for text in texts]
        else:
            ids = self.processor.encode(list(texts), out_type=int, num_threads=1)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self.processor.decode([int(i) for i in ids])
        return text

    def pieces(self) -> list[str]:
        pieces: list[str] = self.processor.id_to_piece(list(range(self.size)))
        return pieces

    def words(self) -> dict[str, float]:
        ids = list(range(self.processor.get_piece_size()))
        pieces, scores = self.processor.id_to_piece(ids), self.processor.get_score(ids)
        return {
            piece[1:]: score
            for piece, score in zip(pieces, scores, strict=True)
            if piece[0] == _WORD_BEGINS and piece[1:].isalpha()
        }

    def word_score(self, word: str) -> float | None:
        return self._score(_WORD_BEGINS + word)

    def _score(self, piece: str) -> float | None:
        number = self.processor.piece_to_id(piece)
        return None if number == self.processor.unk_id() else float(self.processor.get_score(number))


class _ListedSide(_Side):
    """A SentencePiece model that only cuts; ids come from a list, as in MarianMT.

    A piece that is not in the list is unknown, and a piece that SentencePiece does not know may be in it.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, ids: dict[str, int]) -> None:
        super().__init__(processor)
        self._ids = ids
        self._pieces = {number: piece for piece, number in ids.items()}
        self._silent = {ids[piece] for piece in (UNKNOWN, END, PADDING, START) if piece in ids}
        self.size = max(ids.values()) + 1
        self.unk_id, self.eos_id = ids[UNKNOWN], ids[END]
        self.pad_id = self.bos_id = ids.get(PADDING, self.eos_id)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        ids, unknown = self._ids, self.unk_id
        return [
            [ids.get(piece, unknown) for piece in self.processor.encode(text, out_type=str)] for text in texts
        ]

    def decode(self, ids: Sequence[int]) -> str:
        pieces = [self._pieces[i] for i in map(int, ids) if i in self._pieces and i not in self._silent]
        text: str = self.processor.decode_pieces(pieces)
        # Pieces that SentencePiece does not know come out with the mark of a word's beginning.
        return text.replace(_WORD_BEGINS, " ").strip()

    def pieces(self) -> list[str]:
        return [self._pieces.get(number, "") for number in range(self.size)]


class _ByteLevelSide(_Side):
    """A SentencePiece model whose pieces are made of characters that stand for bytes, within words.

    It has a piece for every byte of UTF-8, so what it does not know is what is put between words here.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        super().__init__(processor)
        self._bytes = [
            b"" if processor.is_control(i) or i == self.unk_id else to_bytes(processor.id_to_piece(i))
            for i in range(self.size)
        ]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        joined = ["\n".join(map(to_characters, split_words(text))) for text in texts]
        return [[i for i in ids if i != self.unk_id] for ids in super().encode(joined)]

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self._bytes[i] for i in ids).decode("utf-8", "replace")

    def pieces(self) -> list[str]:
        names = super().pieces()
        return [
            _shown(content) if content else name for content, name in zip(self._bytes, names, strict=True)
        ]

    def words(self) -> dict[str, float]:
        return {
            piece[1:]: self.processor.get_score(i)
            for i, piece in enumerate(self.pieces())
            if piece[0] == _WORD_BEGINS and piece[1:].isalpha()
        }

    def word_score(self, word: str) -> float | None:
        return self._score(to_characters(f" {word}"))


def _shown(content: bytes) -> str:
    """Write bytes as SentencePiece names its pieces: text, or ``<0xC3>`` for what is only a part of it."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in content)
    return text.replace(" ", _WORD_BEGINS)


class Tokenizer:
    """One SentencePiece model for both sides, or one a side. Thread-safe.

    Special ids never come out of text: SentencePiece treats ``</s>`` or ``<pad>`` typed by a user as
    ordinary characters, because the special pieces are control symbols.
    """

    def __init__(self, source: _Side, target: _Side) -> None:
        self._source = source
        self._target = target

    @classmethod
    def load(
        cls,
        source: Path,
        target: Path | None = None,
        vocabulary: Path | None = None,
        target_vocabulary: Path | None = None,
        byte_level: bool = False,
    ) -> Tokenizer:
        """Load from files.

        Args:
            source: SentencePiece model of the source language, or of both if ``target`` is None.
            target: SentencePiece model of the target language.
            vocabulary: JSON object of piece to id, if ids are not those of the SentencePiece models.
            target_vocabulary: that of the target side, if it has its own.
            byte_level: whether the SentencePiece models' characters stand for bytes.

        Raises:
            TokenizerError: a file is missing or is not what it should be.
        """
        first = _load(source)
        second = first if target is None else _load(target)
        if vocabulary is not None:
            ids = read_vocabulary(vocabulary)
            target_ids = ids if target_vocabulary is None else read_vocabulary(target_vocabulary)
            return cls(_ListedSide(first, ids), _ListedSide(second, target_ids))
        side = _ByteLevelSide if byte_level else _Side
        try:
            one = side(first)
            return cls(one, one if target is None else side(second))
        except ValueError as error:
            raise TokenizerError(f"{source}: no byte-level model: {error}") from None

    @property
    def source_vocab_size(self) -> int:
        """Entries of the source vocabulary."""
        return self._source.size

    @property
    def target_vocab_size(self) -> int:
        """Entries of the target vocabulary."""
        return self._target.size

    @property
    def pad_id(self) -> int:
        """Id of padding."""
        return self._target.pad_id

    @property
    def unk_id(self) -> int:
        """Id of an unknown piece; does not occur with byte fallback."""
        return self._target.unk_id

    @property
    def bos_id(self) -> int:
        """Id that decoding starts with."""
        return self._target.bos_id

    @property
    def eos_id(self) -> int:
        """Id that ends a sentence."""
        return self._target.eos_id

    def encode(self, text: str) -> list[int]:
        """Turn source text into ids, without special ids; text without content gives an empty list."""
        return self._source.encode([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn source texts into ids, as ``encode`` does."""
        return self._source.encode(texts)

    def encode_target_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn target texts into ids, for training and scoring."""
        return self._target.encode(texts)

    def source_pieces(self) -> list[str]:
        """Name every source id; an id that stands for nothing is empty."""
        return self._source.pieces()

    def source_words(self) -> dict[str, float]:
        """Name the source pieces that begin a word and have letters only, with SentencePiece's score.

        Of a unigram model the score is a log-probability, of byte-pair encoding minus the rank.
        """
        return self._source.words()

    def source_word_score(self, word: str) -> float | None:
        """Give the score of one of the source words, None if it is none; see `source_words`.

        Args:
            word: of letters only.
        """
        return self._source.word_score(word)

    def target_pieces(self) -> list[str]:
        """Name every target id; an id that stands for nothing is empty."""
        return self._target.pieces()

    def decode(self, ids: Sequence[int]) -> str:
        """Turn target ids into text; special ids leave no trace."""
        return self._target.decode(ids)


def read_vocabulary(path: Path) -> dict[str, int]:
    """Read a list of ids: a JSON object of piece to id.

    Raises:
        TokenizerError: missing, too large, or no such object; two pieces share an id; a special piece lacks.
    """
    try:
        if path.stat().st_size > _MAX_VOCABULARY_BYTES:
            raise TokenizerError(f"{path}: more than {_MAX_VOCABULARY_BYTES} bytes")
        ids = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise TokenizerError(f"{path}: no such vocabulary file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise TokenizerError(f"{path}: not JSON: {error}") from None
    if not isinstance(ids, dict) or not all(type(number) is int and number >= 0 for number in ids.values()):
        raise TokenizerError(f"{path}: not an object of pieces and ids")
    if len(set(ids.values())) != len(ids):
        raise TokenizerError(f"{path}: two pieces have the same id")
    for piece in (UNKNOWN, END):
        if piece not in ids:
            raise TokenizerError(f"{path}: has no {piece}")
    return ids


def _load(path: Path) -> sentencepiece.SentencePieceProcessor:
    if not path.is_file():
        raise TokenizerError(f"{path}: no such tokenizer file")
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError, ValueError) as error:  # its message may quote what is no text
        raise TokenizerError(f"{path}: not a SentencePiece model") from error
