"""Pronunciations of words: prepares CMUdict for `recipes/cmudict-g2p.toml`, and scores a bundle.

The convention is that of Yolchuyeva, Németh and Gyires-Tóth ("Transformer based grapheme-to-phoneme
conversion", Interspeech 2019): ARPAbet without stress, words of letters and apostrophes, word and phoneme
error rates against the closest of a word's pronunciations. The split is our own, by the SHA-256 of the word.

`python -m benchmarks.training.g2p prepare cmudict.dict.gz data/cmudict`
`python -m benchmarks.training.g2p evaluate bundles/g2p data/cmudict --beam-size 4`
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from server.service.translation.file_translation import translate_lines

_ENTRY = re.compile(r"([a-z']+)(?:\(\d+\))? ([A-Z0-2 ]+)")
_PARTS, _OF = {"test": range(10), "dev": range(10, 12), "train": range(12, 100)}, 100

app = typer.Typer(add_completion=False, help=__doc__, rich_markup_mode=None)


def read_entries(lines: Iterable[str]) -> dict[str, list[str]]:
    """Read lines of CMUdict.

    Returns:
        Pronunciations by word, without stress and each once: ``{"read": ["R EH D", "R IY D"]}``. Words with
        other signs than letters and apostrophes are left out.
    """
    found: dict[str, list[str]] = {}
    for line in lines:
        if match := _ENTRY.fullmatch(line.partition("#")[0].strip()):
            phonemes = re.sub("[0-2]", "", match[2])
            found.setdefault(match[1], [])
            if phonemes not in found[match[1]]:
                found[match[1]].append(phonemes)
    return found


def part_of(word: str) -> str:
    """Say whether a word is for training, dev or test; the same on every machine."""
    number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % _OF
    return next(part for part, numbers in _PARTS.items() if number in numbers)


def edits(first: Sequence[str], second: Sequence[str]) -> int:
    """Count the insertions, deletions and substitutions between two sequences (Levenshtein, 1966)."""
    row = list(range(len(second) + 1))
    for i, one in enumerate(first, start=1):
        before, row[0] = row[0], i
        for j, other in enumerate(second, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (one != other))
    return row[-1]


def error_rates(found: Mapping[str, str], right: Mapping[str, Sequence[str]]) -> tuple[float, float]:
    """Compute word and phoneme error rates, in percent.

    Args:
        found: what the model said of each word.
        right: pronunciations of each; the closest counts, the first of several that are as close.
    """
    wrong = wrong_phonemes = phonemes = 0
    for word, said in found.items():
        closest = min(right[word], key=lambda one: edits(one.split(), said.split()))
        distance = edits(closest.split(), said.split())
        wrong += distance > 0
        wrong_phonemes += distance
        phonemes += len(closest.split())
    return 100 * wrong / len(found), 100 * wrong_phonemes / phonemes


def read_part(data: Path, part: str) -> dict[str, list[str]]:
    """Read what `prepare` wrote of a part: pronunciations by word."""
    right: dict[str, list[str]] = {}
    sides = (_open(data / f"{part}.{side}.gz") for side in ("words", "phonemes"))
    for word, phonemes in zip(*sides, strict=True):
        right.setdefault(word.strip(), []).append(phonemes.strip())
    return right


def _open(path: Path) -> Iterable[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open() as lines:
        yield from lines


@app.command()
def prepare(
    dictionary: Annotated[Path, typer.Argument(help="cmudict.dict, plain or gzip.")],
    out: Annotated[Path, typer.Argument(help="Folder of the parts.")],
) -> None:
    """Write words and pronunciations of each part, one a line; a word with several comes several times."""
    entries = read_entries(_open(dictionary))
    out.mkdir(parents=True, exist_ok=True)
    for part in _PARTS:
        words = [word for word in entries if part_of(word) == part]
        pairs = [(word, phonemes) for word in words for phonemes in entries[word]]
        for side, lines in zip(("words", "phonemes"), zip(*pairs, strict=True), strict=True):
            with gzip.open(out / f"{part}.{side}.gz", "wt", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
        typer.echo(f"{part}: {len(words):,} words, {len(pairs):,} pronunciations")


@app.command()
def evaluate(
    bundle: Annotated[Path, typer.Argument(help="Bundle of the model.")],
    data: Annotated[Path, typer.Argument(help="What prepare wrote.")],
    part: Annotated[str, typer.Option(help="dev or test.")] = "test",
    beam_size: Annotated[int, typer.Option(help="Hypotheses kept at each step.")] = 4,
) -> None:
    """Print word and phoneme error rates of the bundle's first choice."""
    right = read_part(data, part)
    words = list(right)
    said = translate_lines(bundle, words, beam_size=beam_size)
    of_words, of_phonemes = error_rates(dict(zip(words, said, strict=True)), right)
    typer.echo(
        f"{part}, {len(words):,} words, beam {beam_size}: WER {of_words:.2f} %, PER {of_phonemes:.2f} %"
    )


if __name__ == "__main__":
    app()
