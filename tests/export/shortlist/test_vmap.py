"""CTranslate2's text form: what is read, what is written, and how it is refused."""

from pathlib import Path

import pytest

from export.shortlist.lexical_table import Candidates, LexicalTable
from export.shortlist.vmap import VmapError, read_vmap
from tests.support.vmaps import write_vmap

PIECES = ["</s>", "<unk>", "▁der", "▁Hund", "▁Katze", "▁dog", "▁the", "▁cat", " ", "▁hot"]
IDS = {piece: i for i, piece in enumerate(PIECES)}


def read(path: Path, text: str, always: tuple[int, ...] = (0, 1)) -> LexicalTable:
    path.write_text(text, encoding="utf-8")
    return read_vmap(path, IDS, IDS, always)


def test_a_map_is_read(tmp_path: Path) -> None:
    table = read(tmp_path / "map", "\t▁der ▁Hund\n▁dog\t▁Hund\n\n▁hot ▁dog\t▁Hund ▁hot\n▁dog\t▁der ▁Hund")
    assert table.always.tolist() == [0, 1, 2, 3]
    assert table.rows == {(5,): [2, 3], (9, 5): [3, 9]}
    assert Candidates(table).of([9, 5]) == [0, 1, 2, 3, 9]


def test_unknown_pieces_are_left_out(tmp_path: Path) -> None:
    table = read(tmp_path / "map", "▁dog\t▁Hund ▁Dackel\n▁zebra\t▁der\n▁cat\t▁Katze ▁der ▁Hund\n")
    assert table.rows == {(5,): [3], (7,): [2, 3, 4]}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    table = LexicalTable.from_rows([0, 1], {(5,): [3, 8, 2], (9, 5): [3], (8,): [4], (7,): []})
    write_vmap(tmp_path / "map", table, PIECES, PIECES)
    again = read_vmap(tmp_path / "map", IDS, IDS, [])
    assert again.always.tolist() == [0, 1]
    assert again.rows == {(5,): [2, 3], (9, 5): [3], (7,): []}  # a piece of one space has no name there


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\tx\n", r"map: not UTF-8 \(byte 1\)"),
        ("\t▁der\n▁dog ▁Hund\n".encode(), "map:2: no tab"),
        ("▁perro\t▁chien ▁chat\n▁dog\t▁Hund\n".encode(), "map: 3 of its 5 pieces are not in the model"),
    ],
)
def test_useless_maps_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "map").write_bytes(content)
    with pytest.raises(VmapError, match=message):
        read_vmap(tmp_path / "map", IDS, IDS, [0])


def test_a_missing_map_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VmapError, match=r"nowhere: cannot be read: No such file"):
        read_vmap(tmp_path / "nowhere", IDS, IDS, [0])
