"""A SentencePiece model with fewer pieces, which cuts the texts that the others were counted in as before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from model.tokenizer import TokenizerError

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_BPE = 2
_WORD_BEGINS = "\u2581"


def read_pieces(path: Path) -> Any:
    """Read a SentencePiece model as its protocol buffer, a `ModelProto`.

    Raises:
        TokenizerError: missing or damaged.
    """
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    try:
        proto.ParseFromString(path.read_bytes())
    except Exception as error:  # noqa: BLE001 - protobuf's exceptions depend on its implementation
        raise TokenizerError(f"{path}: not a SentencePiece model: {error}") from None
    return proto


def needed_pieces(proto: Any, used: Collection[int]) -> set[int]:
    """Say which pieces must stay.

    Args:
        proto: the model.
        used: pieces by place that texts were cut into.

    Returns:
        These; all single characters and bytes, which spell whatever else comes; special pieces; and of
        byte-pair encoding what the pieces are merged of.
    """
    special = {proto.trainer_spec.bos_piece, proto.trainer_spec.eos_piece, proto.trainer_spec.pad_piece}
    kept = set(used)
    for place, piece in enumerate(proto.pieces):
        is_letter = piece.type == _NORMAL and len(piece.piece.removeprefix(_WORD_BEGINS)) <= 1
        if is_letter or piece.type in (_UNKNOWN, _USER_DEFINED, _BYTE) or piece.piece in special:
            kept.add(place)
    if proto.trainer_spec.model_type == _BPE:
        normal = {piece.piece: place for place, piece in enumerate(proto.pieces) if piece.type == _NORMAL}
        scores = {name: proto.pieces[place].score for name, place in normal.items()}
        for place in used:
            if proto.pieces[place].type == _NORMAL:
                kept.update(normal[part] for part in _merges(proto.pieces[place].piece, scores))
    return kept


def trimmed_pieces(proto: Any, kept: Iterable[int]) -> bytes:
    """Write a model of fewer pieces, numbered anew in their order.

    Args:
        proto: the model; not changed.
        kept: pieces by place.
    """
    made = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    made.CopyFrom(proto)
    del made.pieces[:]
    made.pieces.extend(proto.pieces[place] for place in sorted(kept))
    made.trainer_spec.vocab_size = len(made.pieces)
    for name in ("unk_id", "bos_id", "eos_id", "pad_id"):  # SentencePiece finds them by their names
        made.trainer_spec.ClearField(name)
    content: bytes = made.SerializeToString()
    return content


def _merges(piece: str, scores: Mapping[str, float]) -> Iterator[str]:
    """Yield what byte-pair encoding merges on the way to a piece (Sennrich et al., 2016).

    A merge across the piece's ends would have made another piece, so the text around it does not matter.
    """
    symbols = list(piece)
    while len(symbols) > 1:
        pairs = [symbols[i] + symbols[i + 1] for i in range(len(symbols) - 1)]
        best = max(range(len(pairs)), key=lambda i: scores.get(pairs[i], -float("inf")))
        if pairs[best] not in scores:
            return
        symbols[best : best + 2] = [pairs[best]]
        yield pairs[best]
