"""Marian's binary shortlist. That it is read as Marian does is tested with Firefox's models."""

import re
import struct
from pathlib import Path

import pytest

from export.shortlist.marian import MAGIC, is_marian_shortlist, read_marian_shortlist
from export.shortlist.vmap import VmapError


def write(
    path: Path, offsets: list[int], targets: list[int], first: int = 2, count: int | None = None
) -> Path:
    head = (MAGIC, 0, first, 9, len(offsets) if count is None else count, len(targets))
    body = struct.pack(f"<6Q{len(offsets)}Q{len(targets)}I", *head, *offsets, *targets)
    path.write_bytes(body)
    return path


def test_words_have_their_lists(tmp_path: Path) -> None:
    file = write(tmp_path / "lex.bin", [0, 2, 2, 3], [5, 7, 4])
    assert is_marian_shortlist(file)
    table = read_marian_shortlist(file, 3, 8, [6], is_shared=False)
    assert table.always.tolist() == [0, 1, 6]
    assert table.rows == {(0,): [5, 7], (1,): [], (2,): [4]}
    assert read_marian_shortlist(file, 3, 8, [], is_shared=True).rows[(2,)] == [2, 4]


@pytest.mark.parametrize(
    ("offsets", "targets", "first", "count", "complaint"),
    [
        ([0, 1], [3], 2, 1 << 61, "do not hold 2305843009213693952 offsets"),
        ([0, 1, 1, 1, 1], [3], 2, None, "made for 4 source words"),
        ([0], [], 2, None, "made for 0 source words"),
        ([0, 1], [8], 2, None, "at least 9 target words; the bundle has 3 and 8"),
        ([0, 1], [3], 9, None, "at least 9 target words"),
        ([0, 2, 1], [3, 4], 2, None, "do not ascend within its 2 targets"),
        ([0, 3], [3], 2, None, "do not ascend within its 1 targets"),
    ],
)
def test_what_is_damaged_or_of_another_model_is_refused(
    tmp_path: Path, offsets: list[int], targets: list[int], first: int, count: int | None, complaint: str
) -> None:
    file = write(tmp_path / "lex.bin", offsets, targets, first, count)
    with pytest.raises(VmapError, match=f"lex.bin: .*{re.escape(complaint)}"):
        read_marian_shortlist(file, 3, 8, [], is_shared=False)


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "lex.bin", [0, 1], [3]).read_bytes()
    for size in (9, 47, len(whole) - 1):
        (tmp_path / "lex.bin").write_bytes(whole[:size])
        with pytest.raises(VmapError, match="lex"):
            read_marian_shortlist(tmp_path / "lex.bin", 3, 8, [], is_shared=False)


def test_other_files_are_none(tmp_path: Path) -> None:
    (tmp_path / "vmap.txt").write_text("a\tb\n", encoding="utf-8")
    assert not is_marian_shortlist(tmp_path / "vmap.txt")
    assert not is_marian_shortlist(tmp_path / "missing")
