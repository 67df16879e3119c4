"""Parallel text: two files, line n of one translates line n of the other."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm


class CorpusError(ValueError):
    """A corpus cannot be used; the message names the file, the line and what is wrong."""


@dataclass(frozen=True)
class ParallelText:
    """Sentences of both sides, in step.

    Attributes:
        sources: one sentence an entry.
        targets: its translation, same index.
    """

    sources: list[str]
    targets: list[str]

    def __len__(self) -> int:
        return len(self.sources)


def iterate_lines(path: Path) -> Iterator[str]:
    """Yield the lines of one side, plain or gzip (by the name's end), strictly UTF-8, outer spaces removed.

    Raises:
        CorpusError: missing file, broken gzip, or a line that is not UTF-8.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    yield line.decode("utf-8").strip()
                except UnicodeDecodeError as error:
                    place = f"{path}:{number}"
                    raise CorpusError(f"{place}: not UTF-8 (byte {error.start + 1} of the line)") from None
    except FileNotFoundError:
        raise CorpusError(f"{path}: no such file") from None
    except (OSError, EOFError) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from None


def read_lines(path: Path) -> list[str]:
    """Read all lines that ``iterate_lines`` yields.

    Raises:
        CorpusError: see there.
    """
    return list(iterate_lines(path))


def iterate_parallel(sources: Sequence[Path], targets: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield sentences and their translations; several files a side are joined in order.

    Raises:
        CorpusError: nothing to read, numbers of files or lines differ, or a line is empty; raised when the
            pairs before it have been yielded.
    """
    if not sources or len(sources) != len(targets):
        raise CorpusError(f"{len(sources)} source files but {len(targets)} target files: one each is needed")
    for paths in zip(sources, targets, strict=True):
        lines = [iterate_lines(path) for path in paths]
        number = 0
        for number, pair in enumerate(itertools.zip_longest(*lines), start=1):
            source, target = pair
            if source and target:
                yield source, target
            elif "" in pair:
                path = paths[pair.index("")]
                raise CorpusError(f"{path}:{number}: empty line; remove it and its translation")
            else:
                shorter = paths[pair.index(None)]
                if number == 1:
                    raise CorpusError(f"{shorter}: empty file")
                longest = number + sum(1 for _ in itertools.chain(*lines))
                counts = [number - 1 if line is None else longest for line in pair]
                raise CorpusError(
                    f"line counts differ: {paths[0]} has {counts[0]}, {paths[1]} has {counts[1]}; "
                    f"{shorter} ends after line {number - 1}"
                )
        if not number:
            raise CorpusError(f"{paths[0]}: empty file")


def check_parallel(sources: Sequence[Path], targets: Sequence[Path], *, quiet: bool = True) -> int:
    """Read the files of both sides once and count their pairs, without keeping them.

    Raises:
        CorpusError: see ``iterate_parallel``.
    """
    pairs = iterate_parallel(sources, targets)
    bar = tqdm(
        pairs, desc="checking the corpus", unit="pair", unit_scale=True, disable=quiet, dynamic_ncols=True
    )
    return sum(1 for _ in bar)


def read_parallel(sources: Sequence[Path], targets: Sequence[Path]) -> ParallelText:
    """Read and check the files of both sides into memory.

    Raises:
        CorpusError: see ``iterate_parallel``.
    """
    text = ParallelText([], [])
    for source, target in iterate_parallel(sources, targets):
        text.sources.append(source)
        text.targets.append(target)
    return text
