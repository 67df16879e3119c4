"""Tokens of a CTranslate2 model: its lists of them, and the SentencePiece model that makes them from text.

CTranslate2 itself takes tokens. The SentencePiece model must lie beside ``model.bin``, but for models of
single characters, of which one is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from export.convert.huggingface_files import HuggingFaceError, check_sentencepiece, read_json
from export.convert.vocabularies.language_codes import ordered_codes
from export.convert.vocabularies.pieces import NORMAL, Pieces
from export.convert.vocabularies.vocabulary import ImportNames, Vocabulary, one_direction
from model.checkpoint import Direction, Language

MODELS = (
    ("source.spm", "target.spm"),
    ("sentencepiece.model",),
    ("sentencepiece.bpe.model",),
    ("spiece.model",),
    ("spm.model",),
)
"""Names of SentencePiece models: of both sides, or one of the two; the first that are there are taken."""

_MAX_LIST_BYTES = 1 << 26
_DEFAULTS = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "decoder_start_token": "<s>"}
_MANY = 10
_LANGUAGE = re.compile(r"__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3})")


@dataclass(frozen=True)
class Tokens:
    """What the files beside a model's weights say.

    Attributes:
        vocabulary: tokenizer and languages.
        unk_id: of the target.
        eos_id: ends a target.
        start_id: decoding starts with it.
        pad_id: fills up batches; any token will do.
    """

    vocabulary: Vocabulary
    unk_id: int
    eos_id: int
    start_id: int
    pad_id: int


def read_tokens(
    directory: Path,
    rows: tuple[int, int],
    names: ImportNames,
    direction: Direction | None = None,
    *,
    zero_start: bool = False,
) -> Tokens:
    """Read the lists and the SentencePiece models of a directory.

    Args:
        directory: with ``model.bin``.
        rows: of the source's and the target's embedding.
        names: what the importer says.
        direction: what a package says, unless the importer says something else.
        zero_start: whether the model starts with an embedding of zeros, as Marian's do.

    Raises:
        HuggingFaceError: a file is missing or does not fit the others.
    """
    stated = read_json(directory / "config.json") if (directory / "config.json").exists() else {}
    named = {key: stated.get(key) or token for key, token in _DEFAULTS.items()}
    if odd := next((key for key, token in named.items() if not isinstance(token, str)), None):
        raise HuggingFaceError(f"{directory}/config.json: {odd} is not a token")
    lists = _lists(directory)
    ids = [
        _numbered(tokens, named["unk_token"], size, directory)
        for tokens, size in zip(lists, rows, strict=True)
    ]
    source, target = ids
    for token in (named["eos_token"], named["decoder_start_token"]):
        if token not in target:
            raise HuggingFaceError(f"{directory}: its target vocabulary has no {ascii(token)[:40]}")
    for token in ("bos_token",) * bool(stated.get("add_source_bos")) + ("eos_token",):
        if named[token] not in source:
            raise HuggingFaceError(f"{directory}: its source vocabulary has no {ascii(named[token])[:40]}")
    prefix = [source[named["bos_token"]]] if stated.get("add_source_bos") else []
    # Where CTranslate2 adds no end token its user does, as transformers' tokenizers do; OpenNMT's models,
    # which start with <s>, have none.
    fairseq = named["decoder_start_token"] in (named["eos_token"], "<pad>")
    ends = stated.get("add_source_eos") or zero_start or fairseq
    suffix = [source[named["eos_token"]]] if ends else []
    languages = _languages(directory, lists[0], source, names) if source == target else []
    says = direction.source if direction else None, direction.target if direction else None
    return Tokens(
        vocabulary=Vocabulary(
            kind="marian",
            joint=source == target,
            files=_files(directory, lists, ids, named),
            unk_id=target[named["unk_token"]],
            source_prefix_ids=prefix,
            source_suffix_ids=suffix,
            directions=[] if languages else [one_direction(directory, *says, names)],
            languages=languages,
        ),
        unk_id=target[named["unk_token"]],
        eos_id=target[named["eos_token"]],
        start_id=target[named["decoder_start_token"]],
        pad_id=target.get("<pad>", target.get("<blank>", target[named["eos_token"]])),
    )


def _lists(directory: Path) -> list[list[str]]:
    """Read the tokens of both sides, in the order of their ids."""
    for kinds in (("shared_vocabulary",), ("source_vocabulary", "target_vocabulary")):
        found = [_list(directory, kind) for kind in kinds]
        if all(tokens is not None for tokens in found):
            return [tokens for tokens in found if tokens is not None] * (3 - len(kinds))
    raise HuggingFaceError(f"{directory}: has neither a shared nor a source and a target vocabulary")


def _list(directory: Path, kind: str) -> list[str] | None:
    for name in (f"{kind}.json", f"{kind}.txt"):
        path = directory / name
        if not path.exists():
            continue
        if path.stat().st_size > _MAX_LIST_BYTES:
            raise HuggingFaceError(f"{path}: more than {_MAX_LIST_BYTES} bytes")
        try:
            text = path.read_text(encoding="utf-8")
            tokens = json.loads(text) if name.endswith(".json") else text.removesuffix("\n").split("\n")
        except (ValueError, RecursionError) as error:
            raise HuggingFaceError(f"{path}: not a list of tokens: {error}") from None
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise HuggingFaceError(f"{path}: not a list of tokens")
        return tokens
    return None


def _numbered(tokens: Sequence[str], unknown: str, rows: int, directory: Path) -> dict[str, int]:
    ids = {token: number for number, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        raise HuggingFaceError(f"{directory}: a vocabulary has a token twice")
    # Vocabularies of OpenNMT-tf do not list what is unknown: it comes last.
    ids.setdefault(unknown, len(tokens))
    if max(ids.values()) >= rows:
        raise HuggingFaceError(f"{directory}: a vocabulary has {len(ids)} tokens, the model {rows}")
    return ids


def _files(
    directory: Path,
    lists: Sequence[Sequence[str]],
    ids: Sequence[Mapping[str, int]],
    named: Mapping[str, Any],
) -> dict[str, Path | bytes]:
    found = next((files for files in MODELS if all((directory / name).exists() for name in files)), None)
    spm: list[Path | bytes]
    if found is not None:
        for name in found:
            check_sentencepiece(directory / name)
        spm = [directory / found[0], directory / found[-1]]
    else:
        spm = [_of_characters(tokens, named.values(), directory) for tokens in lists]
    # The names that our tokenizer knows special tokens by.
    renamed = {named["unk_token"]: "<unk>", named["eos_token"]: "</s>"}
    texts = [
        json.dumps({renamed.get(token, token): number for token, number in one.items()}, ensure_ascii=False)
        for one in ids
    ]
    files = {"source.spm": spm[0], "target.spm": spm[1], "vocab.json": texts[0].encode()}
    return files if texts[0] == texts[1] else files | {"target_vocab.json": texts[1].encode()}


def _of_characters(tokens: Sequence[str], special: Any, directory: Path) -> bytes:
    """Make a SentencePiece model that cuts a text into its characters."""
    letters = [token for token in tokens if token not in {*special, "<blank>", "<pad>"}]
    if not letters or any(len(token) != 1 for token in letters):
        some = ", ".join(name for files in MODELS for name in files)
        raise HuggingFaceError(
            f"{directory}: has no SentencePiece model; copy it there under one of these: {some}"
        )
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    pieces = {number: (letter, -1.0, NORMAL) for number, letter in enumerate(letters, start=1)}
    return Pieces(pieces, proto).write(len(letters) + 1, 0, {}, directory)


def _languages(
    directory: Path, tokens: Sequence[str], ids: Mapping[str, int], names: ImportNames
) -> list[Language]:
    """List the languages of NLLB and M2M100, which have a token each; none if these are not such tokens."""
    found = {(match[1] or match[2]): match[0] for token in tokens if (match := _LANGUAGE.fullmatch(token))}
    if len(found) < _MANY:
        return []
    return [
        Language(code=shown, source_prefix_ids=[ids[found[code]]], target_prefix_ids=[ids[found[code]]])
        for code, shown in ordered_codes(directory, found, names).items()
    ]
