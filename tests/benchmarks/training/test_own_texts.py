"""The texts of our own, as a corpus."""

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.training.own_texts import COLUMNS, COUPLES, RECIPES, TABLES, app, read_table


def test_alternatives_become_a_sentence_about_a_woman_and_one_about_a_man(tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text(
        "{She|He} is tired.\t{Sie|Er} ist müde.\tEstá {cansada|cansado}.\t{Elle|Il} est {fatiguée|fatigué}.\n"
        "Monday\tMontag\tlunes\tlundi\n",
        encoding="utf-8",
    )
    assert read_table(table, "en", "fr") == [
        ("She is tired.", "Elle est fatiguée."),
        ("He is tired.", "Il est fatigué."),
        ("Monday", "lundi"),
    ]


@pytest.mark.parametrize("name", TABLES)
def test_a_text_has_four_languages_and_no_line_twice(name: str) -> None:
    lines = (RECIPES / name).read_text(encoding="utf-8").splitlines()
    for line in lines:
        cells = line.split("\t")
        assert len(cells) == len(COLUMNS), line
        assert all(cell == cell.strip() != "" for cell in cells), line
        counts = [cell.count("{") for cell in cells]
        assert name != COUPLES or (counts[0] > 0 and max(counts[1:]) > 0), line
    assert len(set(lines)) == len(lines) or name == "everyday.tsv"


def test_every_pair_is_written_with_its_origin(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["es", "en", "--out", str(tmp_path)])
    assert ended.exit_code == 0, ended.output
    columns = [
        gzip.decompress((tmp_path / f"es-en.{name}.gz").read_bytes()).decode().splitlines()
        for name in ("es", "en", "origin")
    ]
    lines = set(zip(*columns, strict=True))
    assert {("lunes", "Monday", "words"), ("Lunes", "Monday", "words")} <= lines
    couples = read_table(RECIPES / COUPLES, "es", "en")
    assert {(*pair, "women-and-men") for pair in couples} <= lines
    assert len(couples) > 1_400
