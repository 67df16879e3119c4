"""Repositories of the Hugging Face hub: only the files that an importer reads, checked against their hashes.

``huggingface_hub`` fetches, resumes and caches them; its variables (``HF_ENDPOINT``, ``HF_HOME``,
``HF_TOKEN``) apply.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export.fetch.download import FetchError, check_space

WEIGHTS, INDEX, PICKLED = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
_TEXTS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "README.md",
    "source.spm",
    "target.spm",
    "vocab.json",
    "target_vocab.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "tokenizer.json",
    "merges.txt",
)
_PART = re.compile(r"model-\d{1,5}-of-\d{1,5}\.safetensors")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}")
_OWNERS = (
    (re.compile(r"opus-mt-[\w.-]+"), "Helsinki-NLP"),
    (re.compile(r"(?:nllb-200|m2m100|mbart|bart)[\w.-]*"), "facebook"),
    (re.compile(r"(?:madlad400|flan-t5|mt5|byt5|umt5|pegasus)[\w.-]*"), "google"),
    (re.compile(r"t5-[\w.-]+"), "google-t5"),
)
_CHUNK = 1 << 20
_REMEDY = "without a network, copy the directory here and give its path; HF_ENDPOINT names a mirror"


@dataclass(frozen=True)
class RemoteFile:
    """A file of a repository.

    Attributes:
        name: without directories.
        size: in bytes.
        sha256: of its content, or None.
        git_sha1: of its content as a git object, or None.
    """

    name: str
    size: int
    sha256: str | None
    git_sha1: str | None


def full_name(name: str) -> str | None:
    """Return ``Helsinki-NLP/opus-mt-en-de`` for itself or for its second half; None for what is no name."""
    if _HUB_NAME.fullmatch(name):
        return name
    return next((f"{owner}/{name}" for pattern, owner in _OWNERS if pattern.fullmatch(name)), None)


def fetch_repository(name: str, report: Callable[[str], None]) -> Path:
    """Fetch what importers read of a repository, or find it in the library's cache.

    Args:
        name: owner and repository.
        report: is told size and license before anything is fetched.

    Returns:
        The directory in the cache.

    Raises:
        FetchError: the library is missing, there is no such repository, it holds no model, the disk is full,
            the hub cannot be reached, or a file is not what the hub says.
    """
    try:
        import huggingface_hub
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
    except ImportError:
        raise FetchError(f"{name}: to fetch it from the hub, pip install huggingface_hub") from None
    report(f"fetching {name} from the Hugging Face hub")
    try:
        about = huggingface_hub.HfApi().model_info(name, files_metadata=True)
        files = _chosen(name, about.siblings or [])
        total = sum(file.size for file in files)
        license_name = (getattr(about, "card_data", None) or {}).get("license") or "none stated"
        report(f"{name}: {len(files)} files, {total / 1e6:.1f} MB; license: {license_name}")
        check_space(Path(huggingface_hub.constants.HF_HUB_CACHE), total)
        found = Path(huggingface_hub.snapshot_download(name, allow_patterns=[file.name for file in files]))
    except FetchError:
        raise
    except GatedRepoError:
        raise FetchError(
            f"{name}: its owner asks you to accept terms on its page first, then to set HF_TOKEN"
        ) from None
    except RepositoryNotFoundError:
        raise FetchError(f"{name}: no repository on the hub; a private one needs HF_TOKEN") from None
    except Exception as error:  # noqa: BLE001 - its exceptions differ from version to version
        cached = _cached(huggingface_hub, name)
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if cached is None:
            raise FetchError(f"{name}: the hub cannot be asked: {reason}; {_REMEDY}") from None
        report(f"{name}: the hub cannot be asked ({reason}); what its cache has is taken")
        return cached
    for file in files:
        _verify(name, found / file.name, file)
    return found


def _cached(library: Any, name: str) -> Path | None:
    try:
        found = Path(library.snapshot_download(name, local_files_only=True))
    except Exception:  # noqa: BLE001 - as above; whatever it is, there is nothing
        return None
    complete = (found / "config.json").exists() and any(
        (found / file).exists() for file in (WEIGHTS, INDEX, PICKLED)
    )
    return found if complete else None


def _chosen(name: str, siblings: Sequence[Any]) -> list[RemoteFile]:
    """Choose the files to fetch: known names at the top of the repository, and one form of the weights."""
    files = {file.name: file for file in _described(siblings)}
    if "config.json" not in files:
        raise FetchError(f"{name}: its repository on the hub has no config.json: no MarianMT model")
    parts = [file for file in files if _PART.fullmatch(file)]
    if WEIGHTS in files:
        weights = [WEIGHTS]
    elif INDEX in files and parts:
        weights = [INDEX, *parts]
    elif PICKLED in files:
        weights = [PICKLED]
    else:
        raise FetchError(f"{name}: its repository has neither {WEIGHTS} nor {PICKLED}")
    return [files[file] for file in (*_TEXTS, *weights) if file in files]


def _described(siblings: Sequence[Any]) -> Iterator[RemoteFile]:
    for one in siblings:
        large = getattr(one, "lfs", None)
        yield RemoteFile(
            name=one.rfilename,
            size=one.size or 0,
            sha256=large.get("sha256") if isinstance(large, dict) else getattr(large, "sha256", None),
            git_sha1=None if large else one.blob_id,
        )


def _verify(name: str, path: Path, file: RemoteFile) -> None:
    """Compare a file with its hash; what differs is removed from the cache, so that it is fetched anew."""
    if file.sha256 is not None:
        expected, digest = file.sha256, hashlib.sha256()
    elif file.git_sha1 is not None:
        expected, digest = file.git_sha1, hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    else:
        return
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != expected:
        path.resolve().unlink()
        path.unlink(missing_ok=True)
        raise FetchError(
            f"{name}: {file.name} is not what the hub says: its hash is {digest.hexdigest()}, not "
            f"{expected}; it is gone from the cache, try again"
        )
