"""Writes the texts of our own, recipes/everyday.tsv and recipes/texts/, as the two sides of a language pair.

    python -m benchmarks.training.own_texts en es --out data/own

They hold what our corpora lack, in four languages: words that people type alone, phrases of interfaces, mails
and signs, prose, names that are words elsewhere, days, months, salutations, and sentences about a woman and
about a man that differ in nothing else, written with alternatives: `{She|He} is tired.` A recipe reads them
beside a corpus, as its `[corpus.sampling]` says.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

RECIPES = Path(__file__).parents[2] / "recipes"
COLUMNS = ("en", "de", "es", "fr")
WORDS = "texts/words.tsv"
COUPLES = "texts/women-and-men.tsv"
TABLES = (
    WORDS,
    "texts/phrases.tsv",
    "texts/prose.tsv",
    "texts/names.tsv",
    "texts/calendar.tsv",
    "texts/letters.tsv",
    COUPLES,
    "everyday.tsv",
)

_ALTERNATIVES = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")

Pair = tuple[str, str]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def read_table(path: Path, source: str, target: str) -> list[Pair]:
    """Read two columns; a line with alternatives becomes one about a woman and one about a man."""
    columns = COLUMNS.index(source), COLUMNS.index(target)
    pairs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = line.split("\t")
        first, second = (_both(cells[column]) for column in columns)
        pairs += dict.fromkeys(zip(first, second, strict=True))
    return pairs


def _both(text: str) -> tuple[str, str]:
    return _ALTERNATIVES.sub(r"\1", text), _ALTERNATIVES.sub(r"\2", text)


def capitalized(pair: Pair) -> Pair:
    """Write both sides as labels are: with a capital."""
    first, second = pair
    return first[:1].upper() + first[1:], second[:1].upper() + second[1:]


def pairs_with_origin(source: str, target: str) -> Iterator[tuple[str, str, str]]:
    """Yield source, target and origin, which is the table's name; words also as labels."""
    for table in TABLES:
        pairs = read_table(RECIPES / table, source, target)
        if table == WORDS:
            pairs = [*dict.fromkeys([*pairs, *map(capitalized, pairs)])]
        for first, second in pairs:
            yield first, second, Path(table).stem


@app.command(help=__doc__)
def main(
    source: Annotated[str, typer.Argument(help="Source language.")],
    target: Annotated[str, typer.Argument(help="Target language.")],
    out: Annotated[Path, typer.Option(help="Folder for S-T.S.gz, S-T.T.gz and S-T.origin.gz.")],
) -> None:
    """Write both sides and the origin of each line."""
    lines = list(pairs_with_origin(source, target))
    out.mkdir(parents=True, exist_ok=True)
    for column, name in enumerate((source, target, "origin")):
        with gzip.open(out / f"{source}-{target}.{name}.gz", "wt", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{line[column]}\n" for line in lines)
    typer.echo(f"{len(lines):,} pairs")


if __name__ == "__main__":
    app()
