"""Tokenizers of MarianMT: SentencePiece models that only cut, and a list of ids, maybe with languages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from export.convert.huggingface_config import ModelSettings
from export.convert.huggingface_files import HuggingFaceError, check_sentencepiece
from export.convert.vocabularies.vocabulary import ImportNames, Vocabulary
from model.checkpoint import Direction
from model.tokenizer import read_vocabulary

_CODE = re.compile(r">>(.+)<<")


def read_marian(directory: Path, settings: ModelSettings, names: ImportNames) -> Vocabulary:
    """Read source.spm, target.spm, vocab.json and, of a model of two lists, target_vocab.json.

    Raises:
        HuggingFaceError: a file is missing or damaged, or the languages cannot be told.
        TokenizerError: the same of the lists.
    """
    joint = not settings.tokenizer.get("separate_vocabs")
    files = ["source.spm", "target.spm", "vocab.json", *([] if joint else ["target_vocab.json"])]
    for name in files[:2]:
        check_sentencepiece(directory / name)
    listed = [read_vocabulary(directory / name) for name in files[2:]]
    directions = find_directions(
        directory, listed[0] if joint else {}, names, settings.source_language, settings.target_language
    )
    return Vocabulary(
        kind="marian",
        joint=joint,
        files={name: directory / name for name in files},
        unk_id=listed[-1]["<unk>"],
        source_suffix_ids=[listed[0]["</s>"]],
        directions=directions,
    )


def find_directions(
    directory: Path,
    vocabulary: Mapping[str, int],
    names: ImportNames,
    source_language: str | None,
    target_language: str | None,
) -> list[Direction]:
    """Find the directions; a ``>>code<<`` token before the source chooses the target, if there are any.

    Args:
        directory: named in errors.
        vocabulary: pieces and ids of both sides; none if each has its own.
        names: what the importer says.
        source_language: what the model says.
        target_language: what the model says.

    Raises:
        HuggingFaceError: nobody says, or there is no such code.
    """
    codes = {match[1]: number for piece, number in vocabulary.items() if (match := _CODE.fullmatch(piece))}
    sources, targets = names.sources, names.targets
    if sources is None and source_language:
        sources = [source_language]
    if targets is None and codes:
        targets = sorted(codes)
    elif targets is None and target_language:
        targets = [target_language]
    if not sources or not targets:
        raise HuggingFaceError(
            f"{directory}: its files do not name the languages; give --source and --target"
        )
    directions = []
    for target in targets:
        called, _, code = target.partition("=")
        prefix = [_find_code(directory, code or called, codes)] if codes else []
        shown = called.replace("_", "-")
        directions += [Direction(source=source, target=shown, source_prefix_ids=prefix) for source in sources]
    return directions


def _find_code(directory: Path, code: str, codes: Mapping[str, int]) -> int:
    for spelling in (code, code.replace("-", "_"), code.replace("_", "-")):
        if spelling in codes:
            return codes[spelling]
    some = ", ".join(sorted(codes)[:20])
    raise HuggingFaceError(
        f"{directory}: its vocabulary has no >>{code}<<; it has {some}; --target NAME=CODE chooses one"
    )
