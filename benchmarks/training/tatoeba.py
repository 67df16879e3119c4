"""Divides sentence pairs of the Tatoeba Project into train, dev and test, with no sentence in two of them.

    python -m benchmarks.training.tatoeba deu.txt data/tatoeba-en-de

The file is of an archive of manythings.org/anki (`deu-eng.zip` for German): English, a tab, the other
language. Pairs that share a sentence stay together. Python seeds random numbers with a text's SHA-512, so the
parts are the same on every machine.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

DEV, TEST = 0.012, 0.012
"""Shares of the linked sets."""

Pair = tuple[str, str]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def divided(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Divide pairs, sorted and each once, into parts."""
    ordered = sorted(set(pairs))
    above: dict[tuple[int, str], tuple[int, str]] = {}

    def root(sentence: tuple[int, str]) -> tuple[int, str]:
        while above.setdefault(sentence, sentence) != sentence:
            sentence = above[sentence]
        return sentence

    for english, other in ordered:
        above[root((0, english))] = root((1, other))
    parts: dict[str, list[Pair]] = {"train": [], "dev": [], "test": []}
    for pair in ordered:
        share = random.Random(str(root((0, pair[0])))).random()
        parts["dev" if share < DEV else "test" if share < DEV + TEST else "train"].append(pair)
    return parts


@app.command(help=__doc__)
def main(
    file: Annotated[Path, typer.Argument(help="Sentence pairs, one a line.", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Argument(help="Folder of the parts.")],
    language: Annotated[str, typer.Option(help="Code of the other language, for the files' names.")] = "de",
) -> None:
    """Write the parts, a file for each side."""
    lines = file.read_text(encoding="utf-8").splitlines()
    parts = divided((line.split("\t")[0], line.split("\t")[1]) for line in lines if "\t" in line)
    out.mkdir(parents=True, exist_ok=True)
    for part, pairs in parts.items():
        for side, name in enumerate(("en", language)):
            with gzip.open(out / f"{part}.{name}.gz", "wt", encoding="utf-8") as stream:
                stream.writelines(f"{pair[side]}\n" for pair in pairs)
        typer.echo(f"{part}: {len(pairs):,} pairs")


if __name__ == "__main__":
    app()
