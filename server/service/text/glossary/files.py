"""Glossaries as files: `NAME.SOURCE-TARGET.tsv`, a term a line."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from server.errors import GlossaryRefusedError
from server.service.text.glossary.entries import Entry, Glossary, make_entry

MAX_FILE_BYTES = 16 << 20
MAX_ENTRIES = 100_000
_CODE = r"[a-z]{2,3}(?:[-_](?:[A-Z]{2}|[0-9]{3}|[A-Za-z]{4}))?"
_NAME = re.compile(
    rf"(?P<name>[A-Za-z0-9][A-Za-z0-9_-]{{0,63}})\.(?P<source>{_CODE})-(?P<target>{_CODE})\.tsv"
)

Key = tuple[str, str, str]
"""Name, source and target language of a glossary, the languages as `key_of` writes them."""


def key_of(name: str, source: str, target: str) -> Key:
    """Give a glossary's key; `de_DE` and `de-de` are the same language."""
    source, target = (code.replace("_", "-").casefold() for code in (source, target))
    return name, source, target


def read_folder(folder: Path) -> dict[Key, Glossary]:
    """Read every glossary of a folder.

    Args:
        folder: with files called `NAME.SOURCE-TARGET.tsv`; hidden files and those with another ending are
            passed over.

    Raises:
        GlossaryRefusedError: the folder or a file cannot be used; the message names the file and the line,
            and says what to do.
    """
    try:
        files = sorted(
            path for path in folder.iterdir() if path.suffix == ".tsv" and not path.name.startswith(".")
        )
    except OSError as error:
        raise GlossaryRefusedError(
            f"{folder}: cannot be read ({error.strerror}); give a folder of glossaries"
        ) from error
    found: dict[Key, Glossary] = {}
    paths: dict[Key, Path] = {}
    for path in files:
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise GlossaryRefusedError(
                f"{path}: call it NAME.SOURCE-TARGET.tsv, as in medicine.en-de.tsv; a name has letters, "
                "digits, _ and -"
            )
        key = key_of(match["name"], match["source"], match["target"])
        if (other := paths.setdefault(key, path)) != path:
            raise GlossaryRefusedError(
                f"{path}: has the name and languages of {other.name}; put their terms into one file"
            )
        found[key] = read_file(path)
    return found


def read_file(path: Path) -> Glossary:
    """Read a glossary: lines of source, target and perhaps other forms of it, with tabs between.

    Empty lines, and lines that begin with `#`, are comments.

    Args:
        path: of the file, UTF-8.

    Raises:
        GlossaryRefusedError: the file cannot be used; the message names the file and the line, and says what
            to do.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise GlossaryRefusedError(f"{path}: cannot be read ({error.strerror})") from error
    if len(content) > MAX_FILE_BYTES:
        raise GlossaryRefusedError(
            f"{path}: is larger than {MAX_FILE_BYTES >> 20} MiB; split it into several"
        )
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if len(lines) > 2 * MAX_ENTRIES:
        raise GlossaryRefusedError(f"{path}: has more than {2 * MAX_ENTRIES} lines; split it into several")
    entries: list[tuple[int, Entry]] = []
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError:
            raise GlossaryRefusedError(
                f"{path} line {number}: is not UTF-8; save the file as UTF-8"
            ) from None
        if text.strip() and not text.startswith("#"):
            entries.append((number, _entry(path, number, text.split("\t"))))
    if len(entries) > MAX_ENTRIES:
        raise GlossaryRefusedError(f"{path}: has more than {MAX_ENTRIES} entries; split it into several")
    if twice := first_twice(entry for _, entry in entries):
        line_numbers = [entries[index][0] for index in twice]
        raise GlossaryRefusedError(
            f"{path} line {line_numbers[1]}: has the source of line {line_numbers[0]} again; write one line "
            "with the translations side by side"
        )
    return Glossary([entry for _, entry in entries])


def first_twice(entries: Iterable[Entry]) -> tuple[int, int] | None:
    """Find the first two entries of the same source, by their numbers from 0; None if all differ."""
    places: dict[str, int] = {}
    for number, entry in enumerate(entries):
        if (before := places.setdefault(entry.source, number)) != number:
            return before, number
    return None


def _entry(path: Path, number: int, cells: Sequence[str]) -> Entry:
    if len(cells) < 2:
        raise GlossaryRefusedError(
            f"{path} line {number}: has no tab; write the term, a tab and its translation"
        )
    try:
        return make_entry(cells[0], cells[1], cells[2:])
    except ValueError as error:
        raise GlossaryRefusedError(
            f"{path} line {number}: {error}; write the term, a tab and its translation"
        ) from None
