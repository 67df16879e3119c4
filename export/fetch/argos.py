"""The index of Argos packages, and the packages that it names.

The index is a JSON list of ``from_code``, ``to_code``, ``package_version`` and ``links``. It states neither
sizes nor hashes nor licenses: a size is taken from the server, and the checksums within a package are
compared when it is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from export.fetch.download import FetchError, cache_of, download, read_json

VARIABLE = "ARGOS_PACKAGE_INDEX"
_PUBLIC = "https://raw.githubusercontent.com/argosopentech/argospm-index/main"
_MAX_INDEX_BYTES = 1 << 24
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,3}")
_REMEDY = f"without a network, copy the package here and import its file; {VARIABLE} names a mirror"


@dataclass(frozen=True)
class ArgosEntry:
    """A package of the index.

    Attributes:
        source: language code.
        target: language code.
        version: numbers with dots.
        links: addresses that have it, of http or https.
    """

    source: str
    target: str
    version: str
    links: tuple[str, ...]

    @property
    def name(self) -> str:
        """What ``dragoman pull`` calls it."""
        return f"argos:{self.source}-{self.target}"

    @property
    def age(self) -> tuple[int, ...]:
        """Its version, for comparison."""
        return _numbers(self.version)


def read_index() -> list[ArgosEntry]:
    """Fetch the index; entries that are no translation packages are left out.

    Raises:
        FetchError: it cannot be had, or is none.
    """
    url = f"{os.environ.get(VARIABLE, _PUBLIC).rstrip('/')}/index.json"
    values = read_json(url, _MAX_INDEX_BYTES, _REMEDY)
    if not isinstance(values, list):
        raise FetchError(f"{url}: not a list of packages")
    return list(_entries(values))


def _entries(values: list[object]) -> Iterator[ArgosEntry]:
    for value in values:
        if not isinstance(value, dict) or value.get("type", "translate") != "translate":
            continue
        source, target, version = (
            str(value.get(name)) for name in ("from_code", "to_code", "package_version")
        )
        links = value.get("links")
        reachable = tuple(
            link
            for link in (links if isinstance(links, list) else ())
            if isinstance(link, str) and link.startswith(("https://", "http://")) and link.isprintable()
        )
        if _CODE.fullmatch(source) and _CODE.fullmatch(target) and _VERSION.fullmatch(version) and reachable:
            yield ArgosEntry(source, target, version, reachable)


def fetch_argos(pair: str, report: Callable[[str], None]) -> Path:
    """Fetch the newest package of a pair like ``en-de``; without an index, take the newest that is here.

    Args:
        pair: language codes, joined by a hyphen.
        report: gets a line.

    Raises:
        FetchError: there is none, or it cannot be had.
    """
    try:
        index = read_index()
    except FetchError as error:
        if (cached := _cached(pair)) is None:
            raise
        report(f"{error}; {cached} is taken")
        return cached
    found = [entry for entry in index if f"{entry.source}-{entry.target}" == pair]
    if not found:
        source = pair.split("-")[0]
        known = sorted({entry.name for entry in index if entry.source == source})
        offered = f"of that source it has {', '.join(known[:20])}" if known else f"it has {len(index)} others"
        raise FetchError(f"argos:{ascii(pair)[1:-1][:60]}: not in the index; {offered}")
    entry = max(found, key=lambda one: one.age)
    target = cache_of("argos") / f"translate-{entry.source}_{entry.target}-{entry.version}.argosmodel"
    problems = []
    for link in entry.links[:3]:
        try:
            return download(link, target)
        except FetchError as error:
            problems.append(str(error))
    raise FetchError("; ".join(problems))


def _cached(pair: str) -> Path | None:
    """Find the newest package of a pair that was fetched before."""
    found: dict[tuple[int, ...], Path] = {}
    for path in cache_of("argos").glob("translate-*.argosmodel"):
        codes, _, version = path.stem.removeprefix("translate-").rpartition("-")
        if codes.replace("_", "-") == pair.replace("_", "-") and _VERSION.fullmatch(version):
            found[_numbers(version)] = path
    return found[max(found)] if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
