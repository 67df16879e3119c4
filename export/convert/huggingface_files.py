"""Reads the files of a Hugging Face model directory without trusting them.

JSON and tensors only, nothing that runs code: PyTorch files are read with ``weights_only``. Sizes are looked
at before anything is parsed.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from export.fetch.hub import fetch_repository, full_name
from export.protobuf_wire import WireError, count_pieces

SAFETENSORS, PYTORCH = "model.safetensors", "pytorch_model.bin"
_MAX_JSON_BYTES = 1 << 22
_MAX_INDEX_BYTES = 1 << 24
_MAX_SPM_BYTES = 1 << 26
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.safetensors")


class HuggingFaceError(ValueError):
    """A model or a directory does not fit; the message is one line that names what and why."""


def find_directory(name: str, report: Callable[[str], None]) -> Path:
    """Return a local directory for a path or, where the network allows, for a name on the Hugging Face hub.

    Raises:
        HuggingFaceError: there is no such directory, and this is no hub name.
        FetchError: the hub has or gives nothing.
    """
    path = Path(name)
    if path.is_dir():
        return path
    if path.exists() or full_name(name) != name:
        raise HuggingFaceError(f"{name}: no such directory, nor a hub name like Helsinki-NLP/opus-mt-en-de")
    return fetch_repository(name, report)


def read_json(path: Path, most_bytes: int = _MAX_JSON_BYTES) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        HuggingFaceError: missing, too large or no JSON object.
    """
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise HuggingFaceError(f"{path}: {size} bytes; at most {most_bytes} are read")
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise HuggingFaceError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, HuggingFaceError):
            raise
        raise HuggingFaceError(f"{path}: not JSON: {error}") from None
    if not isinstance(values, dict):
        raise HuggingFaceError(f"{path}: not a JSON object")
    return values


def check_sentencepiece(path: Path) -> None:
    """Look into a SentencePiece model before its C++ parser does.

    Raises:
        HuggingFaceError: missing, too large or no such model.
    """
    try:
        size = path.stat().st_size
        if size > _MAX_SPM_BYTES:
            raise HuggingFaceError(f"{path}: {size} bytes; at most {_MAX_SPM_BYTES} are read")
        pieces = count_pieces(path.read_bytes())
    except FileNotFoundError:
        raise HuggingFaceError(f"{path}: no such file; such models come with one") from None
    except (OSError, WireError) as error:
        raise HuggingFaceError(f"{path}: not a SentencePiece model: {error}") from None
    if not pieces:
        raise HuggingFaceError(f"{path}: not a SentencePiece model: it has no pieces")


def read_weights(directory: Path) -> tuple[Path, dict[str, Tensor]]:
    """Read the tensors of ``model.safetensors``, of the parts of its index, or of ``pytorch_model.bin``.

    Returns:
        The file, which of parts is the index, and its tensors by name, as stored.

    Raises:
        HuggingFaceError: there is neither, or the file is damaged or holds more than tensors.
    """
    path = directory / SAFETENSORS
    if path.is_file():
        try:
            return path, dict(load_file(path))
        except (SafetensorError, OSError, ValueError) as error:
            raise HuggingFaceError(f"{path}: damaged: {error}") from None
    if (index := directory / f"{SAFETENSORS}.index.json").is_file():
        return index, _read_parts(index)
    path = directory / PYTORCH
    if not path.is_file():
        for index in sorted(directory.glob("*.index.json")):
            raise HuggingFaceError(f"{index}: names parts that are no safetensors; save them as such")
        raise HuggingFaceError(f"{directory}: has neither {SAFETENSORS} nor {PYTORCH}")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise HuggingFaceError(
            f"{path}: holds more than tensors, and reading it could run code; save it as {SAFETENSORS}"
        ) from None
    except (RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        raise HuggingFaceError(f"{path}: damaged: {str(error).splitlines()[0]}") from None
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise HuggingFaceError(f"{path}: not a table of tensors")
    return path, tensors


def _read_parts(index: Path) -> dict[str, Tensor]:
    """Read the files that an index names for its tensors, each of which must be where it says."""
    named = read_json(index, _MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(named, dict) or not all(
        isinstance(part, str) and _PART.fullmatch(part) for part in named.values()
    ):
        raise HuggingFaceError(f"{index}: has no weight_map of tensors and files beside it")
    tensors: dict[str, Tensor] = {}
    for part in sorted(set(named.values())):
        try:
            tensors |= load_file(index.parent / part)
        except FileNotFoundError:
            raise HuggingFaceError(f"{index.parent / part}: no such file; {index.name} names it") from None
        except (SafetensorError, OSError, ValueError) as error:
            raise HuggingFaceError(f"{index.parent / part}: damaged: {error}") from None
    if odd := sorted(tensors.keys() ^ named.keys()):
        raise HuggingFaceError(f"{index}: its parts do not hold what it says: {odd[0]}")
    return tensors


def read_front_matter(directory: Path) -> dict[str, str]:
    """Read the plain ``key: value`` lines at the head of README.md, as model cards have them; maybe none."""
    try:
        text = (directory / "README.md").read_text(encoding="utf-8")[:100_000]
    except (OSError, UnicodeDecodeError):
        return {}
    head = re.match(r"---\r?\n(.*?)\r?\n---", text, re.S)
    if head is None:
        return {}
    lines = (re.fullmatch(r"([\w-]+):\s+(\S.*?)\s*", line) for line in head[1].splitlines())
    return {line[1].lower(): line[2].strip("\"'") for line in lines if line}


def sha256(path: Path) -> str:
    """Return a file's SHA-256 as hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
