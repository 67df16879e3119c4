"""Parallel text: two files, line n of one translates line n of the other."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


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


def read_lines(path: Path) -> list[str]:
    """Read one side, plain or gzip (by the name's end), strictly UTF-8; line ends and outer spaces removed.

    Raises:
        CorpusError: missing file, broken gzip, or a line that is not UTF-8.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            raw = stream.read()
    except FileNotFoundError:
        raise CorpusError(f"{path}: no such file") from None
    except (OSError, EOFError) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from None
    lines = raw.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    texts = []
    for number, line in enumerate(lines, start=1):
        try:
            texts.append(line.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise CorpusError(f"{path}:{number}: not UTF-8 (byte {error.start + 1} of the line)") from None
    return texts


def read_parallel(sources: Sequence[Path], targets: Sequence[Path]) -> ParallelText:
    """Read and check the files of both sides; several files a side are joined in order.

    Raises:
        CorpusError: nothing to read, numbers of files or lines differ, or a line is empty.
    """
    if not sources or len(sources) != len(targets):
        raise CorpusError(f"{len(sources)} source files but {len(targets)} target files: one each is needed")
    text = ParallelText([], [])
    for source_path, target_path in zip(sources, targets, strict=True):
        source, target = read_lines(source_path), read_lines(target_path)
        for path, lines in ((source_path, source), (target_path, target)):
            if not lines:
                raise CorpusError(f"{path}: empty file")
            for number, line in enumerate(lines, start=1):
                if not line:
                    raise CorpusError(f"{path}:{number}: empty line; remove it and its translation")
        if len(source) != len(target):
            short, lines = (source_path, source) if len(source) < len(target) else (target_path, target)
            raise CorpusError(
                f"line counts differ: {source_path} has {len(source)}, {target_path} has {len(target)}; "
                f"{short} ends after line {len(lines)}"
            )
        text.sources.extend(source)
        text.targets.extend(target)
    return text
