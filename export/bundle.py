"""The bundle, format version 1: a directory that holds everything the server needs, and its manifest.

A leaf: pydantic and the standard library only, so that the server reads bundles without torch or onnx.
Nothing in a bundle is parsed before its size and SHA-256 were compared with the manifest: ONNX Runtime loads
weights with a flipped bit without a word.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from export.wire import WireError, count_pieces, summarise_onnx

FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"
REQUIRED_DOCUMENTS = ("MODEL_CARD.md", "NOTICE")
MAX_MANIFEST_BYTES = 1 << 20
MAX_OPSETS = {"": 24, "com.microsoft": 1}
MAX_IR_VERSION = 12

Precision = Literal["fp32", "fp16", "int8"]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
TokenId = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(gt=0)]
_PRINTABLE = re.compile(r"[^\x20-\x7e]")


class BundleError(Exception):
    """A bundle is refused. ``str()`` is one line that names the file and the reason."""

    def __init__(self, file: str, reason: str) -> None:
        self.file = _one_line(file)
        self.reason = _one_line(reason)
        super().__init__(f"{self.file}: {self.reason}")


def _one_line(text: str) -> str:
    return _PRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)[:300]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Direction(_Part):
    """One translation direction, as language codes."""

    source: str = Field(min_length=1, max_length=40)
    target: str = Field(min_length=1, max_length=40)


class SpecialTokens(_Part):
    """Ids with a meaning.

    The encoder reads ``source_prefix_ids + pieces + source_suffix_ids``; decoding starts at
    ``decoder_start_id`` and ends at ``eos_id``.
    """

    pad_id: TokenId
    unk_id: TokenId
    bos_id: TokenId
    eos_id: TokenId
    decoder_start_id: TokenId
    source_prefix_ids: tuple[TokenId, ...] = ()
    source_suffix_ids: tuple[TokenId, ...] = ()


class Limits(_Part):
    """Longest sequences the graphs can take; the source counts its prefix and suffix."""

    max_source_tokens: Count
    max_target_tokens: Count


class Architecture(_Part):
    """What the server needs to lay out its buffers, and what people like to know."""

    encoder_layers: Count
    decoder_layers: Count
    d_model: Count
    encoder_heads: Count
    decoder_heads: Count
    head_dim: Count = Field(description="size of one decoder head")
    encoder_ffn_dim: Count
    decoder_ffn_dim: Count
    source_vocab_size: Count
    vocab_size: Count = Field(description="target vocabulary: the width of logits")
    parameters: Count


class Graphs(_Part):
    """ONNX files; ``decoders`` maps a beam width, as a decimal string, to the graph made for it."""

    opset: Count
    encoder: FileName
    decoders: dict[Annotated[str, Field(pattern=r"^[1-9][0-9]{0,2}$")], FileName]

    @property
    def beam_widths(self) -> tuple[int, ...]:
        """Beam widths that the bundle can decode with, ascending."""
        return tuple(sorted(int(width) for width in self.decoders))


class TokenizerFiles(_Part):
    """SentencePiece models; without ``target`` the source's serves both sides."""

    kind: Literal["sentencepiece"]
    source: FileName
    target: FileName | None = None


class FileEntry(_Part):
    """Identity of one file."""

    sha256: Sha256
    size_bytes: int = Field(ge=0)


class Parity(_Part):
    """fp32 ONNX graphs against PyTorch on real sentences."""

    largest_logit_difference: float = Field(ge=0)
    sentences: int = Field(ge=0)
    same_tokens: int = Field(ge=0, description="sentences whose greedy tokens agree")


class Score(_Part):
    """Corpus scores of one precision, greedy decoding."""

    bleu: float
    chrf: float


class Quality(_Part):
    """Scores on the dev set, the gate of every precision but fp32."""

    set: str
    sentences: int = Field(ge=0)
    signature_bleu: str
    signature_chrf: str
    scores: dict[Precision, Score]
    bleu_loss: float = Field(description="fp32 minus the bundle's own precision")
    loss_accepted_by_flag: bool = False


class Calibration(_Part):
    """Where int8 activation ranges come from."""

    method: str
    weight_bits: int = Field(ge=2, le=8)
    sentences: int = Field(ge=1)
    sample: str
    sample_sha256: Sha256


class Golden(_Part):
    """A sentence that the server translates at load and compares; greedy, without the end token."""

    source: str
    target: str
    source_ids: tuple[TokenId, ...]
    target_ids: tuple[TokenId, ...]


class Manifest(_Part):
    """``manifest.json``: the only thing that decides what the server does with a bundle."""

    format_version: Literal[1]
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    version: str = Field(min_length=1, max_length=100)
    created: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    directions: tuple[Direction, ...] = Field(min_length=1)
    special_tokens: SpecialTokens
    limits: Limits
    precision: Precision
    batch_invariant: bool
    architecture: Architecture
    graphs: Graphs
    tokenizer: TokenizerFiles
    files: dict[FileName, FileEntry]
    parity: Parity | None = None
    quality: Quality | None = None
    calibration: Calibration | None = None
    golden: tuple[Golden, ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        size = self.architecture
        if "1" not in self.graphs.decoders:
            raise ValueError("graphs.decoders has no graph for beam width 1")
        if size.decoder_heads * size.head_dim != size.d_model:
            raise ValueError("architecture: decoder_heads x head_dim is not d_model")
        for file in (*self.graph_files, *self.tokenizer_files, *REQUIRED_DOCUMENTS):
            if file not in self.files:
                raise ValueError(f"files does not list {file}")
        if MANIFEST_NAME in self.files:
            raise ValueError("files lists the manifest itself")
        tokens = self.special_tokens
        source = [*tokens.source_prefix_ids, *tokens.source_suffix_ids]
        target = [tokens.pad_id, tokens.unk_id, tokens.bos_id, tokens.eos_id, tokens.decoder_start_id]
        for golden in self.golden:
            source += golden.source_ids
            target += golden.target_ids
        if max(source, default=0) >= size.source_vocab_size or max(target) >= size.vocab_size:
            raise ValueError("a token id lies outside the vocabulary")
        return self

    @property
    def graph_files(self) -> tuple[str, ...]:
        """Names of all ONNX files."""
        return (self.graphs.encoder, *self.graphs.decoders.values())

    @property
    def tokenizer_files(self) -> tuple[str, ...]:
        """Names of the tokenizer's files: one, or source and target."""
        return (self.tokenizer.source,) + (() if self.tokenizer.target is None else (self.tokenizer.target,))


def load_manifest(directory: Path) -> Manifest:
    """Read and validate the manifest alone.

    Raises:
        BundleError: there is none, or it is not one of format version 1.
    """
    path = directory / MANIFEST_NAME
    if not directory.is_dir():
        raise BundleError(str(directory), "no such bundle directory")
    size = _regular_file(path).st_size
    if size > MAX_MANIFEST_BYTES:
        raise BundleError(MANIFEST_NAME, f"{size} bytes; a manifest has at most {MAX_MANIFEST_BYTES}")
    try:
        raw = json.loads(_read(path), object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BundleError(MANIFEST_NAME, f"is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise BundleError(MANIFEST_NAME, "is not a JSON object")
    if raw.get("format_version") != FORMAT_VERSION:
        found = ascii(raw.get("format_version"))[:40]
        raise BundleError(MANIFEST_NAME, f"format_version {found} is not supported, only {FORMAT_VERSION}")
    try:
        return Manifest.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BundleError(MANIFEST_NAME, f"{where}: {first['msg']}" if where else first["msg"]) from error


def verify_bundle(directory: Path) -> Manifest:
    """Check a bundle before anything in it is loaded.

    The directory may be a symbolic link (``current -> v3``); the files in it may not.

    Returns:
        The manifest; every file it lists is there, regular, unlinked, and has the size and SHA-256 it states.

    Raises:
        BundleError: the bundle is incomplete, corrupted, foreign or holds something unknown.
    """
    manifest = load_manifest(directory)
    present = {entry.name for entry in os.scandir(directory)}
    for name in sorted(present - {MANIFEST_NAME} - set(manifest.files)):
        raise BundleError(name, "is not listed in the manifest")
    for name, entry in manifest.files.items():
        size = _regular_file(directory / name).st_size
        if size != entry.size_bytes:
            raise BundleError(name, f"has {size} bytes, the manifest says {entry.size_bytes}")
    for name, entry in manifest.files.items():
        if hash_file(directory / name) != entry.sha256:
            raise BundleError(name, "SHA-256 differs from the manifest: the file is corrupted or was changed")
    for name in manifest.graph_files:
        _check_graph(directory / name, manifest)
    vocabularies = (manifest.architecture.source_vocab_size, manifest.architecture.vocab_size)
    for name, vocabulary in (
        (manifest.tokenizer.source, vocabularies[0]),
        (manifest.tokenizer_files[-1], vocabularies[1]),
    ):
        _check_tokenizer(directory / name, vocabulary)
    return manifest


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write ``manifest.json`` aside and rename it, so that a reader sees all of it or none."""
    aside = directory / (MANIFEST_NAME + ".partial")
    content = json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
    with aside.open("w", encoding="utf-8") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(directory / MANIFEST_NAME)


def describe_files(directory: Path) -> dict[str, FileEntry]:
    """Hash every file of a bundle under construction, the manifest excepted."""
    return {
        path.name: FileEntry(sha256=hash_file(path), size_bytes=path.stat().st_size)
        for path in sorted(directory.iterdir())
        if path.name != MANIFEST_NAME
    }


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's content as lower-case hexadecimal digits.

    Raises:
        BundleError: the file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BundleError(path.name, f"cannot be read: {error.strerror}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(path.name, f"cannot be read: {error.strerror}") from error


def _regular_file(path: Path) -> os.stat_result:
    try:
        status = path.lstat()
    except FileNotFoundError as error:
        raise BundleError(path.name, "is missing") from error
    except OSError as error:
        raise BundleError(path.name, f"cannot be read: {error.strerror}") from error
    if stat.S_ISLNK(status.st_mode):
        raise BundleError(path.name, "is a symbolic link; a bundle holds regular files only")
    if not stat.S_ISREG(status.st_mode):
        raise BundleError(path.name, "is not a regular file")
    if status.st_nlink > 1:
        raise BundleError(
            path.name, "is a hard link to a file elsewhere; copy the bundle instead of linking it"
        )
    return status


def _check_graph(path: Path, manifest: Manifest) -> None:
    try:
        summary = summarise_onnx(_read(path))
    except WireError as error:
        raise BundleError(path.name, f"is not an ONNX model: {error}") from error
    if summary.ir_version > MAX_IR_VERSION:
        raise BundleError(path.name, f"ONNX IR version {summary.ir_version} is newer than {MAX_IR_VERSION}")
    for domain in sorted(summary.node_domains | set(summary.opsets)):
        if domain not in MAX_OPSETS:
            raise BundleError(path.name, f"operator domain '{domain}' is not allowed")
    for domain, version in summary.opsets.items():
        if not 1 <= version <= MAX_OPSETS[domain]:
            raise BundleError(path.name, f"opset {version} of domain '{domain}' is not supported")
    for external in sorted(summary.external_files - set(manifest.files)):
        raise BundleError(path.name, f"keeps weights in '{external}', which the manifest does not list")


def _check_tokenizer(path: Path, vocabulary: int) -> None:
    try:
        pieces = count_pieces(_read(path))
    except WireError as error:
        raise BundleError(path.name, f"is not a SentencePiece model: {error}") from error
    if pieces != vocabulary:
        raise BundleError(path.name, f"has {pieces} pieces, the model's vocabulary has {vocabulary}")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError("a key occurs twice")
    return keys


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
