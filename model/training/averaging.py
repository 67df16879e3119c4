"""The mean of several checkpoints' weights: the last ones of a run, or those of two stages of training."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from model.checkpoint import CheckpointConfig, CheckpointError, read_config, read_tensors, write_directory

_WEIGHTS = "model.safetensors"


def average_tensors(files: Sequence[Path], weights: Sequence[float] | None = None) -> dict[str, Tensor]:
    """Average weights (Vaswani et al., 2017, section 6.1).

    Args:
        files: safetensors files with the same names and shapes.
        weights: how much each counts; all the same unless given.

    Returns:
        float32 tensors by name.

    Raises:
        CheckpointError: a file is damaged, or does not have the tensors of the first.
    """
    shares = weights or [1.0] * len(files)
    total: dict[str, Tensor] = {}
    for path, share in zip(files, shares, strict=True):
        tensors = read_tensors(path)
        if total and _shapes(tensors) != _shapes(total):
            raise CheckpointError(f"{path}: its weights have other names or shapes than those of {files[0]}")
        for name, tensor in tensors.items():
            part = tensor.double() * share
            total[name] = total[name] + part if name in total else part
    return {name: (tensor / sum(shares)).float() for name, tensor in total.items()}


def average_checkpoints(
    directories: Sequence[Path], out: Path, weights: Sequence[float] | None = None
) -> None:
    """Write the mean of checkpoints as a checkpoint of its own.

    All but the weights is that of the last one; its validation result, which is not the mean's, is left out.

    Args:
        directories: two or more checkpoints of one architecture and vocabulary.
        out: directory of the new one, which must not exist.
        weights: how much each counts, none negative; all the same unless given.

    Raises:
        CheckpointError: they do not fit together, or one is damaged.
        ValueError: too few checkpoints, unusable weights, or ``out`` is there already.
    """
    if len(directories) < 2:
        raise ValueError("an average takes two checkpoints or more")
    if weights is not None and len(weights) != len(directories):
        raise ValueError(f"{len(weights)} weights for {len(directories)} checkpoints; give one for each")
    if weights is not None and not (min(weights) >= 0 and 0 < sum(weights) < math.inf):
        raise ValueError("weights must be numbers of at least 0, and not all 0")
    if out.exists():
        raise ValueError(f"{out} exists; remove it or choose another --out")
    configs = [read_config(directory) for directory in directories]
    for directory, config in zip(directories, configs, strict=True):
        _check_fit(directory, config, directories[-1], configs[-1])
    tensors = average_tensors([directory / _WEIGHTS for directory in directories], weights)
    last, config = directories[-1], configs[-1].model_copy(update={"metrics": {}})
    copies = [*config.tokenizer_files.names, *(["recipe.toml"] if (last / "recipe.toml").exists() else [])]
    write_directory(
        out,
        {_WEIGHTS: tensors},
        {"config.json": config.model_dump_json(indent=1) + "\n"},
        {name: last / name for name in copies},
    )


def _check_fit(directory: Path, config: CheckpointConfig, other: Path, expected: CheckpointConfig) -> None:
    for name, (ours, theirs) in config.model.differences(expected.model).items():
        raise CheckpointError(f"{directory}: {name} is {ours}, that of {other} is {theirs}")
    for name in {*config.tokenizer_files.names, *expected.tokenizer_files.names}:
        if _sha256(directory / name) != _sha256(other / name):
            raise CheckpointError(f"{directory / name}: another vocabulary than that of {other}")


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None


def _shapes(tensors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}
