"""The tables of options in the documentation: `python -m tests.support.options_table` writes them anew."""

from collections.abc import Iterable
from pathlib import Path

from server.engine.options import OPTIONS, Option
from server.service.text.options import TEXT_OPTIONS

_DOCS = Path(__file__).parents[2] / "docs"
TABLES = {_DOCS / "decoding.md": OPTIONS, _DOCS / "text.md": TEXT_OPTIONS}
HEAD = "|option|default|range over HTTP|meaning|\n|---|---|---|---|\n"


def table(options: Iterable[Option]) -> str:
    """The options that requests may state, one a row."""
    rows = []
    for one in options:
        allowed, shown = one.range, one.shown_range
        if shown is None and allowed is not None:
            low = f"above {allowed.above}," if allowed.above is not None else str(allowed.at_least)
            shown = f"{low} to {allowed.at_most}"
        if one.has_field:
            rows.append(f"|`{one.field_name}`|{one.shown_default}|{shown or ''}|{one.help}|\n")
    return HEAD + "".join(rows)


def written(text: str) -> str:
    """The table as the document has it."""
    start = text.index(HEAD)
    return text[start : text.index("\n\n", start) + 1]


if __name__ == "__main__":
    for file, options in TABLES.items():
        document = file.read_text(encoding="utf-8")
        file.write_text(document.replace(written(document), table(options)), encoding="utf-8")
