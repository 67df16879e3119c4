"""Checkpoints: safetensors and JSON in a directory, written aside and renamed. No pickle."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from .config import TransformerConfig
from .tokenizer import Tokenizer
from .transformer import Transformer

FORMAT_VERSION = 1


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message names the file and what is wrong."""


class SpecialTokens(BaseModel):
    """Ids that text never produces."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pad_id: int = 0
    unk_id: int = 1
    bos_id: int = 2
    eos_id: int = 3
    decoder_start_id: int = 2
    source_prefix_ids: list[int] = []
    source_suffix_ids: list[int] = [3]


class CheckpointConfig(BaseModel):
    """What ``config.json`` of a checkpoint says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: int = FORMAT_VERSION
    name: str
    model: TransformerConfig
    special_tokens: SpecialTokens = SpecialTokens()
    source_language: str
    target_language: str
    joint_vocabulary: bool = True
    attribution: str = ""
    recipe_sha256: str = ""
    updates: int = 0
    metrics: dict[str, Any] = {}


@dataclass(frozen=True)
class Checkpoint:
    """A model read back, with what is needed to use it."""

    directory: Path
    config: CheckpointConfig
    model: Transformer
    tokenizer: Tokenizer


def write_directory(
    target: Path,
    tensors: Mapping[str, Mapping[str, Tensor]],
    texts: Mapping[str, str],
    copies: Sequence[Path] = (),
) -> None:
    """Write tensor files, text files and copies of files into a new directory, flush it, then swap it in.

    A crash at any point leaves the old directory or the new one, never a mixture.
    """
    aside = target.with_name(f".{target.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for name, group in tensors.items():
        save_file(
            {key: value.detach().contiguous().cpu().clone() for key, value in group.items()}, aside / name
        )
    for name, text in texts.items():
        (aside / name).write_text(text, encoding="utf-8")
    for path in copies:
        shutil.copyfile(path, aside / path.name)
    for path in aside.iterdir():
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
    if target.exists():
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        aside.rename(target)
        shutil.rmtree(old)
    else:
        aside.rename(target)


def model_tensors(model: Transformer) -> dict[str, Tensor]:
    """Return the weights without the second name of tied ones (safetensors refuses shared memory)."""
    tensors = {}
    seen: set[int] = set()
    for name, parameter in model.state_dict().items():
        if parameter.data_ptr() in seen:
            continue
        seen.add(parameter.data_ptr())
        tensors[name] = parameter
    return tensors


def load_model_tensors(model: Transformer, tensors: Mapping[str, Tensor], origin: Path) -> None:
    """Copy weights into a model.

    Raises:
        CheckpointError: a weight is missing, unexpected or of another shape.
    """
    expected = model_tensors(model)
    wrong = sorted(set(expected) ^ set(tensors))
    wrong += [name for name in expected if name in tensors and expected[name].shape != tensors[name].shape]
    if wrong:
        raise CheckpointError(f"{origin}: does not fit the configured model: {', '.join(wrong[:3])}")
    with torch.no_grad():
        for name, parameter in expected.items():
            parameter.copy_(tensors[name])


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises:
        CheckpointError: missing or damaged.
    """
    try:
        return dict(load_file(path))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: damaged: {error}") from None


def read_config(directory: Path) -> CheckpointConfig:
    """Read ``config.json`` of a checkpoint.

    Raises:
        CheckpointError: missing, not JSON, of another version or with unknown fields.
    """
    path = directory / "config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        config = CheckpointConfig.model_validate(values)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; is {directory} a checkpoint?") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: not JSON: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise CheckpointError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if config.format_version != FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: format_version {config.format_version}, this program reads {FORMAT_VERSION}"
        )
    return config


def load_checkpoint(directory: Path, device: str = "cpu") -> Checkpoint:
    """Read a checkpoint for evaluation or export; the model is in eval mode.

    Raises:
        CheckpointError: a file is missing or damaged, or the files do not fit together.
        TokenizerError: the tokenizer cannot be read.
    """
    config = read_config(directory)
    model = Transformer(config.model)
    path = directory / "model.safetensors"
    load_model_tensors(model, read_tensors(path), path)
    target = None if config.joint_vocabulary else directory / "target.spm"
    tokenizer = Tokenizer.load(directory / "source.spm", target)
    if tokenizer.target_vocab_size != config.model.target_vocab_size:
        raise CheckpointError(
            f"{directory}: tokenizer has {tokenizer.target_vocab_size} entries, "
            f"the model {config.model.target_vocab_size}"
        )
    return Checkpoint(directory, config, model.to(device).eval(), tokenizer)


def average_tensors(files: Sequence[Path]) -> dict[str, Tensor]:
    """Average the weights of several checkpoints (Vaswani et al., 2017, section 6.1)."""
    total: dict[str, Tensor] = {}
    for path in files:
        for name, tensor in read_tensors(path).items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(files)).float() for name, tensor in total.items()}
