"""Where results lie, and how a part that is repeated replaces its own rows only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def folder(cache: Path, *, quick: bool) -> Path:
    """Give the folder of the results; a quick run has one of its own and never replaces a real one."""
    return cache / ("quick" if quick else "results")


def read(file: Path) -> dict[str, Any]:
    """Read a result; nothing if there is none."""
    return dict(json.loads(file.read_text(encoding="ascii"))) if file.exists() else {}


def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Put what was measured now over what was measured before, section by section.

    Args:
        old: as read; may be empty.
        new: dictionaries of dictionaries, apart from plain entries, which replace old ones.
    """
    merged = dict(old)
    for key, entry in new.items():
        before = old.get(key)
        sections = (
            isinstance(entry, dict) and isinstance(before, dict) and key not in ("machine", "variables")
        )
        merged[key] = {**before, **entry} if sections and before is not None else entry
    return merged


def write(file: Path, new: dict[str, Any]) -> None:
    """Merge a result into its file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".partial")
    aside.write_text(json.dumps(merge(read(file), new), indent=1) + "\n", encoding="ascii")
    aside.replace(file)
