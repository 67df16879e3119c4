"""The last step of every importer: what it found is checked as a whole, and written at once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from export.convert.huggingface_files import HuggingFaceError
from export.convert.vocabularies.vocabulary import Vocabulary
from model.checkpoint import (
    CheckpointConfig,
    CheckpointError,
    build_model,
    check_vocabulary,
    model_tensors,
    write_directory,
)
from model.encoder_decoder import EncoderDecoder


def write_checkpoint(
    out: Path,
    config: CheckpointConfig,
    tensors: Mapping[str, Tensor],
    vocabulary: Vocabulary,
    origin: Path,
    report: Callable[[str], None],
) -> None:
    """Write a checkpoint, if weights and tokenizer fit its configuration.

    Args:
        out: the checkpoint; replaced if it exists.
        config: what config.json will say.
        tensors: weights under our names.
        vocabulary: whose files are written.
        origin: named in errors.
        report: gets a line.

    Raises:
        HuggingFaceError: something does not fit.
        TokenizerError: the tokenizer's files are odd.
    """
    try:
        model = build_model(config.model, tensors, origin).eval()
    except CheckpointError as error:
        raise HuggingFaceError(str(error)) from None
    write_model(out, config, model, vocabulary, origin)
    report(f"{config.name}: {sum(tensor.numel() for tensor in model.parameters()):,} parameters")


def write_model(
    out: Path, config: CheckpointConfig, model: EncoderDecoder, vocabulary: Vocabulary, origin: Path
) -> None:
    """Write a checkpoint of a model that is built, if the tokenizer fits its configuration.

    Args:
        out: the checkpoint; replaced if it exists.
        config: what config.json will say.
        model: whose weights are written.
        vocabulary: whose files are written.
        origin: named in errors.

    Raises:
        HuggingFaceError: something does not fit.
        TokenizerError: the tokenizer's files are odd.
    """
    with tempfile.TemporaryDirectory(prefix="dragoman-import-") as aside:
        write_directory(Path(aside) / "tokenizer", {}, {}, vocabulary.files)
        try:
            check_vocabulary(config.load_tokenizer(Path(aside) / "tokenizer"), config, origin)
        except CheckpointError as error:
            raise HuggingFaceError(str(error)) from None
    write_directory(
        out,
        {"model.safetensors": model_tensors(model)},
        {"config.json": config.model_dump_json(indent=1) + "\n"},
        vocabulary.files,
    )
