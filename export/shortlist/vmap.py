"""CTranslate2's vocabulary map, read: the same shortlist for both engines.

One rule a line: source pieces separated by spaces, a tab, target pieces separated by spaces. The rule
without source pieces holds for every sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from export.shortlist.lexical_table import LexicalTable


class VmapError(ValueError):
    """A vocabulary map cannot be used; the message names the file, the line and what is wrong."""


def read_vmap(
    path: Path, source_ids: Mapping[str, int], target_ids: Mapping[str, int], always: Sequence[int]
) -> LexicalTable:
    """Read a map.

    Rules with a source piece that the vocabulary does not have can never apply and are left out, and so are
    target pieces that it does not have.

    Args:
        path: UTF-8 text.
        source_ids: id of every source piece.
        target_ids: id of every target piece.
        always: target ids that are candidates of every sentence, whatever the map says.

    Raises:
        VmapError: no such file, a line without a tab, not UTF-8, or most pieces are unknown.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise VmapError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise VmapError(f"{path}: not UTF-8 (byte {error.start + 1})") from None
    fixed, rows, known, unknown = list(always), dict[tuple[int, ...], list[int]](), 0, 0
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        key, tab, values = line.partition("\t")
        if not tab:
            raise VmapError(f"{path}:{number}: no tab between source and target pieces")
        sources = [source_ids.get(piece, -1) for piece in key.split(" ")] if key else []
        targets = [target_ids.get(piece, -1) for piece in values.split(" ") if piece]
        found = [target for target in targets if target >= 0]
        known += len(found) + sum(source >= 0 for source in sources)
        unknown += len(targets) - len(found) + sources.count(-1)
        if not sources:
            fixed += found
        elif min(sources) >= 0:
            rows[tuple(sources)] = sorted({*found, *rows.get(tuple(sources), ())})
    if unknown >= max(known, 1):
        raise VmapError(
            f"{path}: {unknown} of its {known + unknown} pieces are not in the model's vocabularies; "
            "a map is made for one tokenizer"
        )
    return LexicalTable.from_rows(fixed, rows)
