"""Text that the gates of an export are run on, by direction."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from export.graph.runner import Source
from export.quality_gates import to_source_ids
from model.checkpoint import Checkpoint, Direction
from model.data.corpus import read_lines, read_pairs
from model.features.encoded import from_base64, to_base64
from model.features.files import Features, FeaturesError, holds_features, read_features

Item = TypeVar("Item")


class ExportError(Exception):
    """An export cannot be done as asked; the message is one line."""


@dataclass(frozen=True)
class TextPart:
    """Text of one direction, tokenised.

    Attributes:
        direction: of the checkpoint.
        name: of the file.
        sources: one sentence an entry; features in base64.
        ids: the same as the encoder reads them: ids or features.
        references: their translations, if there are any.
        prefix: what every target begins with.
    """

    direction: Direction
    name: str
    sources: list[str]
    ids: Sequence[Source]
    references: list[str] | None
    prefix: list[int]


@dataclass(frozen=True)
class Texts:
    """Text of one direction or several, one after the other."""

    parts: tuple[TextPart, ...]

    @property
    def name(self) -> str:
        """Names of the files."""
        return ", ".join(part.name for part in self.parts)

    @property
    def ids(self) -> list[Source]:
        """Sentences of every part as the encoder reads them."""
        return [row for part in self.parts for row in part.ids]

    @property
    def prefixes(self) -> list[list[int]]:
        """What the target of each sentence begins with."""
        return [part.prefix for part in self.parts for _ in part.ids]

    @property
    def references(self) -> list[str] | None:
        """Translations of every part, or None if there are none."""
        found = [part.references for part in self.parts]
        return None if None in found else [line for part in found for line in part or ()]

    def of_parts(self, items: Sequence[Item]) -> Iterator[tuple[TextPart, Sequence[Item]]]:
        """Yield each part with its share of ``items``, one for each sentence."""
        start = 0
        for part in self.parts:
            yield part, items[start : start + len(part.ids)]
            start += len(part.ids)


def read_texts(checkpoint: Checkpoint, sources: Sequence[Path], targets: Sequence[Path] = ()) -> Texts:
    """Read and tokenise text: the first file is of the checkpoint's first direction, and so on.

    Args:
        checkpoint: whose tokenizer and tags are used.
        sources: one file a direction, of the first ones.
        targets: their translations, or none at all. Without them empty lines are left out.

    Raises:
        ExportError: there are too many files, one has no text, or a line is longer than the model takes.
        CorpusError: a file is unusable.
    """
    directions = checkpoint.config.all_directions
    if len(sources) > len(directions):
        raise ExportError(
            f"{len(sources)} source files, but {checkpoint.config.name} has {len(directions)} direction(s): "
            f"{', '.join(direction.name for direction in directions)}; give one file each, in this order"
        )
    if targets and len(targets) != len(sources):
        raise ExportError(
            f"{len(sources)} source files but {len(targets)} of translations: one each is needed"
        )
    parts = []
    for number, path in enumerate(sources):
        if targets:
            text = read_pairs([path], [targets[number]])
            lines, references = lines_of(text.sources), text.targets
        else:
            lines, references = _read_sources(path), None
        ids = _tokenise(checkpoint, lines, directions[number], path)
        prefix = target_prefix(checkpoint, directions[number])
        parts.append(TextPart(directions[number], path.name, lines, ids, references, prefix))
    return Texts(tuple(parts))


def _tokenise(
    checkpoint: Checkpoint, lines: Sequence[str], direction: Direction, path: Path
) -> Sequence[Source]:
    config = checkpoint.config
    size = config.transformer.source_features
    if bool(size) != holds_features(path):
        raise ExportError(f"{path}: {config.name} reads {'features, .npz files' if size else 'text'}")
    rows = read_by_encoder(checkpoint, lines, [direction])
    limit = config.transformer.max_positions
    for number, row in enumerate(rows, start=1):
        if len(row) > limit:
            raise ExportError(f"{path}:{number}: {len(row)} tokens, the model takes {limit}")
    return rows


def lines_of(sources: Sequence[str] | Sequence[Features]) -> list[str]:
    """Write sources one a line: text as it is, features in base64."""
    return [source if isinstance(source, str) else to_base64(source) for source in sources]


def _read_sources(path: Path) -> list[str]:
    if not holds_features(path):
        if not (lines := [line for line in read_lines(path) if line]):
            raise ExportError(f"{path}: has no text")
        return lines
    try:
        return lines_of(read_features(path))
    except FeaturesError as error:
        raise ExportError(str(error)) from None


def read_by_encoder(
    checkpoint: Checkpoint, lines: Sequence[str], directions: Sequence[Direction]
) -> Sequence[Source]:
    """Turn lines into what the encoder reads; they take turns with the directions.

    Raises:
        ExportError: features are not of the model's size.
    """
    size = checkpoint.config.transformer.source_features
    if not size:
        return to_source_ids(checkpoint.tokenizer, checkpoint.config.special_tokens, lines, directions)
    try:
        return [from_base64(line, size, len(line)) for line in lines]
    except FeaturesError as error:
        raise ExportError(f"features: {error}") from None


def target_prefix(checkpoint: Checkpoint, direction: Direction) -> list[int]:
    """Give what every target of a direction begins with."""
    return [*checkpoint.config.special_tokens.target_prefix_ids, *direction.target_prefix_ids]


@dataclass(frozen=True)
class Sample:
    """What activation ranges come from: lines that the model can take. Others say nothing of ranges.

    Attributes:
        name: of the files.
        lines: text, or features in base64.
        rows: the lines as the encoder reads them.
        prefixes: what the target of each row begins with.
    """

    name: str
    lines: list[str]
    rows: list[Source]
    prefixes: list[list[int]]


def calibration_sample(checkpoint: Checkpoint, files: Sequence[Path], count: int) -> Sample:
    """Draw at most ``count`` lines for activation ranges, with a fixed seed.

    Raises:
        ExportError: there are more files than directions, or no line that the model can take.
        CorpusError: a file is unusable.
    """
    name = ", ".join(path.name for path in files)
    sample = _directed_lines(checkpoint, files)
    if len(sample) > count:
        sample = random.Random(0).sample(sample, count)
    lines, directions = [line for line, _ in sample], [direction for _, direction in sample]
    rows = read_by_encoder(checkpoint, lines, directions)
    limit = checkpoint.config.transformer.max_positions
    short = [i for i, row in enumerate(rows) if len(row) <= limit]
    if not short:
        raise ExportError(
            f"{name}: none of {len(lines)} lines has at most {limit} tokens: calibrate on others"
        )
    prefixes = [target_prefix(checkpoint, directions[i]) for i in short]
    return Sample(name, [lines[i] for i in short], [rows[i] for i in short], prefixes)


def _directed_lines(checkpoint: Checkpoint, files: Sequence[Path]) -> list[tuple[str, Direction]]:
    """Read text for activation ranges: lines, each with the direction that it is translated in.

    Lines of a single file take turns with the directions, of a model of many languages with those from the
    first; of several files, the first is of the first direction, and so on.

    Raises:
        ExportError: there are more files than directions, or one has no text.
        CorpusError: a file is unusable.
    """
    directions = checkpoint.config.all_directions
    if len(files) > len(directions):
        raise ExportError(
            f"{len(files)} calibration files for {len(directions)} direction(s): give one, or one each"
        )
    texts = [_read_sources(path) for path in files]
    if len(texts) == 1:
        # Of a model of many languages the text is in the first; others take turns as before.
        alike = [
            one for one in directions if one.source == directions[0].source or not checkpoint.config.languages
        ]
        return list(zip(texts[0], itertools.cycle(alike), strict=False))
    return [(line, one) for text, one in zip(texts, directions, strict=False) for line in text]


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """Take ``count`` items at even distances."""
    return list(items[:: max(1, len(items) // count)][:count])
