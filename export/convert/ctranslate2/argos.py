"""Argos packages: a zip of one directory with ``metadata.json``, a SentencePiece model and ``model/``."""

from __future__ import annotations

import json
import lzma
import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from export.convert.huggingface_files import HuggingFaceError

_CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_MODEL = re.compile(
    r"(?:model\.bin|config\.json|(?:shared|source|target)_vocabulary\.(?:json|txt)|vmap\.txt)"
)
_MAX_MEMBERS = 10_000
_MAX_METADATA_BYTES, _MAX_SMALL_BYTES, _MAX_MODEL_BYTES = 1 << 20, 1 << 26, 1 << 33
_MAX_RATIO = 50
_CHUNK = 1 << 20
_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    UnicodeDecodeError,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)


@dataclass(frozen=True)
class Package:
    """What a package says of itself.

    Attributes:
        name: made of its languages and version.
        source: language code.
        target: language code.
    """

    name: str
    source: str
    target: str


def unpack(path: Path, directory: Path) -> Package:
    """Write what is needed of a package into a directory: known names only, wherever the zip has them.

    Raises:
        HuggingFaceError: not a package, damaged, or larger than any.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _unpack(archive, path, directory)
    except FileNotFoundError:
        raise HuggingFaceError(f"{path}: no such file") from None
    except _DAMAGES as error:
        raise HuggingFaceError(f"{path}: not an Argos package, or damaged: {error}") from None


def _unpack(archive: zipfile.ZipFile, path: Path, directory: Path) -> Package:
    members = archive.infolist()
    if len(members) > _MAX_MEMBERS:
        raise HuggingFaceError(f"{path}: {len(members)} files; no package has more than {_MAX_MEMBERS}")
    found: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        parts = member.filename.split("/")
        if len(parts) == 2 and parts[1] in ("metadata.json", "sentencepiece.model", "bpe.model"):
            found.setdefault(parts[1], member)
        elif len(parts) == 3 and parts[1] == "model" and _MODEL.fullmatch(parts[2]):
            found.setdefault(parts[2], member)
    if "metadata.json" not in found or "model.bin" not in found:
        raise HuggingFaceError(f"{path}: not an Argos package: it has no metadata.json and model/model.bin")
    if "sentencepiece.model" not in found:
        kind = "another tokenizer than SentencePiece" if "bpe.model" in found else "no tokenizer"
        raise HuggingFaceError(f"{path}: has {kind}; only packages with sentencepiece.model are read")
    for name, member in found.items():
        most = {"metadata.json": _MAX_METADATA_BYTES, "model.bin": _MAX_MODEL_BYTES}.get(
            name, _MAX_SMALL_BYTES
        )
        if member.file_size > most or member.file_size > _MAX_RATIO * max(member.compress_size, 1024):
            raise HuggingFaceError(f"{path}: {ascii(member.filename)[:80]} would be {member.file_size} bytes")
        with archive.open(member) as stream, (directory / name).open("xb") as out:
            # Its header may lie: zipfile reads no more than it says, and then compares the checksum.
            while chunk := stream.read(_CHUNK):
                out.write(chunk)
    return _metadata(directory / "metadata.json", path)


def _metadata(file: Path, path: Path) -> Package:
    try:
        values = json.loads(file.read_bytes())
        source, target = values["from_code"], values["to_code"]
        version = str(values.get("package_version", "1"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HuggingFaceError(f"{path}: its metadata.json is odd: {error}") from None
    for code in (source, target):
        if not isinstance(code, str) or not _CODE.fullmatch(code):
            raise HuggingFaceError(f"{path}: {ascii(code)[:60]} is not a language code")
    version = re.sub(r"[^A-Za-z0-9.]", "-", version)[:20]
    return Package(f"argos-{source}-{target}-{version}", source, target)
