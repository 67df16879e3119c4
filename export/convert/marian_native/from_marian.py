"""A directory with a model as Marian trains it (Junczys-Dowmunt et al., 2018) to a checkpoint.

``model.npz``, or ``model.intgemm.alphas.bin`` as Firefox publishes it; ``vocab.yml`` with ``source.spm`` and
``target.spm``, as OPUS-MT publishes them, or ``vocab.spm``; ``decoder.yml`` if there is one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from export.convert.huggingface_files import HuggingFaceError, check_sentencepiece, sha256
from export.convert.marian_native.npz import read_npz
from export.convert.marian_native.packed import read_packed
from export.convert.marian_native.settings import architecture, read_generation, read_options, read_yaml
from export.convert.marian_native.weights import convert
from export.convert.vocabularies.marian import find_directions
from export.convert.vocabularies.pieces import read_sentencepiece
from export.convert.vocabularies.vocabulary import (
    ImportNames,
    Vocabulary,
    one_direction,
    refuse_prompt,
    usable_name,
)
from export.convert.write_checkpoint import write_checkpoint
from model.checkpoint import CheckpointConfig, Direction, SpecialTokens
from model.tokenizer import END, UNKNOWN

_SUFFIX, _PACKED = ".npz", ".intgemm*.bin"
_SIDES = (("src", "source"), ("trg", "tgt", "target"))


def is_marian(origin: Path) -> bool:
    """Tell whether a directory holds a model in Marian's own files, and none of another kind."""
    if not origin.is_dir() or (origin / "config.json").exists():
        return False
    return any(origin.glob(f"*{_SUFFIX}")) or any(origin.glob(f"*{_PACKED}*"))


def import_marian(
    directory: Path, out: Path, names: ImportNames, report: Callable[[str], None]
) -> CheckpointConfig:
    """Turn a model into a checkpoint.

    Args:
        directory: of the model.
        out: the checkpoint; replaced if it exists.
        names: its languages, which Marian's files do not say.
        report: gets a line at every stage.

    Raises:
        HuggingFaceError: a file is missing, damaged or does not fit the others, or the decoder is of
            another kind; the message names it.
    """
    refuse_prompt(directory, names)
    file = _model_file(directory)
    report(f"reading the weights of {file}")
    arrays = read_npz(file) if file.suffix == _SUFFIX else read_packed(file)
    for shortlist in directory.glob("lex.*"):
        report(f"{shortlist} is left aside; dragoman shortlist --vmap FILE adds it")
    config = architecture(read_options(arrays, file), arrays, file)
    config, tensors = convert(arrays, config, file)
    vocabulary, unknown, eos = _read_vocabulary(
        directory, (config.source_vocab_size, config.target_vocab_size), names
    )
    zeros, first = config.target_vocab_size - 1, vocabulary.directions[0]
    plain = vocabulary.directions == [Direction(source=first.source, target=first.target)]
    checkpoint = CheckpointConfig(
        name=names.name or usable_name(directory),
        task=names.task or vocabulary.task,
        model=config.model_copy(update={"pad_id": eos}),
        special_tokens=SpecialTokens(
            pad_id=eos,
            unk_id=unknown,
            bos_id=zeros,
            eos_id=eos,
            decoder_start_id=zeros,
            source_suffix_ids=vocabulary.source_suffix_ids,
            suppressed_ids=[zeros],
        ),
        tokenizer=vocabulary.kind,
        joint_vocabulary=vocabulary.joint,
        generation=read_generation(directory),
        source_language=first.source,
        target_language=first.target,
        directions=[] if plain else vocabulary.directions,
        attribution=f"Converted from the Marian model {usable_name(directory)}. Its files state no license; "
        "ask its publisher before you pass it on.",
        origin=f"Imported from {usable_name(directory)}/{file.name}, SHA-256 {sha256(file)}.",
    )
    write_checkpoint(out, checkpoint, tensors, vocabulary, directory, report)
    return checkpoint


def _model_file(directory: Path) -> Path:
    found = sorted(directory.glob(f"*{_SUFFIX}")) or sorted(directory.glob(f"*{_PACKED}"))
    if not found:
        raise HuggingFaceError(
            f"{next(directory.glob(f'*{_PACKED}*'))}: compressed; gunzip or unzstd it first"
        )
    if len(found) > 1:
        listed = ", ".join(path.name for path in found[:5])
        raise HuggingFaceError(f"{directory}: has several models ({listed}); leave one there")
    return found[0]


def _read_vocabulary(
    directory: Path, rows: tuple[int, int], names: ImportNames
) -> tuple[Vocabulary, int, int]:
    """Read the tokenizer, the target's unknown token, and the end token of both sides."""
    listed, models = _sides(directory, "yml"), _sides(directory, "spm")
    if listed:
        return _read_lists(directory, listed, names)
    if models:
        return _read_models(directory, models, rows, names)
    raise HuggingFaceError(f"{directory}: has neither vocab.yml nor vocab.spm")


def _sides(directory: Path, suffix: str) -> list[Path]:
    """Find the vocabulary of both sides, or of each."""
    found = sorted(directory.glob(f"*vocab*.{suffix}"))
    if len(found) < 2:
        return found
    sides = [[path for path in found if any(name in path.name for name in known)] for known in _SIDES]
    if [len(side) for side in sides] != [1, 1] or len(found) > 2:
        listed = ", ".join(path.name for path in found[:5])
        raise HuggingFaceError(f"{directory}: which of {listed} is the source's? call them src and trg")
    return [side[0] for side in sides]


def _read_lists(directory: Path, paths: list[Path], names: ImportNames) -> tuple[Vocabulary, int, int]:
    lists = []
    for path in paths:
        try:
            lists.append({piece: int(number) for piece, number in read_yaml(path).items()})
        except (TypeError, ValueError):
            raise HuggingFaceError(f"{path}: not a list of pieces and ids") from None
        if UNKNOWN not in lists[-1] or END not in lists[-1]:
            raise HuggingFaceError(f"{path}: has no {UNKNOWN} or no {END}")
    if lists[0][END] != lists[-1][END]:
        raise HuggingFaceError(f"{directory}: the end token has two ids")
    for name in ("source.spm", "target.spm"):
        check_sentencepiece(directory / name)
    files: dict[str, Path | bytes] = {name: directory / name for name in ("source.spm", "target.spm")}
    for name, one in zip(("vocab.json", "target_vocab.json"), lists, strict=False):
        files[name] = json.dumps(one, ensure_ascii=False).encode()
    vocabulary = Vocabulary(
        kind="marian",
        joint=len(lists) == 1,
        files=files,
        unk_id=lists[-1][UNKNOWN],
        source_suffix_ids=[lists[0][END]],
        directions=find_directions(directory, lists[0] if len(lists) == 1 else {}, names, None, None),
    )
    return vocabulary, lists[-1][UNKNOWN], lists[0][END]


def _read_models(
    directory: Path, paths: list[Path], rows: tuple[int, int], names: ImportNames
) -> tuple[Vocabulary, int, int]:
    files: dict[str, Path | bytes] = {}
    found = []
    for name, path, size in zip(("source.spm", "target.spm"), paths, rows, strict=False):
        pieces = read_sentencepiece(path)
        all_pieces = list(pieces.proto.pieces)
        unknown = next((i for i, piece in enumerate(all_pieces) if piece.type == piece.UNKNOWN), None)
        end = next((i for i, piece in enumerate(all_pieces) if piece.piece == END), None)
        if unknown is None or end is None:
            raise HuggingFaceError(f"{path}: has no {UNKNOWN} or no {END}")
        files[name] = pieces.write(size, unknown, {end: END}, path)
        found.append((unknown, end))
    if found[0][1] != found[-1][1]:
        raise HuggingFaceError(f"{directory}: the end token has two ids")
    unknown, end = found[-1]
    vocabulary = Vocabulary(
        kind="sentencepiece",
        joint=len(paths) == 1,
        files=files,
        unk_id=unknown,
        source_suffix_ids=[end],
        directions=[one_direction(directory, None, None, names)],
    )
    return vocabulary, unknown, end
