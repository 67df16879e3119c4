"""Tokenizers of BART: byte-level byte-pair encoding (Sennrich et al., 2016), as a SentencePiece model.

SentencePiece merges the two neighbours that make the piece of the highest score; byte-pair encoding knows
which two. Both do the same if a piece can be made of two only, and of a word that is a piece its own merges
say which two those are. What they do not make is never made, in any word: merges within a piece do not depend
on what is around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from export.convert.huggingface_config import ModelSettings
from export.convert.huggingface_files import HuggingFaceError, read_json
from export.convert.vocabularies.pieces import NORMAL, Pieces
from export.convert.vocabularies.vocabulary import ImportNames, Vocabulary, one_direction
from model.byte_level import BYTE_CHARACTERS

JSON, PIECES, MERGES = "tokenizer.json", "vocab.json", "merges.txt"
_BOS, _UNKNOWN = "<s>", "<unk>"
_MAX_JSON_BYTES = 1 << 26
_MAX_WORK = 1 << 26
"""Sum of the squares of pieces' lengths: GPT-2's 50,000 need 2.6 million."""
_NEVER_IN_UTF8 = {0xC0, 0xC1, *range(0xF5, 0x100)}
_BPE = 2
_PLAIN = {"dropout": (None, 0.0), "continuing_subword_prefix": (None, ""), "end_of_word_suffix": (None, "")}
_PLAIN |= {"byte_fallback": (None, False), "ignore_merges": (None, False)}


def read_bart(directory: Path, settings: ModelSettings, names: ImportNames) -> Vocabulary:
    """Read tokenizer.json, or vocab.json and merges.txt.

    Raises:
        HuggingFaceError: a file is missing or damaged, it cuts text otherwise, or nobody says the language.
    """
    numbers, pieces = read_byte_level(directory)
    rows, unknown = settings.architecture.target_vocab_size, numbers[_UNKNOWN]
    special = {number: piece for piece, number in numbers.items() if number not in pieces.by_id}
    if _BOS not in numbers:
        raise HuggingFaceError(f"{directory}: its tokenizer has no {_BOS}, with which BART's sources begin")
    return Vocabulary(
        kind="byte_level",
        joint=True,
        files={"source.spm": pieces.write(rows, unknown, special, directory)},
        unk_id=unknown,
        source_prefix_ids=[numbers[_BOS]],
        source_suffix_ids=[settings.eos_id],
        task="summarization",
        directions=[one_direction(directory, None, None, names, "summarization")],
    )


def read_byte_level(directory: Path) -> tuple[dict[str, int], Pieces]:
    """Read the ids of all pieces, and those pieces that text can become.

    Raises:
        HuggingFaceError: a file is missing or damaged, or it cuts text otherwise.
    """
    vocabulary: Any
    merges: Any
    if (directory / JSON).exists():
        path, values = directory / JSON, read_json(directory / JSON, _MAX_JSON_BYTES)
        model = _checked(path, values)
        vocabulary, merges = model.get("vocab"), model.get("merges")
        added = values.get("added_tokens") or []
    else:
        path, vocabulary = directory / PIECES, read_json(directory / PIECES, _MAX_JSON_BYTES)
        merges, added = _lines(directory / MERGES), []
    try:
        numbers = {str(piece): int(number) for piece, number in vocabulary.items()}
        ranks: dict[tuple[str, str], int] = {}
        for rank, merge in enumerate(merges):
            left, right = merge.split(" ") if isinstance(merge, str) else merge
            ranks.setdefault((str(left), str(right)), rank)
        for token in added:
            numbers.setdefault(str(token["content"]), int(token["id"]))
        apart = {str(token["content"]) for token in added}
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise HuggingFaceError(f"{path}: its model is odd: {type(error).__name__} {error}") from None
    if len(set(numbers.values())) != len(numbers) or min(numbers.values(), default=-1) < 0:
        raise HuggingFaceError(f"{path}: two pieces have the same id, or one has none")
    for byte, character in enumerate(BYTE_CHARACTERS):
        if character not in numbers and byte not in _NEVER_IN_UTF8:
            raise HuggingFaceError(f"{path}: has no piece for the byte 0x{byte:02X}")
    if _UNKNOWN not in numbers:
        raise HuggingFaceError(f"{path}: has no {_UNKNOWN}")
    return numbers, _pieces(path, numbers, ranks, apart)


def _checked(path: Path, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check that a tokenizer.json does what GPT-2 does and nothing else."""
    model, cutter = values.get("model"), values.get("pre_tokenizer")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
        raise HuggingFaceError(f"{path}: its model is not BPE")
    for name, harmless in _PLAIN.items():
        if model.get(name) not in harmless:
            raise HuggingFaceError(
                f"{path}: its model has {name} {ascii(model[name])[:40]}, as none that is read"
            )
    if not isinstance(cutter, dict) or cutter.get("type") != "ByteLevel" or cutter.get("use_regex") is False:
        raise HuggingFaceError(f"{path}: parts words otherwise than GPT-2")
    if cutter.get("add_prefix_space", True):
        raise HuggingFaceError(
            f"{path}: puts a space before every text (add_prefix_space), which is not read"
        )
    if values.get("normalizer") is not None:
        raise HuggingFaceError(f"{path}: has a normalizer; GPT-2's and BART's tokenizers have none")
    return model


def _lines(path: Path) -> list[str]:
    """Read merges.txt: two pieces a line, below a line with its version."""
    try:
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise HuggingFaceError(f"{path}: more than {_MAX_JSON_BYTES} bytes")
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise HuggingFaceError(f"{path}: no such file; a vocab.json of BART comes with one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise HuggingFaceError(f"{path}: not text: {error}") from None
    return [line for line in lines if line and not line.startswith("#version")]


def _pieces(
    path: Path, numbers: Mapping[str, int], ranks: Mapping[tuple[str, str], int], apart: set[str]
) -> Pieces:
    """Find what text can become: single bytes, and pieces that their own merges make."""
    alphabet = set(BYTE_CHARACTERS)
    found = {numbers[one]: (one, -float(len(ranks)), NORMAL) for one in alphabet if one in numbers}
    made = {left + right for left, right in ranks}
    if missing := next((piece for piece in made if piece not in numbers), None):
        raise HuggingFaceError(
            f"{path}: its model is odd: a merge makes {ascii(missing)[:40]}, which is no piece"
        )
    if sum(len(piece) ** 2 for piece in made) > _MAX_WORK:
        raise HuggingFaceError(f"{path}: its model is odd: its pieces are too long")
    for piece in made - apart:
        if alphabet.issuperset(piece):
            last, rest = _last_merge(piece, ranks)
            if rest == [piece] and last is not None:
                found[numbers[piece]] = (piece, -float(last), NORMAL)
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.trainer_spec.model_type = _BPE
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    proto.normalizer_spec.escape_whitespaces = False
    return Pieces(found, proto)


def _last_merge(piece: str, ranks: Mapping[tuple[str, str], int]) -> tuple[int | None, Sequence[str]]:
    """Cut a piece as if it were a word; return the rank of the last merge, and what is left."""
    parts, last, never = list(piece), None, len(ranks)
    while len(parts) > 1:
        best, i = min((ranks.get((parts[i], parts[i + 1]), never), i) for i in range(len(parts) - 1))
        if best == never:
            break
        last, parts[i : i + 2] = best, [parts[i] + parts[i + 1]]
    return last, parts
