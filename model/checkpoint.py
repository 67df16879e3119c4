"""Checkpoints: safetensors and JSON in a directory, written aside and renamed. No pickle."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, overload

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.config import AnyConfig, RnnConfig, TransformerConfig
from model.encoder_decoder import EncoderDecoder
from model.recurrent.rnn import Rnn
from model.tokenizer import Tokenizer
from model.transformer import Transformer

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
    target_prefix_ids: list[int] = []
    suppressed_ids: list[int] = []
    forced_end: bool = False


class Direction(BaseModel):
    """One direction of a multilingual model, and the ids that ask for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    target: str
    source_prefix_ids: list[int] = []
    source_suffix_ids: list[int] = []
    target_prefix_ids: list[int] = []

    @property
    def name(self) -> str:
        """The two languages: ``en-de``."""
        return f"{self.source}-{self.target}"


class Language(BaseModel):
    """A language of a model that translates each of its languages into every other, and the ids it takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    source_prefix_ids: list[int] = []
    source_suffix_ids: list[int] = []
    target_prefix_ids: list[int] = []


class Generation(BaseModel):
    """How the model is meant to be decoded; None leaves the choice to the server. See ``export.manifest``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    beam_size: int | None = None
    length_penalty: float | None = None
    early_stopping: bool | Literal["never"] | None = None
    max_decoding_length: int | None = None
    min_decoding_length: int | None = None
    no_repeat_ngram_size: int | None = None


class CheckpointConfig(BaseModel):
    """What ``config.json`` of a checkpoint says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: int = FORMAT_VERSION
    name: str
    task: str = "translation"
    model: AnyConfig
    special_tokens: SpecialTokens = SpecialTokens()
    source_language: str
    target_language: str
    directions: list[Direction] = []
    languages: list[Language] = []
    tokenizer: Literal["sentencepiece", "marian", "byte_level"] = "sentencepiece"
    joint_vocabulary: bool = True
    generation: Generation = Generation()
    attribution: str = ""
    origin: str = ""
    recipe_sha256: str = ""
    updates: int = 0
    metrics: dict[str, Any] = {}

    @property
    def transformer(self) -> TransformerConfig:
        """The architecture, where only a Transformer will do: in graphs and in files of other projects.

        Raises:
            CheckpointError: it is another.
        """
        if isinstance(self.model, RnnConfig):
            raise CheckpointError(
                f"{self.name} is an RNN, which can be trained and evaluated; only Transformers are served"
            )
        return self.model

    @cached_property
    def all_directions(self) -> list[Direction]:
        """Every direction, the first one first; of most models there is one."""
        if self.languages:
            return [
                Direction(
                    source=source.code,
                    target=target.code,
                    source_prefix_ids=source.source_prefix_ids,
                    source_suffix_ids=source.source_suffix_ids,
                    target_prefix_ids=target.target_prefix_ids,
                )
                for source in self.languages
                for target in self.languages
                if source is not target
            ]
        return self.directions or [Direction(source=self.source_language, target=self.target_language)]

    @property
    def tokenizer_files(self) -> TokenizerFiles:
        """Names of the tokenizer's files in the checkpoint's directory."""
        if self.tokenizer != "marian":
            return TokenizerFiles("source.spm", None if self.joint_vocabulary else "target.spm")
        separate = None if self.joint_vocabulary else "target_vocab.json"
        return TokenizerFiles("source.spm", "target.spm", "vocab.json", separate)

    def load_tokenizer(self, directory: Path) -> Tokenizer:
        """Load the tokenizer from a directory.

        Raises:
            TokenizerError: a file is missing or is not what it should be.
        """
        files = self.tokenizer_files
        target, vocabulary, target_vocabulary = (
            None if name is None else directory / name for name in files[1:]
        )
        byte_level = self.tokenizer == "byte_level"
        return Tokenizer.load(directory / files.source, target, vocabulary, target_vocabulary, byte_level)


class TokenizerFiles(NamedTuple):
    """File names in the order in which ``Tokenizer.load`` takes them."""

    source: str
    target: str | None = None
    vocabulary: str | None = None
    target_vocabulary: str | None = None

    @property
    def names(self) -> list[str]:
        """Names of the files there are."""
        return [name for name in self if name is not None]


@dataclass(frozen=True)
class Checkpoint:
    """A model read back, with what is needed to use it."""

    directory: Path
    config: CheckpointConfig
    model: EncoderDecoder
    tokenizer: Tokenizer

    @property
    def transformer(self) -> Transformer:
        """The model, where only a Transformer will do.

        Raises:
            CheckpointError: it is another.
        """
        if not isinstance(self.model, Transformer):
            self.config.transformer  # noqa: B018 (says why not)
        assert isinstance(self.model, Transformer)
        return self.model


def write_directory(
    target: Path,
    tensors: Mapping[str, Mapping[str, Tensor]],
    texts: Mapping[str, str],
    copies: Mapping[str, Path | bytes] = MappingProxyType({}),
) -> None:
    """Write tensor files, text files and copies of files or bytes into a new directory, flush it, swap it in.

    A crash at any point leaves the old directory or the new one, never a mixture.
    """
    with replacing(target) as aside:
        for name, group in tensors.items():
            save_file(
                {key: value.detach().contiguous().cpu().clone() for key, value in group.items()}, aside / name
            )
        for name, text in texts.items():
            (aside / name).write_text(text, encoding="utf-8")
        for name, content in copies.items():
            if isinstance(content, bytes):
                (aside / name).write_bytes(content)
            else:
                shutil.copyfile(content, aside / name)
        for path in aside.iterdir():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())


@contextlib.contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """Give an empty directory that takes the place of ``out`` if all goes well, and is removed otherwise.

    What was there is moved away first and removed last. A symbolic link stays: what it leads to is replaced.

    Raises:
        CheckpointError: what is there is neither a checkpoint nor a bundle.
    """
    out = out.resolve()  # once, for the link may be switched meanwhile
    aside = start_aside(out)
    old = out.with_name(f".{out.name}.old")
    try:
        yield aside
        if out.exists():
            _remove(old)
            out.rename(old)
        aside.rename(out)
        _remove(old)
    finally:
        _remove(aside)


def start_aside(out: Path, kind: str = "partial") -> Path:
    """Make an empty directory beside ``out``, on the same file system; leftovers of a killed command go.

    Raises:
        CheckpointError: what is at ``out`` is neither a checkpoint nor a bundle.
    """
    out = out.resolve()
    is_ours = any((out / name).is_file() for name in ("config.json", "manifest.json"))
    if out.is_dir() and not is_ours and any(out.iterdir()):
        raise CheckpointError(f"{out}: is there and neither a checkpoint nor a bundle; choose another place")
    aside = out.with_name(f".{out.name}.{kind}")
    _remove(aside)
    aside.mkdir(parents=True)
    return aside


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def new_model(config: AnyConfig) -> EncoderDecoder:
    """Make a model of an architecture with weights drawn at random."""
    return Rnn(config) if isinstance(config, RnnConfig) else Transformer(config)


def model_tensors(model: EncoderDecoder) -> dict[str, Tensor]:
    """Return the weights without the second name of tied ones (safetensors refuses shared memory)."""
    tensors = {}
    seen: set[int] = set()
    for name, parameter in model.state_dict(keep_vars=True).items():
        if id(parameter) in seen:
            continue
        seen.add(id(parameter))
        tensors[name] = parameter.detach()
    return tensors


@overload
def build_model(config: TransformerConfig, tensors: Mapping[str, Tensor], origin: Path) -> Transformer: ...
@overload
def build_model(config: AnyConfig, tensors: Mapping[str, Tensor], origin: Path) -> EncoderDecoder: ...
def build_model(config: AnyConfig, tensors: Mapping[str, Tensor], origin: Path) -> EncoderDecoder:
    """Make a model with these weights.

    They are compared with a model without storage first: what a wrong config asks for may be of any size.

    Raises:
        CheckpointError: a weight is missing, unexpected or of another shape.
    """
    with torch.device("meta"):
        skeleton = new_model(config)
    _check_fit(model_tensors(skeleton), tensors, origin)
    model = new_model(config)
    load_model_tensors(model, tensors, origin)
    return model


def load_model_tensors(model: EncoderDecoder, tensors: Mapping[str, Tensor], origin: Path) -> None:
    """Copy weights into a model.

    Raises:
        CheckpointError: a weight is missing, unexpected or of another shape.
    """
    expected = model_tensors(model)
    _check_fit(expected, tensors, origin)
    with torch.no_grad():
        for name, parameter in expected.items():
            parameter.copy_(tensors[name])


def _check_fit(expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor], origin: Path) -> None:
    wrong = sorted(set(expected) ^ set(tensors))
    wrong += [name for name in expected if name in tensors and expected[name].shape != tensors[name].shape]
    if wrong:
        raise CheckpointError(f"{origin}: does not fit the configured model: {', '.join(wrong[:3])}")


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
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(f"{path}: no such file; is {directory} a checkpoint?") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None
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
    path = directory / "model.safetensors"
    model = build_model(config.model, read_tensors(path), path)
    tokenizer = config.load_tokenizer(directory)
    check_vocabulary(tokenizer, config, directory)
    return Checkpoint(directory, config, model.to(device).eval(), tokenizer)


def check_vocabulary(tokenizer: Tokenizer, config: CheckpointConfig, origin: Path) -> None:
    """Check that text never becomes an id that the model does not have.

    Raises:
        CheckpointError: sizes differ. A list of ids may be shorter: tables are padded to round numbers.
    """
    for side in ("source", "target"):
        entries, rows = getattr(tokenizer, f"{side}_vocab_size"), getattr(config.model, f"{side}_vocab_size")
        if entries > rows or (entries < rows and config.tokenizer != "marian"):
            raise CheckpointError(f"{origin}: {side} vocabulary has {entries} entries, the model {rows}")
