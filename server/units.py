"""Durations and sizes with units, 500ms or 64MiB, for flags and settings. A leaf: imports nothing heavy."""

import re
from collections.abc import Mapping
from decimal import Decimal

_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600}
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)")


def in_seconds(given: object) -> object:
    """Replace a duration such as `500ms`, `10s`, `5min` or `2h` by its seconds.

    What has no unit stays as it is.

    Raises:
        ValueError: the unit is unknown.
    """
    return _convert(given, _SECONDS)


def in_bytes(given: object) -> object:
    """Replace a size such as `64MiB` or `2GB` by its bytes, rounded down; otherwise as `in_seconds`."""
    size = _convert(given, _BYTES)
    return size // 1 if isinstance(size, float) and size is not given else size


def in_mebibytes(given: object) -> object:
    """Replace a size such as `2GiB` by its MiB, rounded down; otherwise as `in_seconds`."""
    size = in_bytes(given)
    return size // (1 << 20) if isinstance(size, float) and size is not given else size


def _convert(given: object, units: Mapping[str, float]) -> object:
    found = _NUMBER_AND_UNIT.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None:
        return given
    number, unit = found.groups()
    by_spelling = {name.lower(): factor for name, factor in units.items()}
    if unit.lower() not in by_spelling:
        raise ValueError(f"unknown unit {unit!r}; known are {', '.join(units)}")
    # Exactly: 4.1min are 246 s, and not a little less.
    return float(Decimal(number) * Decimal(str(by_spelling[unit.lower()])))
