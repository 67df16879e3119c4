"""A SentencePiece model whose ids are those of a model, made of one with other ids or of ``tokenizer.json``.

fairseq's models (NLLB, mBART) count their special tokens in other places than SentencePiece and have
language codes behind the pieces; transformers 5 saves no SentencePiece model at all. Which pieces a text is
cut into depends on their scores alone (Kudo, 2018; Sennrich et al., 2016), so they may be numbered anew.
Where two ways to cut have the same score, SentencePiece chooses, as in the model's training.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from export.convert.huggingface_files import HuggingFaceError, check_sentencepiece, read_json

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_UNIGRAM, _BPE = 1, 2
_MAX_TOKENIZER_JSON_BYTES = 1 << 26
_MAX_ROWS = 1 << 22
_HARMLESS_NORMALIZERS = ("Replace", "Strip")
"""What SentencePiece does anyhow: runs of spaces become one, none is left at the ends."""


@dataclass(frozen=True)
class Pieces:
    """What a text can be cut into, by the model's own ids.

    Attributes:
        by_id: piece, score and type.
        proto: a SentencePiece model with everything else: its kind and how it normalizes.
    """

    by_id: Mapping[int, tuple[str, float, int]]
    proto: Any

    def write(self, rows: int, unknown: int, names: Mapping[int, str], path: Path) -> bytes:
        """Make the SentencePiece model.

        Args:
            rows: of the model's embedding; an id without a piece gets one that no text has.
            unknown: id of what is none of the pieces.
            names: special tokens by id: they come from no text, and leave no trace in one.
            path: named in errors.

        Raises:
            HuggingFaceError: ids lie outside the rows, or SentencePiece refuses the result.
        """
        if rows > _MAX_ROWS or max(self.by_id, default=0) >= rows or unknown >= rows:
            raise HuggingFaceError(f"{path}: has pieces outside the model's vocabulary of {rows}")
        made = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
        made.CopyFrom(self.proto)
        del made.pieces[:]
        taken: set[str] = set()
        for number in range(rows):
            name, score, kind = self.by_id.get(number, (names.get(number, ""), 0.0, CONTROL))
            if number in names or number == unknown:
                name, score, kind = names.get(number, "<unk>"), 0.0, CONTROL
            if number == unknown:
                kind = UNKNOWN
            if not name or name in taken:
                name, kind = f"<unused {number}>", CONTROL
            taken.add(name)
            made.pieces.add(piece=name, score=score, type=kind)
        spec = made.trainer_spec
        spec.vocab_size, spec.unk_id, spec.unk_piece = rows, unknown, made.pieces[unknown].piece
        spec.bos_id = spec.eos_id = spec.pad_id = -1
        content: bytes = made.SerializeToString()
        try:
            sentencepiece.SentencePieceProcessor(model_proto=content)
        except (RuntimeError, ValueError) as error:
            raise HuggingFaceError(f"{path}: SentencePiece refuses its pieces: {error}") from None
        return content


def read_sentencepiece(path: Path, offset: int = 0) -> Pieces:
    """Read a SentencePiece model whose pieces' ids are ``offset`` higher in the model.

    Raises:
        HuggingFaceError: missing or damaged.
    """
    check_sentencepiece(path)
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    try:
        proto.ParseFromString(path.read_bytes())
        if not all(isinstance(piece.piece, str) for piece in proto.pieces):  # bytes, where they are no UTF-8
            raise ValueError("a piece is no text")
        pieces = {
            number + offset: (piece.piece, piece.score, piece.type)
            for number, piece in enumerate(proto.pieces)
            if piece.type in (NORMAL, USER_DEFINED, BYTE)
        }
    except Exception as error:  # noqa: BLE001 - protobuf's exceptions depend on its implementation
        raise HuggingFaceError(f"{path}: not a SentencePiece model: {error}") from None
    return Pieces(pieces, proto)


def read_tokenizer_json(path: Path) -> Pieces:
    """Read the pieces of a ``tokenizer.json`` of the kind that SentencePiece models become in transformers 5.

    Raises:
        HuggingFaceError: missing, damaged, or it cuts text in a way that SentencePiece does not.
    """
    values = read_json(path, _MAX_TOKENIZER_JSON_BYTES)
    model = values.get("model")
    if not isinstance(model, dict) or model.get("type") not in ("Unigram", "BPE"):
        raise HuggingFaceError(f"{path}: its model is neither Unigram nor BPE")
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.trainer_spec.model_type = _UNIGRAM if model["type"] == "Unigram" else _BPE
    proto.normalizer_spec.name = "imported"
    proto.normalizer_spec.precompiled_charsmap = _charsmap(values.get("normalizer"), path)
    proto.normalizer_spec.add_dummy_prefix = _begins_with_space(values.get("pre_tokenizer"), path)
    try:
        special = {
            int(token["id"]) for token in values.get("added_tokens") or () if token.get("special") is True
        }
        scores = _unigram(model) if model["type"] == "Unigram" else _bpe(model)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise HuggingFaceError(f"{path}: its model is odd: {type(error).__name__} {error}") from None
    fallback = model.get("byte_fallback") is True
    proto.trainer_spec.byte_fallback = fallback
    pieces = {}
    for number, (piece, score) in scores.items():
        is_byte = fallback and len(piece) == 6 and piece.startswith("<0x")
        if number not in special:
            pieces[number] = (piece, score, BYTE if is_byte else NORMAL)
    return Pieces(pieces, proto)


def _unigram(model: Mapping[str, Any]) -> dict[int, tuple[str, float]]:
    return {
        number: (str(piece), float(score))
        for number, (piece, score) in enumerate(model["vocab"])
        if number != model.get("unk_id")
    }


def _bpe(model: Mapping[str, Any]) -> dict[int, tuple[str, float]]:
    """Give a piece minus the rank of the first merge that makes it, as SentencePiece does."""
    ranks: dict[str, int] = {}
    for rank, merge in enumerate(model["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        ranks.setdefault(left + right, rank)
    vocabulary = {str(piece): int(number) for piece, number in model["vocab"].items()}
    if missing := next((piece for piece in ranks if piece not in vocabulary), None):
        raise ValueError(f"a merge makes {ascii(missing)[:40]}, which is no piece")
    last = len(model["merges"])
    return {
        number: (piece, -float(ranks.get(piece, last + number)))
        for piece, number in vocabulary.items()
        if piece != model.get("unk_token")
    }


def _charsmap(normalizer: Any, path: Path) -> bytes:
    """Find SentencePiece's own table of characters in a normalizer; without one, characters stay."""
    steps = normalizer.get("normalizers", [normalizer]) if isinstance(normalizer, dict) else []
    table = b""
    for step in steps:
        kind = step.get("type") if isinstance(step, dict) else None
        if kind == "Precompiled":
            try:
                table = base64.b64decode(step["precompiled_charsmap"], validate=True)
            except (KeyError, TypeError, binascii.Error) as error:
                raise HuggingFaceError(f"{path}: its table of characters is damaged: {error}") from None
        elif kind not in _HARMLESS_NORMALIZERS:
            raise HuggingFaceError(f"{path}: normalizes by {kind!a}, which SentencePiece does not")
    return table


def _begins_with_space(pre_tokenizer: Any, path: Path) -> bool:
    """Tell whether a text is read as if it began with a space; refuse what cuts otherwise."""
    steps = pre_tokenizer.get("pretokenizers", [pre_tokenizer]) if isinstance(pre_tokenizer, dict) else []
    kinds = [step.get("type") if isinstance(step, dict) else None for step in steps]
    if not kinds or kinds[-1] != "Metaspace" or set(kinds[:-1]) - {"WhitespaceSplit"}:
        raise HuggingFaceError(f"{path}: cuts text by {ascii(kinds)[:80]}, which SentencePiece does not")
    scheme = steps[-1].get("prepend_scheme") or (
        "always" if steps[-1].get("add_prefix_space", True) else "never"
    )
    return bool(scheme != "never")
