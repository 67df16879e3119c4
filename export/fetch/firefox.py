"""Firefox's translation models: the records that name them, and their files.

A server of Remote Settings (the protocol of Kinto) says in ``/`` where attachments lie, and lists the records
of a collection: one a file, with languages, version, architecture, kind of file, size and SHA-256 of what is
sent and of what that becomes when it is decompressed. It states no licenses.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import zstandard

from export.fetch.download import FetchError, cache_of, check_space, download, read_json

VARIABLE = "FIREFOX_SETTINGS_SERVER"
LICENSE = "mpl-2.0"
"""Of the project that publishes them."""
_PUBLIC = "https://firefox.settings.services.mozilla.com/v1"
_RECORDS = "buckets/main/collections/translations-models-v2/records"
_MAX_INDEX_BYTES, _MAX_FILE_BYTES, _CHUNK_BYTES = 1 << 24, 1 << 32, 1 << 20
_MAX_WINDOW_BYTES = 1 << 27
"""That a compressed file may look back over."""
_KINDS = ({"model", "vocab"}, {"model", "srcvocab", "trgvocab"})
_SHORTLIST = "lex"
"""Kind of a file that a model may do without."""
_CODE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,3}")
_WORD = re.compile(r"[a-z0-9-]{1,40}")
_FETCHED = re.compile(
    rf"([a-z]+(?:-[A-Z]\w+)*)-([a-z]+(?:-[A-Z]\w+)*)-({_VERSION.pattern})-({_WORD.pattern})"
)
"""Directory of a model that was fetched: a region or a script, unlike a language, begins with a capital."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,100}")
_LOCATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:[./][A-Za-z0-9_-]+)*")
_HASH = re.compile(r"[0-9a-f]{64}")
_REMEDY = f"without a network, copy the model here and import its directory; {VARIABLE} names a mirror"


@dataclass(frozen=True)
class FirefoxFile:
    """A file of a model.

    Attributes:
        kind: ``model``, ``vocab``, ``srcvocab``, ``trgvocab`` or ``lex``.
        name: what it is called, decompressed.
        location: where it lies, below the server's attachments.
        size: bytes as it is sent.
        sent: SHA-256 of that.
        content: SHA-256 of what it becomes.
        content_size: bytes of what it becomes.
    """

    kind: str
    name: str
    location: str
    size: int
    sent: str
    content: str
    content_size: int


@dataclass(frozen=True)
class FirefoxEntry:
    """A model of the index.

    Attributes:
        source: language code.
        target: language code.
        version: numbers with dots.
        architecture: ``tiny``, ``base-memory`` or ``base``.
        files: that it consists of.
    """

    source: str
    target: str
    version: str
    architecture: str
    files: tuple[FirefoxFile, ...]

    @property
    def name(self) -> str:
        """What ``dragoman pull`` calls it."""
        return f"firefox:{self.source}-{self.target}"

    @property
    def size(self) -> int:
        """Bytes that are fetched."""
        return sum(file.size for file in self.files)

    @property
    def rank(self) -> tuple[tuple[int, ...], int]:
        """Newer ones first, and of those the largest."""
        return tuple(map(int, self.version.split("."))), self.size


def read_index() -> list[FirefoxEntry]:
    """Fetch the records; what is for nightly versions of Firefox only, or incomplete, is left out.

    Raises:
        FetchError: they cannot be had, or are none.
    """
    url = f"{_server()}/{_RECORDS}"
    values = _read_object(url).get("data")
    if not isinstance(values, list):
        raise FetchError(f"{url}: not a list of models")
    models: dict[tuple[str, str, str, str], dict[str, FirefoxFile]] = {}
    for key, file in _files(values):
        models.setdefault(key, {})[file.kind] = file
    return [
        FirefoxEntry(*key, tuple(files[kind] for kind in sorted(kinds | ({_SHORTLIST} & files.keys()))))
        for key, files in models.items()
        for kinds in [next((kinds for kinds in _KINDS if kinds <= files.keys()), set[str]())]
        if kinds
    ]


def _files(values: list[object]) -> Iterator[tuple[tuple[str, str, str, str], FirefoxFile]]:
    kinds = frozenset({_SHORTLIST}).union(*_KINDS)
    for value in values:
        attachment = value.get("attachment") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(attachment, dict) or value.get("filter_expression"):
            continue
        source, target, version, architecture = (
            str(value.get(name)) for name in ("sourceLanguage", "targetLanguage", "version", "architecture")
        )
        sent, size = str(attachment.get("hash")), attachment.get("size")
        file = FirefoxFile(
            kind=str(value.get("fileType")),
            name=str(value.get("name")),
            location=str(attachment.get("location")),
            size=size if isinstance(size, int) else -1,
            sent=sent,
            content=str(value.get("decompressedHash", sent)),
            content_size=found if isinstance(found := value.get("decompressedSize", size), int) else -1,
        )
        if (
            file.kind in kinds
            and _CODE.fullmatch(source)
            and _CODE.fullmatch(target)
            and _VERSION.fullmatch(version)
            and _WORD.fullmatch(architecture)
            and _NAME.fullmatch(file.name)
            and _LOCATION.fullmatch(file.location)
            and all(0 < size <= _MAX_FILE_BYTES for size in (file.size, file.content_size))
            and _HASH.fullmatch(file.sent)
            and _HASH.fullmatch(file.content)
        ):
            yield (source, target, version, architecture), file


def fetch_firefox(pair: str, report: Callable[[str], None]) -> tuple[Path, FirefoxEntry]:
    """Fetch the newest model of a pair like ``en-de``; without an index, take the newest that is here.

    Args:
        pair: language codes, joined by a hyphen.
        report: gets a line.

    Returns:
        A directory with its files, and what the index says of it.

    Raises:
        FetchError: there is none, or it cannot be had.
    """
    try:
        index = read_index()
    except FetchError as error:
        if (cached := _cached(pair)) is None:
            raise
        report(f"{error}; {cached[0]} is taken")
        return cached
    found = [entry for entry in index if f"{entry.source}-{entry.target}" == pair]
    if not found:
        source = pair.split("-")[0]
        known = sorted({entry.name for entry in index if entry.source == source})
        offered = f"of that source it has {', '.join(known[:20])}" if known else f"it has {len(index)} others"
        raise FetchError(f"firefox:{ascii(pair)[1:-1][:60]}: not in the index; {offered}")
    entry = max(found, key=lambda one: one.rank)
    report(
        f"fetching {entry.name} {entry.version} ({entry.architecture}), {entry.size:,} bytes; the index "
        f"states no license, Mozilla's models are {LICENSE.upper()}"
    )
    attachments = _attachments()
    directory = cache_of("firefox") / f"{entry.source}-{entry.target}-{entry.version}-{entry.architecture}"
    for file in entry.files:
        _fetch(file, f"{attachments}/{file.location}", directory)
    return directory, entry


def _cached(pair: str) -> tuple[Path, FirefoxEntry] | None:
    """Find the newest model of a pair that was fetched before, and whole; its entry names no files."""
    found = []
    for path in cache_of("firefox").glob("*"):
        match = _FETCHED.fullmatch(path.name)
        if match is None or f"{match[1]}-{match[2]}" != pair:
            continue
        sizes = {file.name: file.stat().st_size for file in path.iterdir() if file.suffix in (".bin", ".spm")}
        if any(kinds <= {name.partition(".")[0] for name in sizes} for kinds in _KINDS):
            entry = FirefoxEntry(match[1], match[2], match[3], match[4], ())
            found.append((entry.rank, sum(sizes.values()), path, entry))
    return max(found)[2:] if found else None


def _fetch(file: FirefoxFile, url: str, directory: Path) -> None:
    """Have a file decompressed in a directory, and nothing else of it."""
    target = directory / file.name
    if target.exists() and _sha256(target) == file.content:
        return
    sent = download(url, directory / f"{file.name}.sent")
    try:
        if sent.stat().st_size != file.size or _sha256(sent) != file.sent:
            raise FetchError(f"{url}: not what the index says: its size or its hash is another; it is gone")
        check_space(directory, file.content_size)
        part = target.with_name(f"{target.name}.part")
        with _decompressed(sent, file.location) as stream, part.open("wb") as out:
            left = file.content_size + 1
            while left and (chunk := stream.read(min(_CHUNK_BYTES, left))):
                out.write(chunk)
                left -= len(chunk)
        if left != 1 or _sha256(part) != file.content:
            part.unlink()
            raise FetchError(f"{url}: decompressed, it is not what the index says; it is gone")
        os.replace(part, target)
    finally:
        sent.unlink(missing_ok=True)


@contextmanager
def _decompressed(path: Path, location: str) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """Open a file that is compressed as its location says.

    Raises:
        FetchError: it is damaged.
    """
    try:
        if location.endswith(".zst"):
            decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
            with path.open("rb") as file, decompressor.stream_reader(file) as stream:
                yield stream
        elif location.endswith(".gz"):
            with gzip.open(path) as unzipped:
                yield unzipped
        else:
            with path.open("rb") as file:
                yield file
    except (zstandard.ZstdError, gzip.BadGzipFile, EOFError) as error:
        raise FetchError(f"{location}: cannot be decompressed: {error}") from None


def _attachments() -> str:
    """Ask the server where attachments lie."""
    url = f"{_server()}/"
    values: Any = _read_object(url)
    for name in ("capabilities", "attachments", "base_url"):
        values = values.get(name) if isinstance(values, dict) else None
    if (
        not isinstance(values, str)
        or not values.startswith(("https://", "http://"))
        or not values.isprintable()
    ):
        raise FetchError(f"{url}: does not say where attachments lie")
    return values.rstrip("/")


def _read_object(url: str) -> dict[str, Any]:
    values = read_json(url, _MAX_INDEX_BYTES, _REMEDY)
    if not isinstance(values, dict):
        raise FetchError(f"{url}: not a JSON object")
    return values


def _server() -> str:
    return os.environ.get(VARIABLE, _PUBLIC).rstrip("/")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
