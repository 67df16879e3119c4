"""Makes the text of a last stage of training: some of a corpus, and lines of our own beside it.

    dragoman corpus recipes/broad-en-es.corpus.toml --out data/corpus-en-es
    python -m benchmarks.training.last_part data/corpus-en-es en es --out data/part

What the corpus lacks is in recipes/everyday.tsv and recipes/texts/, in four languages: words that people type
alone, phrases of interfaces and signs, prose, and sentences about a woman and about a man that differ in
nothing else, written with alternatives: `{She|He} is tired.`
"""

from __future__ import annotations

import gzip
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

TEXTS = Path(__file__).parents[2] / "recipes"
COLUMNS = ("en", "de", "es", "fr")
TIMES = {"texts/words.tsv": 6, "texts/phrases.tsv": 4, "texts/prose.tsv": 3, "everyday.tsv": 8}
COUPLES = "texts/women-and-men.tsv"
EVERYDAY, EACH_ORIGIN, ANY = 30_000, 200, 35_000
"""Pairs of Tatoeba, of each other origin, and of the rest of these together."""

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


def sampled(corpus: Path, source: str, target: str, rng: random.Random) -> list[Pair]:
    """Draw from a corpus of `dragoman corpus`, so that no origin is missing."""
    names = [f"train.{name}.gz" for name in (source, target, "origin")]
    columns = [gzip.decompress((corpus / name).read_bytes()).decode().split("\n")[:-1] for name in names]
    of_origin = defaultdict(list)
    for first, second, origin in zip(*columns, strict=True):
        of_origin[origin].append((first, second))
    chosen: list[Pair] = []
    rest: list[Pair] = []
    for origin, pairs in of_origin.items():
        rng.shuffle(pairs)
        most = EVERYDAY if origin == "tatoeba" else EACH_ORIGIN
        chosen += pairs[:most]
        rest += [] if origin == "tatoeba" else pairs[most:]
    rng.shuffle(rest)
    return chosen + rest[:ANY]


def capitalized(pair: Pair) -> Pair:
    """Write both sides as labels are: with a capital."""
    first, second = pair
    return first[:1].upper() + first[1:], second[:1].upper() + second[1:]


@app.command(help=__doc__)
def main(
    corpus: Annotated[Path, typer.Argument(help="Folder that `dragoman corpus` wrote.", exists=True)],
    source: Annotated[str, typer.Argument(help="Source language.")],
    target: Annotated[str, typer.Argument(help="Target language.")],
    out: Annotated[
        Path, typer.Option(help="Folder for SOURCE-TARGET.SOURCE.gz and SOURCE-TARGET.TARGET.gz.")
    ],
    couples: Annotated[int, typer.Option(help="How often sentences about women and men are repeated.")] = 8,
) -> None:
    """Write both sides."""
    rng = random.Random(11)
    pairs = sampled(corpus, source, target, rng)
    for name, times in TIMES.items():
        pairs += read_table(TEXTS / name, source, target) * times
    pairs += [capitalized(pair) for pair in read_table(TEXTS / "texts/words.tsv", source, target)] * 4
    pairs += read_table(TEXTS / COUPLES, source, target) * couples
    rng.shuffle(pairs)
    out.mkdir(parents=True, exist_ok=True)
    for side, name in enumerate((source, target)):
        with gzip.open(out / f"{source}-{target}.{name}.gz", "wt", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{pair[side]}\n" for pair in pairs)
    typer.echo(f"{len(pairs):,} pairs")


if __name__ == "__main__":
    app()
