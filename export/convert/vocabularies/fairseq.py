"""Tokenizers of fairseq's multilingual models: M2M100, NLLB-200, mBART-25 and mBART-50.

Every language has a token. The source's goes before a source (M2M100, NLLB, mBART-50) or after its end token
(mBART-25, and NLLB models made before 2023, whose ``legacy_behaviour`` says so); the target's is what every
target begins with or, in mBART-25, what decoding starts with. Ids: ``<s> <pad> </s> <unk>``, SentencePiece's
pieces one place higher, the codes, ``<mask>``; M2M100 lists its pieces in a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from export.convert.huggingface_config import ModelSettings
from export.convert.huggingface_files import HuggingFaceError, check_sentencepiece, read_json
from export.convert.vocabularies.language_codes import M2M100, MBART, ordered_codes
from export.convert.vocabularies.pieces import Pieces, read_sentencepiece, read_tokenizer_json
from export.convert.vocabularies.vocabulary import ImportNames, Vocabulary
from model.checkpoint import Direction, Language
from model.tokenizer import read_vocabulary

MODEL, PIECES, JSON = "sentencepiece.bpe.model", "vocab.json", "tokenizer.json"
_MAX_JSON_BYTES = 1 << 26
_BOS, _PAD, _EOS, _UNKNOWN = range(4)
_SPECIAL = {_BOS: "<s>", _PAD: "<pad>", _EOS: "</s>"}
_LISTS = ("additional_special_tokens", "extra_special_tokens")
_CODE_OF_FAMILY = {
    "m2m100": re.compile(r"__([a-z]{2,3})__"),
    "nllb": re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"),
    "mbart": re.compile(r"([a-z]{2}_[A-Z]{2})"),
}


def read_fairseq(directory: Path, settings: ModelSettings, names: ImportNames) -> Vocabulary:
    """Read the tokenizer and the languages of one of these models.

    Raises:
        HuggingFaceError: a file is missing or damaged, or the languages cannot be told.
    """
    rows = settings.architecture.target_vocab_size
    if settings.model_type == "m2m_100" and (directory / PIECES).exists():
        return _read_m2m100(directory, settings, names)
    pieces = _pieces(directory)
    if settings.model_type == "mbart":
        family, behind = "mbart", not str(settings.tokenizer.get("tokenizer_class")).startswith("MBart50")
        known = MBART[:25] if behind else MBART
    else:
        family, behind, known = "nllb", bool(settings.tokenizer.get("legacy_behaviour")), []
    codes = _codes(directory, family, max(pieces.by_id) + 1, known)
    special = _SPECIAL | {number: code for code, number in codes.items()}
    languages, directions = _languages(directory, settings, codes, names, behind=behind)
    return Vocabulary(
        kind="sentencepiece",
        joint=True,
        files={"source.spm": pieces.write(rows, _UNKNOWN, special, directory)},
        unk_id=_UNKNOWN,
        source_suffix_ids=[_EOS],
        languages=languages,
        directions=directions,
    )


def _read_m2m100(directory: Path, settings: ModelSettings, names: ImportNames) -> Vocabulary:
    check_sentencepiece(directory / MODEL)
    listed = read_vocabulary(directory / PIECES)
    codes = _codes(directory, "m2m100", len(listed), M2M100)
    languages, directions = _languages(directory, settings, codes, names, behind=False)
    pieces = {piece: number for piece, number in listed.items() if piece not in codes}
    return Vocabulary(
        kind="marian",
        joint=True,
        files={
            "source.spm": directory / MODEL,
            "target.spm": directory / MODEL,
            "vocab.json": json.dumps(pieces, ensure_ascii=False).encode(),
        },
        unk_id=listed["<unk>"],
        source_suffix_ids=[listed["</s>"]],
        languages=languages,
        directions=directions,
    )


def _pieces(directory: Path) -> Pieces:
    if (directory / MODEL).exists():
        return read_sentencepiece(directory / MODEL, offset=1)
    if (directory / JSON).exists():
        return read_tokenizer_json(directory / JSON)
    raise HuggingFaceError(f"{directory}: has neither {MODEL} nor {JSON}")


def _codes(directory: Path, family: str, first: int, known: list[str]) -> dict[str, int]:
    """Find the ids of the languages, by the model's own codes.

    Args:
        directory: of the model.
        family: key of ``_CODE_OF_FAMILY``.
        first: id of the first code, where files only list them.
        known: codes in order, where no file does.
    """
    pattern = _CODE_OF_FAMILY[family]
    found = {
        match[1]: number for token, number in _numbered(directory) if (match := pattern.fullmatch(token))
    }
    if not found:
        listed = [match[1] for token in _listed(directory) if (match := pattern.fullmatch(token))]
        found = {code: first + i for i, code in enumerate(dict.fromkeys(listed or known))}
    if len(found) < 2:
        raise HuggingFaceError(f"{directory}: its tokenizer's files do not list its languages")
    return found


def _numbered(directory: Path) -> Iterator[tuple[str, int]]:
    """Yield special tokens with the ids that some file states."""
    for name in (JSON, "added_tokens.json", "tokenizer_config.json"):
        values = _optional(directory / name)
        if name == JSON:
            entries = values.get("added_tokens") or []
            entries = {
                str(token.get("content")): token.get("id") for token in entries if isinstance(token, dict)
            }
        elif name == "added_tokens.json":
            entries = values
        else:
            decoder = values.get("added_tokens_decoder") or {}
            entries = {
                str(token.get("content")): int(number)
                for number, token in (decoder.items() if isinstance(decoder, dict) else ())
                if isinstance(token, dict) and str(number).isdecimal()
            }
        yield from (
            (token, number) for token, number in entries.items() if type(number) is int and number >= 0
        )


def _listed(directory: Path) -> Iterator[str]:
    """Yield special tokens in the order of their ids."""
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        values = _optional(directory / name)
        for kind in _LISTS:
            tokens = values.get(kind) or []
            for token in tokens if isinstance(tokens, list) else ():
                text = token.get("content") if isinstance(token, dict) else token
                if isinstance(text, str):
                    yield text


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path, _MAX_JSON_BYTES) if path.exists() else {}


def _languages(
    directory: Path, settings: ModelSettings, codes: Mapping[str, int], names: ImportNames, *, behind: bool
) -> tuple[list[Language], list[Direction]]:
    """List languages, those that the importer names first; or directions into the only target there is.

    Args:
        directory: named in errors.
        settings: whose first target token, if it is a language's, is that of all targets.
        codes: the model's codes and their ids.
        names: what the importer says.
        behind: whether the source's code follows its end token.
    """
    rows = settings.architecture.target_vocab_size
    if max(codes.values()) >= rows:
        raise HuggingFaceError(f"{directory}: a language's id lies outside the vocabulary of {rows}")
    languages = []
    for code, shown in ordered_codes(directory, codes, names).items():
        place = "source_suffix_ids" if behind else "source_prefix_ids"
        own = {place: [codes[code]], "target_prefix_ids": [codes[code]]}
        languages.append(Language.model_validate({"code": shown, **own}))
    begin = settings.target_prefix_ids or [settings.decoder_start_id]
    only = next((one for one in languages if one.target_prefix_ids == begin), None)
    if only is None:
        return languages, []
    sources = [one for one in languages if one is not only][: len(names.sources or languages)]
    directions = [
        Direction(
            source=one.code,
            target=only.code,
            source_prefix_ids=one.source_prefix_ids,
            source_suffix_ids=one.source_suffix_ids,
        )
        for one in sources
    ]
    return [], directions
