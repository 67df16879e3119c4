"""A CTranslate2 directory, or an Argos package that holds one, to a checkpoint."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from export.convert.ctranslate2.argos import Package, unpack
from export.convert.ctranslate2.binary import read_binary
from export.convert.ctranslate2.tokens import read_tokens
from export.convert.ctranslate2.weights import Converted, convert
from export.convert.head_padding import pad_heads
from export.convert.huggingface_files import sha256
from export.convert.vocabularies.vocabulary import ImportNames, refuse_prompt, usable_name
from export.convert.write_checkpoint import write_checkpoint
from model.checkpoint import CheckpointConfig, Direction, SpecialTokens

Report = Callable[[str], None]
MODEL_FILE, PACKAGE_SUFFIX = "model.bin", ".argosmodel"


def is_ctranslate2(origin: Path) -> bool:
    """Tell whether this is a package, or a directory with a model."""
    return origin.suffix == PACKAGE_SUFFIX or (origin / MODEL_FILE).is_file()


def import_ctranslate2(origin: Path, out: Path, names: ImportNames, report: Report) -> CheckpointConfig:
    """Turn a model into a checkpoint.

    Args:
        origin: a directory with ``model.bin``, the vocabularies and the SentencePiece model, or a package.
        out: the checkpoint; replaced if it exists.
        names: what the model does not say.
        report: gets a line at every stage.

    Raises:
        HuggingFaceError: a file is missing, damaged or does not fit the others; the message names it.
    """
    refuse_prompt(origin, names)
    if origin.suffix != PACKAGE_SUFFIX:
        return _import(origin, out, names, None, f"{usable_name(origin)}/{MODEL_FILE}", report)
    with tempfile.TemporaryDirectory(prefix="dragoman-argos-") as aside:
        package = unpack(origin, Path(aside))
        return _import(Path(aside), out, names, package, usable_name(origin), report)


def _import(
    directory: Path, out: Path, names: ImportNames, package: Package | None, origin: str, report: Report
) -> CheckpointConfig:
    file = directory / MODEL_FILE
    report(f"reading the weights of {origin}")
    converted = convert(read_binary(file), file)
    rows = converted.config.source_vocab_size, converted.config.target_vocab_size
    direction = None if package is None else Direction(source=package.source, target=package.target)
    tokens = read_tokens(directory, rows, names, direction, zero_start=converted.zero_start)
    config, tensors = pad_heads(
        converted.config.model_copy(update={"pad_id": tokens.pad_id}), converted.tensors
    )
    special = _special_tokens(converted, tokens.start_id, tokens.eos_id, tokens.pad_id, tokens.unk_id)
    vocabulary = tokens.vocabulary
    first, second = (
        (vocabulary.directions[0].source, vocabulary.directions[0].target)
        if vocabulary.directions
        else (vocabulary.languages[0].code, vocabulary.languages[1].code)
    )
    checkpoint = CheckpointConfig(
        task=names.task or vocabulary.task,
        name=names.name or (package.name if package else usable_name(directory)),
        model=config,
        special_tokens=special.model_copy(
            update={
                "source_prefix_ids": vocabulary.source_prefix_ids,
                "source_suffix_ids": vocabulary.source_suffix_ids,
            }
        ),
        tokenizer=vocabulary.kind,
        joint_vocabulary=vocabulary.joint,
        source_language=first,
        target_language=second,
        languages=vocabulary.languages,
        attribution=f"Converted from the CTranslate2 model {origin}. It states no license; ask its "
        "publisher before you pass it on.",
        origin=f"Imported from {origin}, SHA-256 {sha256(file)}.",
    )
    write_checkpoint(out, checkpoint, tensors, vocabulary, directory, report)
    return checkpoint


def _special_tokens(converted: Converted, start: int, eos: int, pad: int, unk: int) -> SpecialTokens:
    """Let decoding start with the row of zeros that was added, if the model starts so; none is written."""
    if not converted.zero_start:
        return SpecialTokens(pad_id=pad, unk_id=unk, bos_id=start, eos_id=eos, decoder_start_id=start)
    zeros = converted.config.target_vocab_size - 1
    return SpecialTokens(
        pad_id=pad, unk_id=unk, bos_id=zeros, eos_id=eos, decoder_start_id=zeros, suppressed_ids=[zeros]
    )
