"""The text of a last stage of training."""

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.training.last_part import COLUMNS, COUPLES, TEXTS, TIMES, app, read_table


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


@pytest.mark.parametrize("name", [*TIMES, COUPLES])
def test_a_text_has_four_languages_and_no_line_twice(name: str) -> None:
    lines = (TEXTS / name).read_text(encoding="utf-8").splitlines()
    for line in lines:
        cells = line.split("\t")
        assert len(cells) == len(COLUMNS), line
        assert all(cell == cell.strip() != "" for cell in cells), line
        counts = [cell.count("{") for cell in cells]
        assert name != COUPLES or (counts[0] > 0 and max(counts[1:]) > 0), line
    assert len(set(lines)) == len(lines) or name == "everyday.tsv"


def test_everything_is_in_the_part(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    columns = {
        "en": [f"one {n}." for n in range(500)],
        "es": [f"uno {n}." for n in range(500)],
        "origin": ["tatoeba" if n < 100 else f"manual-{n % 2}" for n in range(500)],
    }
    for name, lines in columns.items():
        (corpus / f"train.{name}.gz").write_bytes(
            gzip.compress("".join(f"{line}\n" for line in lines).encode())
        )
    ended = CliRunner().invoke(app, [str(corpus), "es", "en", "--out", str(tmp_path), "--couples", "1"])
    assert ended.exit_code == 0, ended.output
    sides = [
        gzip.decompress((tmp_path / f"es-en.{name}.gz").read_bytes()).decode().splitlines()
        for name in ("es", "en")
    ]
    pairs = list(zip(*sides, strict=True))
    assert {("uno 7.", "one 7."), ("uno 499.", "one 499."), ("lunes", "Monday"), ("Lunes", "Monday")} <= set(
        pairs
    )
    couples = read_table(TEXTS / COUPLES, "es", "en")
    assert set(couples) <= set(pairs)
    assert len(couples) > 1_400
