"""Fetches one file over HTTP: its size known beforehand, in place only when all of it is there."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tqdm import tqdm

_MAX_FILE_BYTES = 1 << 35
_TRIES = 5
_TIMEOUT_S = 30.0
_MAX_REDIRECTS = 5
_SPARE_BYTES = 1 << 26
"""What a disk must have left beside the file."""


class FetchError(ValueError):
    """Something cannot be fetched; the message is one line that says what to do."""


def download(url: str, target: Path) -> Path:
    """Fetch a file, from where an earlier try ended; a file that is here already stays.

    What is there of it lies in ``target``'s directory as ``NAME.part``. A part is continued only if the
    server says by its ETag that the file is still the same.

    Args:
        url: of http or https; redirects are followed, but not from https to http.
        target: what it is called here; its directory is made.

    Returns:
        ``target``.

    Raises:
        FetchError: it cannot be had whole.
        OSError: it cannot be written.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    for tries_left in reversed(range(_TRIES)):
        before = part.stat().st_size if part.exists() else 0
        try:
            with _client() as client, _asked(client, url, part) as response:
                _write(response, url, part)
            break
        except httpx.TransportError as error:
            now = part.stat().st_size if part.exists() else 0
            if now <= before or not tries_left:  # nothing came: trying at once again helps nobody
                kept = f"{now} bytes are kept, the same command continues from there"
                again = kept if _tag_of(part).exists() else "the same command fetches it anew"
                raise FetchError(f"{url}: {_reason(error)}; {again}") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise FetchError(f"{url}: {_reason(error)}") from None
    os.replace(part, target)
    _tag_of(part).unlink(missing_ok=True)
    return target


def read_small(url: str, most_bytes: int, remedy: str) -> bytes:
    """Fetch a file of at most ``most_bytes`` into memory.

    Raises:
        FetchError: there is none, it is larger, or the server cannot be reached; ends with ``remedy``.
    """
    try:
        with _client() as client, client.stream("GET", url) as response:
            _check(response, url)
            found = bytearray()
            for chunk in response.iter_bytes():
                found += chunk
                if len(found) > most_bytes:
                    raise FetchError(f"{url}: more than {most_bytes} bytes")
            return bytes(found)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FetchError(f"{url}: {_reason(error)}; {remedy}") from None


def read_json(url: str, most_bytes: int, remedy: str) -> Any:
    """Fetch a JSON file of at most ``most_bytes``.

    Raises:
        FetchError: as `read_small` does, or it is no JSON.
    """
    content = read_small(url, most_bytes, remedy)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FetchError(f"{url}: not JSON: {error}") from None


def cache_of(index: str) -> Path:
    """Give the directory that keeps what was fetched from an index."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "dragoman" / index


def check_space(directory: Path, size: int) -> None:
    """Check that a file system has room for ``size`` bytes.

    Raises:
        FetchError: it has not.
    """
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free
    if size + _SPARE_BYTES > free:
        raise FetchError(f"{directory}: {free} bytes are free, {size} are needed")


def _client() -> httpx.Client:
    return httpx.Client(follow_redirects=True, max_redirects=_MAX_REDIRECTS, timeout=_TIMEOUT_S)


@contextmanager
def _asked(client: httpx.Client, url: str, part: Path) -> Iterator[httpx.Response]:
    """Ask for what is missing of a file."""
    tag = _tag_of(part)
    headers = {"Accept-Encoding": "identity"}
    if part.exists() and tag.exists():
        headers |= {"Range": f"bytes={part.stat().st_size}-", "If-Range": tag.read_text(encoding="ascii")}
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()
            raise FetchError(f"{url}: its part here was longer than the file; it is gone, try again")
        _check(response, url)
        yield response


def _check(response: httpx.Response, url: str) -> None:
    if any(step.url.scheme == "https" for step in response.history) and response.url.scheme != "https":
        raise FetchError(f"{url}: leads from https to {response.url.scheme}, where anybody may change it")
    if response.status_code not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
        raise FetchError(f"{url}: the server answers {response.status_code} {response.reason_phrase}")


def _write(response: httpx.Response, url: str, part: Path) -> None:
    begin = 0
    if response.status_code == httpx.codes.PARTIAL_CONTENT:
        begin = part.stat().st_size
        if not response.headers.get("Content-Range", "").startswith(f"bytes {begin}-"):
            raise FetchError(f"{url}: the server sends another part than was asked for")
    length = response.headers.get("Content-Length", "")
    if not (length.isascii() and length.isdecimal() and 0 < int(length) <= _MAX_FILE_BYTES):
        raise FetchError(f"{url}: the server does not say how large it is, or absurdly much: {length[:40]!r}")
    whole = begin + int(length)
    check_space(part.parent, int(length))
    tag = response.headers.get("ETag", "")
    if tag and tag.isascii() and not tag.startswith("W/"):
        _tag_of(part).write_text(tag, encoding="ascii")
    elif not begin:
        _tag_of(part).unlink(missing_ok=True)  # one of an earlier answer would vouch for other bytes
    with (
        part.open("ab" if begin else "wb") as out,
        tqdm(
            total=whole, initial=begin, unit="B", unit_scale=True, desc=part.stem, disable=_is_quiet()
        ) as bar,
    ):
        for chunk in response.iter_raw():
            out.write(chunk)
            bar.update(len(chunk))
    if (found := part.stat().st_size) != whole:
        part.unlink()
        raise FetchError(f"{url}: {found} bytes came of {whole}; they are gone, try again")


def _tag_of(part: Path) -> Path:
    return part.with_name(f"{part.name}.etag")


def _is_quiet() -> bool:
    return not sys.stderr.isatty()


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
