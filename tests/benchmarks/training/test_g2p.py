"""Preparing CMUdict and scoring pronunciations."""

import gzip
from pathlib import Path

from typer.testing import CliRunner

from benchmarks.training.g2p import app, edits, error_rates, part_of, read_entries

LINES = [
    "'cause K AH0 Z",
    "read R EH1 D",
    "read(2) R IY1 D",
    "read(3) R IY0 D",
    "d.c. D IY1 S IY1",
    "aalborg AO1 L B AO0 R G # place, danish",
]


def test_entries_lose_stress_comments_and_what_is_the_same_without() -> None:
    assert read_entries(LINES) == {
        "'cause": ["K AH Z"],
        "read": ["R EH D", "R IY D"],
        "aalborg": ["AO L B AO R G"],
    }


def test_the_closest_pronunciation_counts() -> None:
    assert [edits("abc", other) for other in ("abc", "", "axc", "bcd", "xyz")] == [0, 3, 1, 2, 3]
    right = {"read": ["R EH D", "R IY D"], "a": ["AH", "EY"]}
    assert error_rates({"read": "R IY D", "a": "EY"}, right) == (0, 0)
    assert error_rates({"read": "R IY T", "a": "EY"}, right) == (50, 25)
    assert error_rates({"read": "", "a": "EY EY EY"}, right) == (100, 125)


def test_prepare_writes_every_entry_to_one_part(tmp_path: Path) -> None:
    words = [f"{chr(97 + a)}{chr(97 + b)}" for a in range(26) for b in range(26)]
    source = tmp_path / "cmudict.dict"
    source.write_text("".join(f"{word} AH0 B\n" for word in words), encoding="utf-8")
    assert CliRunner().invoke(app, ["prepare", str(source), str(tmp_path / "out")]).exit_code == 0
    found = {}
    for part in ("train", "dev", "test"):
        with gzip.open(tmp_path / "out" / f"{part}.words.gz", "rt", encoding="utf-8") as file:
            found |= {line.strip(): part for line in file}
    assert found == {word: part_of(word) for word in words}
    assert set(found.values()) == {"train", "dev", "test"}
