"""API keys: the operator's file, read again whenever it changes, and who a key belongs to.

A line of the file is a name, the SHA-256 of a key in hex, and perhaps limits; `dragoman api-key` writes it:

    weblate 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 requests-per-minute=60

Empty lines and lines that begin with `#` are skipped. A name may have several keys, the old and the new one
while they are exchanged; they share the name's limits.
"""

import hashlib
import hmac
import logging
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from server.errors import SettingError

log = logging.getLogger("dragoman")

MAX_KEYS = 1000
"""Names are labels of metrics, and every key is compared with each request's."""

MAX_LIMIT = 10**12 - 1
"""The largest of either limit that a line may state."""

_MAX_FILE_BYTES = 1 << 20
_MAX_KEY_BYTES = 512
_KEY_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_LIMIT = re.compile(r"(requests-per-minute|characters-per-day)=([1-9][0-9]{0,11})")


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What one client may send.

    Attributes:
        requests_per_minute: on average, and at once after a rest; None is no limit.
        characters_per_day: of texts to translate; None is no limit.
    """

    requests_per_minute: int | None = None
    characters_per_day: int | None = None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One line of the file.

    Attributes:
        name: whose key it is; a label of metrics and a field of the log.
        digest: SHA-256 of the key. A slow hash protects what people think up; ours are 256 random bits,
            which nobody can guess however fast the hash is, and it is computed for every request.
        limits: of all keys with this name.
    """

    name: str
    digest: bytes
    limits: ClientLimits


class KeyRing:
    """The keys of one version of the file. Immutable; thread-safe."""

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        """Keep the keys, in the file's order."""
        self._keys = tuple(keys)

    def __len__(self) -> int:
        """Number of keys."""
        return len(self._keys)

    @property
    def names(self) -> frozenset[str]:
        """Whose keys there are."""
        return frozenset(key.name for key in self._keys)

    def find(self, key: bytes) -> ApiKey | None:
        """Find the line of a key, or None, in a time that does not depend on how much of it is right."""
        if len(key) > _MAX_KEY_BYTES:
            return None
        digest = hashlib.sha256(key).digest()
        found = None
        for known in self._keys:  # to the end: 0.2 us a key
            if hmac.compare_digest(known.digest, digest):
                found = known
        return found


class KeyFile:
    """A file of keys that may change while the server runs. `refresh` is called by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            SettingError: it cannot be read, or a line is wrong; the message says which, not what it holds.
        """
        self.path = path
        self._seen = _signature(path)
        self.ring = read_keys(path)
        self.fault: str | None = None

    def refresh(self) -> bool:
        """Read the file again if it has changed; gives whether `ring` is a new one.

        A broken file changes nothing but `fault` and is logged once.
        """
        signature = _signature(self.path)
        if signature == self._seen:
            return False
        try:
            ring = read_keys(self.path)
        except SettingError as error:
            self._seen, self.fault = signature, str(error)
            log.error("the API keys stay as they were: %s", error)
            return False
        if _signature(self.path) != signature:
            return False  # somebody is writing it; the next look may see the whole
        self._seen, self.fault, self.ring = signature, None, ring
        log.info("API keys read again", extra={"key_count": len(ring)})
        return True


def read_keys(path: Path) -> KeyRing:
    """Read a file of keys.

    Raises:
        SettingError: it cannot be read, or a line is wrong; the message says which, not what it holds.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingError(f"setting api_keys_file: cannot read {path}: {error.strerror}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise SettingError(f"setting api_keys_file: {path} has more than {_MAX_FILE_BYTES} bytes")
    keys: list[ApiKey] = []
    for number, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), start=1):
        words = line.split()
        if words and not words[0].startswith("#"):
            try:
                keys.append(_read_line(words, keys))
            except ValueError as error:
                raise SettingError(f"setting api_keys_file: {path} line {number}: {error}") from None
    if not keys:
        # As a reload this is an accident: to let nobody in, one stops the server.
        raise SettingError(f"setting api_keys_file: {path} has no keys")
    return KeyRing(keys)


def new_key() -> str:
    """Draw a key that nobody will guess."""
    return f"dgm_{secrets.token_urlsafe(_KEY_BYTES)}"


def key_line(name: str, key: str, limits: ClientLimits) -> str:
    """Write a key's line for the file, without its end.

    Raises:
        ValueError: the name or a limit cannot be one.
    """
    words = [name, hashlib.sha256(key.encode("utf-8")).hexdigest()]
    if limits.requests_per_minute is not None:
        words.append(f"requests-per-minute={limits.requests_per_minute}")
    if limits.characters_per_day is not None:
        words.append(f"characters-per-day={limits.characters_per_day}")
    _read_line(words, ())
    return " ".join(words)


def _read_line(words: Sequence[str], before: Sequence[ApiKey]) -> ApiKey:
    name, digest, rest = words[0], words[1] if len(words) > 1 else "", words[2:]
    if not _NAME.fullmatch(name):
        raise ValueError("a name has up to 64 letters, digits, dots, hyphens and underscores")
    if not _DIGEST.fullmatch(digest):
        raise ValueError("after the name comes the key's SHA-256, 64 hex digits")
    given: dict[str, int] = {}
    for word in rest:
        match = _LIMIT.fullmatch(word)
        if match is None or match[1] in given:
            raise ValueError(
                "after the SHA-256 come requests-per-minute=N and characters-per-day=N, each once, "
                f"N from 1 to {MAX_LIMIT}"
            )
        given[match[1]] = int(match[2])
    limits = ClientLimits(given.get("requests-per-minute"), given.get("characters-per-day"))
    key = ApiKey(name, bytes.fromhex(digest), limits)
    if any(other.digest == key.digest for other in before):
        raise ValueError("this key is in the file already")
    if any(other.name == name and other.limits != limits for other in before):
        raise ValueError("another key of this name has other limits")
    if len(before) == MAX_KEYS:
        raise ValueError(f"there are more than {MAX_KEYS} keys")
    return key


def _signature(path: Path) -> tuple[int, ...] | None:
    """What changes when a file does; None while it cannot be found."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
