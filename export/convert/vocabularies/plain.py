"""Tokenizers of T5, mT5, ByT5 and Pegasus: SentencePiece's ids as they are or moved, or bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from export.convert.huggingface_config import ModelSettings
from export.convert.huggingface_files import HuggingFaceError
from export.convert.vocabularies.pieces import BYTE, NORMAL, Pieces, read_sentencepiece, read_tokenizer_json
from export.convert.vocabularies.vocabulary import ImportNames, Vocabulary, one_direction
from model.checkpoint import Direction

MODELS, JSON = ("spiece.model", "spm.model", "sentencepiece.model"), "tokenizer.json"
_PAD, _EOS, _UNKNOWN = 0, 1, 2
_PEGASUS_OFFSET = 103
_TAG = re.compile(r"<2([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*)>")
_BYTES = 256


def read_t5(directory: Path, settings: ModelSettings, names: ImportNames) -> Vocabulary:
    """Read the tokenizer of a T5; one that has tags like ``<2de>`` (MADLAD) is told the target by them.

    Raises:
        HuggingFaceError: a file is missing or damaged, or the languages cannot be told.
    """
    rows = settings.architecture.target_vocab_size
    if str(settings.tokenizer.get("tokenizer_class", "")).startswith("ByT5"):
        content, unknown, tags = _bytes(rows, directory), _UNKNOWN, {}
    else:
        pieces = _pieces(directory, 0)
        tags = {match[1]: i for i, (piece, *_) in pieces.by_id.items() if (match := _TAG.fullmatch(piece))}
        special = {number: f"<2{code}>" for code, number in tags.items()}
        unknown = _unknown(pieces, rows)
        content = pieces.write(rows, unknown, special, directory)
    suffix = [settings.eos_id]
    prefix = sentencepiece.SentencePieceProcessor(model_proto=content).encode(names.prompt or "")
    return Vocabulary(
        kind="sentencepiece",
        joint=True,
        files={"source.spm": content},
        unk_id=unknown,
        source_prefix_ids=prefix,
        source_suffix_ids=suffix,
        directions=_directions(directory, tags, names),
    )


def read_pegasus(directory: Path, settings: ModelSettings, names: ImportNames) -> Vocabulary:
    """Read the tokenizer of a Pegasus, whose pieces come behind 103 special tokens.

    Raises:
        HuggingFaceError: a file is missing or damaged, or nobody says the language.
    """
    rows = settings.architecture.target_vocab_size
    from_json = not any((directory / name).exists() for name in MODELS)
    pieces = _pieces(directory, 0 if from_json else _PEGASUS_OFFSET)
    special = {_PAD: "<pad>", _EOS: "</s>"} | {i: f"<mask {i}>" for i in range(2, _PEGASUS_OFFSET)}
    unknown = _PEGASUS_OFFSET + _UNKNOWN
    return Vocabulary(
        kind="sentencepiece",
        joint=True,
        files={"source.spm": pieces.write(rows, unknown, special, directory)},
        unk_id=unknown,
        source_suffix_ids=[_EOS],
        task="summarization",
        directions=[one_direction(directory, None, None, names, "summarization")],
    )


def _pieces(directory: Path, offset: int) -> Pieces:
    for name in MODELS:
        if (directory / name).exists():
            return read_sentencepiece(directory / name, offset)
    if (directory / JSON).exists():
        return read_tokenizer_json(directory / JSON)
    raise HuggingFaceError(f"{directory}: has none of {', '.join(MODELS)} and {JSON}")


def _unknown(pieces: Pieces, rows: int) -> int:
    """Find the id of what is unknown: the first that no piece has, where SentencePiece does not say."""
    stated = [number for number, piece in enumerate(pieces.proto.pieces) if piece.type == piece.UNKNOWN]
    return stated[0] if stated else _UNKNOWN if rows > _UNKNOWN else 0


def _directions(directory: Path, tags: Mapping[str, int], names: ImportNames) -> list[Direction]:
    if not tags:
        return [one_direction(directory, None, None, names)]
    if not names.sources or not names.targets:
        some = ", ".join(sorted(tags)[:20])
        raise HuggingFaceError(f"{directory}: translates into {some} and so on; give --source and --target")
    found = []
    for target in names.targets:
        called, _, code = target.partition("=")
        number = tags.get(code or called, tags.get((code or called).replace("-", "_")))
        if number is None:
            raise HuggingFaceError(f"{directory}: has no tag <2{ascii(code or called)[1:-1][:40]}>")
        found += [
            Direction(source=source, target=called.replace("_", "-"), source_prefix_ids=[number])
            for source in names.sources
        ]
    return found


def _bytes(rows: int, directory: Path) -> bytes:
    """Make a SentencePiece model that spells every text in bytes, 3 higher (Xue et al., 2022)."""
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.trainer_spec.byte_fallback = True
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    proto.normalizer_spec.escape_whitespaces = False
    pieces = {_UNKNOWN + 1 + byte: (f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(_BYTES)}
    # SentencePiece wants a piece that is text; this character is none that Unicode lets anybody use.
    pieces[rows - 1] = ("\U0010ffff", 0.0, NORMAL)
    return Pieces(pieces, proto).write(rows, _UNKNOWN, {_PAD: "<pad>", _EOS: "</s>"}, directory)
