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
import shutil
import stat
import sys
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from export.languages import Direction, Framing, Language
from export.manifest import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    TRANSLATION,
    Agreement,
    Calibration,
    FileEntry,
    Generation,
    Golden,
    Graphs,
    Limits,
    Manifest,
    Parity,
    Precision,
    Quality,
    Score,
    SpecialTokens,
    TokenizerFiles,
)
from export.protobuf_wire import WireError, count_pieces, summarise_onnx
from export.sections.architecture import Architecture, ArchitectureDetails
from export.sections.attention import Attention
from export.sections.confidence import (
    Bin,
    Calibrated,
    Confidence,
    Curve,
    as_written,
    mean_probability,
    words_of,
)
from export.sections.shortlist import Shortlist
from export.sections.text import Mask, OutputChecks, TextMeasures

__all__ = [
    "MANIFEST_NAME",
    "TRANSLATION",
    "Agreement",
    "Architecture",
    "ArchitectureDetails",
    "Attention",
    "Bin",
    "BundleError",
    "Calibrated",
    "Calibration",
    "Confidence",
    "Curve",
    "Direction",
    "FileEntry",
    "Framing",
    "Generation",
    "Golden",
    "Graphs",
    "Language",
    "Limits",
    "Manifest",
    "Mask",
    "OutputChecks",
    "Parity",
    "Precision",
    "Quality",
    "Score",
    "Shortlist",
    "SpecialTokens",
    "TextMeasures",
    "TokenizerFiles",
    "as_written",
    "copy_bundle",
    "describe_files",
    "hash_file",
    "load_manifest",
    "mean_probability",
    "renewed",
    "verify_bundle",
    "verify_hashes",
    "words_of",
    "write_manifest",
]

MAX_MANIFEST_BYTES = 1 << 20
MAX_OPSETS = {"": 24, "com.microsoft": 1}
MAX_IR_VERSION = 12

_PRINTABLE = re.compile(r"[^\x20-\x7e]")


class BundleError(Exception):
    """A bundle is refused. ``str()`` is one line that names the file and the reason.

    Attributes:
        bundle: its directory, where several are loaded at once.
    """

    bundle: Path | None = None

    def __init__(self, file: str, reason: str) -> None:
        self.file = _one_line(file)
        self.reason = _one_line(reason)
        super().__init__(f"{self.file}: {self.reason}")

    def __reduce__(self) -> tuple[type[BundleError], tuple[str, str]]:
        return type(self), (self.file, self.reason)


def _one_line(text: str) -> str:
    return _PRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)[:300]


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


def verify_bundle(directory: Path, *, hashed_below: int | None = None) -> Manifest:
    """Check a bundle before anything in it is loaded.

    The directory may be a symbolic link (``current -> v3``); the files in it may not.

    Args:
        directory: the bundle.
        hashed_below: size from which on files are left to `verify_hashes`; None leaves it none.

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
    verify_hashes(directory, manifest, range(hashed_below or sys.maxsize))
    for name in manifest.all_graph_files:
        _check_graph(directory / name, manifest)
    _check_tokenizer(directory, manifest)
    return manifest


def verify_hashes(directory: Path, manifest: Manifest, sizes: range) -> None:
    """Compare the files of some sizes with their SHA-256.

    Raises:
        BundleError: one has another.
    """
    for name, entry in manifest.files.items():
        if entry.size_bytes in sizes and hash_file(directory / name) != entry.sha256:
            raise BundleError(name, "SHA-256 differs from the manifest: the file is corrupted or was changed")


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write ``manifest.json`` aside and rename it, so that a reader sees all of it or none."""
    aside = directory / (MANIFEST_NAME + ".partial")
    content = json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
    with aside.open("w", encoding="utf-8") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(directory / MANIFEST_NAME)


def renewed(directory: Path, manifest: Manifest, **changes: Any) -> Manifest:
    """Write a manifest with other sections, and with the files that there are now; gives what it is then.

    Raises:
        BundleError: the bundle is not one any more.
    """
    write_manifest(directory, manifest.model_copy(update={**changes, "files": describe_files(directory)}))
    return verify_bundle(directory)


def copy_bundle(bundle: Path, aside: Path) -> None:
    """Copy the files of a bundle into an empty directory.

    Raises:
        BundleError: it is damaged.
    """
    for name in (MANIFEST_NAME, *verify_bundle(bundle).files):
        shutil.copyfile(bundle / name, aside / name)


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


def _check_tokenizer(directory: Path, manifest: Manifest) -> None:
    """Check that no text can become an id that the model does not have."""
    files, size = manifest.tokenizer, manifest.architecture
    sides = ((files.source, size.source_vocab_size), (files.target or files.source, size.vocab_size))
    for name, entries in sides:
        try:
            pieces = count_pieces(_read(directory / name))
        except WireError as error:
            raise BundleError(name, f"is not a SentencePiece model: {error}") from error
        if files.vocabulary is None and pieces != entries:
            raise BundleError(name, f"has {pieces} pieces, the model's vocabulary has {entries}")
    if files.vocabulary is not None:
        _check_vocabulary(directory / files.vocabulary, size.source_vocab_size)
        _check_vocabulary(directory / (files.target_vocabulary or files.vocabulary), size.vocab_size)


def _check_vocabulary(path: Path, entries: int) -> None:
    try:
        ids = json.loads(_read(path), object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BundleError(path.name, f"is not JSON: {error}") from error
    if not isinstance(ids, dict) or not all(type(number) is int for number in ids.values()):
        raise BundleError(path.name, "is not an object of pieces and ids")
    if not all(0 <= number < entries for number in ids.values()):
        raise BundleError(path.name, f"has an id outside the model's vocabulary of {entries}")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError("a key occurs twice")
    return keys


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
