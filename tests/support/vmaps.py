"""Writes vocabulary maps of CTranslate2, which dragoman only reads."""

from collections.abc import Sequence
from pathlib import Path

from export.shortlist.lexical_table import LexicalTable


def write_vmap(
    path: Path, table: LexicalTable, source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> None:
    """Write a table for CTranslate2.

    Pieces that hold a separator of the format cannot be named and are left out.

    Args:
        path: where to write.
        table: what to write.
        source_pieces: text of every source id.
        target_pieces: text of every target id.
    """

    def line(key: Sequence[int], targets: Sequence[int]) -> str:
        named = [target_pieces[target] for target in targets]
        return (
            " ".join(source_pieces[piece] for piece in key) + "\t" + " ".join(filter(_is_name, named)) + "\n"
        )

    usable = {
        key: targets
        for key, targets in table.rows.items()
        if all(_is_name(source_pieces[piece]) for piece in key)
    }
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(line((), table.always.tolist()))
        stream.writelines(line(key, targets) for key, targets in usable.items())


def _is_name(piece: str) -> bool:
    """Whether the format can hold a piece: not empty and none of its separators in it."""
    return bool(piece) and not any(separator in piece for separator in " \t\n\r")
