"""Parallel text: two files, line n of one translates line n of the other."""

from __future__ import annotations

import gzip
import itertools
import math
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Generic, NoReturn, Self, TypeVar

from tqdm import tqdm

from model.features.files import Features, FeaturesError, holds_features, read_features

Source = TypeVar("Source")

_BLOCK = 1 << 20
_EMPTY_LINE = re.compile(r"\n\s*(?:\n|\Z)")


class CorpusError(ValueError):
    """A corpus cannot be used; the message names the file, the line and what is wrong."""


@dataclass(frozen=True)
class Pairs(Generic[Source]):
    """Sources of one kind and their targets, in step.

    Attributes:
        sources: one an entry.
        targets: the text that belongs to it, same index.
    """

    sources: list[Source]
    targets: list[str]

    def __len__(self) -> int:
        return len(self.sources)

    def thinned(self, stride: int) -> Self:
        """Take every ``stride``-th pair."""
        return type(self)(self.sources[::stride], self.targets[::stride])


class ParallelText(Pairs[str]):
    """Sentences and their translations."""


class DescribedFeatures(Pairs[Features]):
    """Sequences of feature vectors, all of the same size, and what is said of them."""


def iterate_lines(path: Path, *, share: float = 1.0, seed: int = 0) -> Iterator[str]:
    """Yield the lines of one side, plain or gzip (by the name's end), strictly UTF-8, outer spaces removed.

    Args:
        path: of the file.
        share: of the lines that are wanted; below 1 a random sample, the others are not even decoded.
        seed: of the sample.

    Raises:
        CorpusError: missing file, broken gzip, or a line that is not UTF-8.
    """
    if holds_features(path):
        raise CorpusError(f"{path}: holds feature vectors; text is needed here")
    try:
        with _opened(path) as stream:
            for number, line in enumerate(stream, start=1) if share >= 1 else _sampled(stream, share, seed):
                try:
                    yield line.decode("utf-8").strip()
                except UnicodeDecodeError as error:
                    place = f"{path}:{number}"
                    raise CorpusError(f"{place}: not UTF-8 (byte {error.start + 1} of the line)") from None
    except FileNotFoundError:
        raise CorpusError(f"{path}: no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from None


def _opened(path: Path) -> BufferedIOBase:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _sampled(stream: BufferedIOBase, share: float, seed: int) -> Iterator[tuple[int, bytes]]:
    """Yield some lines and their numbers, each with the same probability: the gaps are drawn."""
    drawn, number = random.Random(seed), 0
    while True:
        skipped = int(math.log(1 - drawn.random()) / math.log(1 - share))
        number += skipped + 1
        line = next(itertools.islice(stream, skipped, None), None)
        if line is None:
            return
        yield number, line


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
    bar = tqdm(desc="checking the corpus", unit="line", unit_scale=True, disable=quiet, dynamic_ncols=True)
    with bar:
        counts = [[_count_lines(path, bar) for path in side] for side in (sources, targets)]
        if sources and counts[0] == counts[1] and all(counts[0]):
            return sum(counts[0])
        # Something is wrong: line by line, to say what and where.
        return sum(1 for _ in iterate_parallel(sources, targets))


def _count_lines(path: Path, bar: tqdm[NoReturn]) -> int:
    """Count the lines of a file, by blocks, in half the time that lines take; 0 if one has a fault."""
    count = 0
    try:
        with _opened(path) as stream:
            while block := stream.read(_BLOCK) + stream.readline():
                text = block.decode("utf-8").removesuffix("\n")
                if _EMPTY_LINE.search("\n" + text):
                    return 0
                lines = text.count("\n") + 1
                count += lines
                bar.update(lines)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        return 0
    return count


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


def read_pairs(sources: Sequence[Path], targets: Sequence[Path]) -> ParallelText | DescribedFeatures:
    """Read and check the files of both sides into memory; sources in .npz files are feature vectors.

    Raises:
        CorpusError: see ``iterate_parallel``; or a file of features is damaged, or they differ in size.
    """
    if not any(map(holds_features, sources)):
        return read_parallel(sources, targets)
    if len(sources) != len(targets):
        raise CorpusError(f"{len(sources)} source files but {len(targets)} target files: one each is needed")
    found = DescribedFeatures([], [])
    for source, target in zip(sources, targets, strict=True):
        try:
            sequences = read_features(source)
        except FeaturesError as error:
            raise CorpusError(str(error)) from None
        lines = read_lines(target)
        if "" in lines:
            raise CorpusError(f"{target}:{lines.index('') + 1}: empty line; remove it and its features")
        if len(sequences) != len(lines):
            raise CorpusError(f"{source} has {len(sequences)} sequences, but {target} has {len(lines)} lines")
        found.sources.extend(sequences)
        found.targets.extend(lines)
    sizes = {sequence.shape[1] for sequence in found.sources}
    if len(sizes) > 1:
        raise CorpusError(f"{sources[0]} and others: features of different sizes: {sorted(sizes)}")
    return found
