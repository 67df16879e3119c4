"""The file of API keys: what it may hold, what is said about a broken one, and how it changes under way."""

import hashlib
import logging
import os
from pathlib import Path

import pytest

from server.errors import SettingError
from server.service.clients.api_keys import (
    MAX_KEYS,
    MAX_LIMIT,
    ClientLimits,
    KeyFile,
    key_line,
    new_key,
    read_keys,
)

SECRET = "correct-horse-battery"
DIGEST = hashlib.sha256(SECRET.encode()).hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def write(file: Path, *lines: str) -> Path:
    """Replace the file as an operator should: aside, then renamed."""
    aside = file.with_name("keys.new")
    aside.write_text("\n".join(lines) + "\n")
    os.replace(aside, file)
    return file


def test_a_key_has_a_name_and_limits(file: Path) -> None:
    ring = read_keys(
        write(
            file,
            "# ours",
            "",
            f"weblate {DIGEST.upper()} characters-per-day=500 requests-per-minute=60",
            f"  mastodon\t{OTHER}",
        )
    )
    found = ring.find(SECRET.encode())
    assert found is not None
    assert (found.name, found.limits) == ("weblate", ClientLimits(60, 500))
    found = ring.find(b"other")
    assert found is not None
    assert (found.name, found.limits) == ("mastodon", ClientLimits())
    assert ring.names == {"weblate", "mastodon"}


@pytest.mark.parametrize("first", ["# ours", f"mastodon {OTHER}"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(file: Path, first: str) -> None:
    ring = read_keys(write(file, f"\ufeff{first}", f"weblate {DIGEST}"))
    assert ring.find(SECRET.encode()) is not None
    assert ring.names <= {"mastodon", "weblate"}


@pytest.mark.parametrize(
    "sent", [b"", b"x", SECRET.encode()[:-1], DIGEST.encode(), "schlüssel".encode(), b"\xff\0", b"x" * 10**6]
)
def test_another_key_is_nobodys(file: Path, sent: bytes) -> None:
    assert read_keys(write(file, f"weblate {DIGEST}")).find(sent) is None


def test_a_name_may_have_two_keys_while_they_are_exchanged(file: Path) -> None:
    ring = read_keys(write(file, f"weblate {DIGEST}", f"weblate {OTHER}"))
    assert [key.name for sent in (SECRET.encode(), b"other") if (key := ring.find(sent))] == ["weblate"] * 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (SECRET, "SHA-256"),  # the key itself, by mistake
        (f"weblate {SECRET}", "SHA-256"),
        (f"weblate {DIGEST[:-1]}", "SHA-256"),
        (f"we|blate {DIGEST}", "name"),
        (f"{'n' * 65} {DIGEST}", "name"),
        (f"{SECRET}é {DIGEST}", "name"),
        (f"weblate {DIGEST} requests-per-minute=0", "each once"),
        (f"weblate {DIGEST} requests-per-minute=ten", "each once"),
        (f"weblate {DIGEST} characters-per-day=1000000000000", "N from 1 to 999999999999"),
        (f"weblate {DIGEST} requests-per-minute=1 requests-per-minute=1", "each once"),
        (f"weblate {DIGEST} {SECRET}", "each once"),
        (f"weblate {OTHER}", "in the file already"),
        (f"first {DIGEST} requests-per-minute=1", "other limits"),
    ],
)
def test_a_broken_line_is_named_and_not_shown(file: Path, line: str, reason: str) -> None:
    write(file, f"first {OTHER}", "# a comment", line)
    with pytest.raises(SettingError, match=r"keys line 3: .*" + reason) as raised:
        read_keys(file)
    assert SECRET not in str(raised.value)
    assert DIGEST not in str(raised.value)


def test_a_file_without_keys_is_refused(file: Path, tmp_path: Path) -> None:
    for path in (write(file, "# none"), tmp_path, tmp_path / "missing"):
        with pytest.raises(SettingError, match=str(path)):
            read_keys(path)


def test_a_file_is_bounded(file: Path) -> None:
    lines = [f"n{number} {number:064x}" for number in range(MAX_KEYS)]
    assert len(read_keys(write(file, *lines))) == MAX_KEYS
    with pytest.raises(SettingError, match=f"line {MAX_KEYS + 1}: "):
        read_keys(write(file, *lines, f"weblate {DIGEST}"))
    with pytest.raises(SettingError, match="bytes"):
        read_keys(write(file, *lines, "#" * (1 << 20)))


def test_a_new_key_fits_its_line(file: Path) -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(len(key) == len("dgm_") + 43 for key in keys)
    limits = ClientLimits(7, 1000)
    key = keys.pop()
    found = read_keys(write(file, key_line("weblate", key, limits))).find(key.encode())
    assert found is not None
    assert found.limits == limits
    with pytest.raises(ValueError, match="name"):
        key_line("we blate", key, limits)
    assert key_line("weblate", key, ClientLimits(MAX_LIMIT, MAX_LIMIT))
    with pytest.raises(ValueError, match=f"N from 1 to {MAX_LIMIT}"):
        key_line("weblate", key, ClientLimits(MAX_LIMIT + 1))


def test_a_changed_file_is_read_again(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = KeyFile(write(file, f"weblate {DIGEST}"))
    assert keys.refresh() is False
    write(file, f"mastodon {OTHER}")
    with caplog.at_level(logging.INFO, "dragoman"):
        assert keys.refresh() is True
    assert keys.refresh() is False
    assert keys.ring.find(SECRET.encode()) is None
    assert keys.ring.find(b"other") is not None
    assert [record.getMessage() for record in caplog.records] == ["API keys read again"]


def test_a_broken_file_leaves_the_keys_in_force(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = KeyFile(write(file, f"weblate {DIGEST}"))
    for content in (f"weblate {SECRET}", ""):
        caplog.clear()
        write(file, content)
        with caplog.at_level(logging.INFO, "dragoman"):
            assert [keys.refresh() for _ in range(3)] == [False] * 3
        assert len(caplog.records) == 1  # once a change, not once a look
        assert SECRET not in caplog.text
        assert keys.ring.find(SECRET.encode()) is not None
    file.unlink()
    assert keys.refresh() is False
    assert keys.fault is not None
    assert "cannot read" in keys.fault
    write(file, f"mastodon {OTHER}")
    assert keys.refresh() is True
    assert keys.fault is None
