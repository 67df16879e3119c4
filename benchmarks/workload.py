"""What is translated: rows of the offline table, their sentences, and text of mixed lengths of our own."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import vocabulary
from benchmarks.concurrency import sentences as single_sentences
from benchmarks.models import NAMES, RANDOM_SIZES, Model

FORCED_TOKENS = 25
"""Source words and target tokens of every sentence of the models with random weights."""

COUNTS = (1, 8, 32, 64)
"""Of the rows that are measured when none is named; `parse_row` takes any other number, as 256."""

BEAMS = (1, 4)
_ALONE = 12
_JOINED = (1, 2, 1, 3, 1, 1, 2, 4)
_ROW = re.compile(r"(\w+)-(greedy|beam(\d+))-(\d+)")


@dataclass(frozen=True)
class Row:
    """One line of the table: so many sentences with one call, or one at a time if it is a single one."""

    model: str
    beam: int
    sentences: int

    @property
    def name(self) -> str:
        """As the command line takes it: ``base-greedy-64``, ``tiny-beam4-1``."""
        return f"{self.model}-{'greedy' if self.beam == 1 else f'beam{self.beam}'}-{self.sentences}"

    @property
    def is_single(self) -> bool:
        """Whether it is about the latency of sentences that come alone."""
        return self.sentences == 1


EVERY_ROW = tuple(Row(name, beam, count) for name in NAMES for beam in BEAMS for count in COUNTS)
QUICK_ROWS = (
    Row("base", 1, 1),
    Row("base", 1, 64),
    Row("base", 4, 32),
    Row("tiny", 1, 1),
    Row("tiny", 1, 32),
    Row("default", 1, 32),
    Row("default", 4, 32),
)


def parse_row(name: str) -> Row:
    """Read a row's name.

    Raises:
        ValueError: it is none.
    """
    found = _ROW.fullmatch(name)
    if found is None or found[1] not in NAMES:
        raise ValueError(f"{name!r} is no row; rows are called like base-greedy-64 or default-beam4-8")
    return Row(found[1], int(found[3] or 1), int(found[4]))


def sentences_of(row: Row, model: Model, source: Path | None) -> tuple[list[list[str]], int | None]:
    """Draw a row's sentences.

    Args:
        row: the row.
        model: whose pieces they are.
        source: text for the default model, one sentence a line, plain or gzip; None takes our own.

    Returns:
        Pieces of each sentence, and the target tokens they are forced to, or None.
    """
    count = _ALONE if row.is_single else row.sentences
    if row.model in RANDOM_SIZES:
        size = RANDOM_SIZES[row.model].vocabulary
        return vocabulary.random_sentences(size, [FORCED_TOKENS] * count, 2, ending=False), FORCED_TOKENS
    return tokenize(model, pick(read_text(source), count)), None


def read_text(source: Path | None) -> list[str]:
    """Read sentences, or make some.

    Raises:
        SystemExit: the file cannot be read or is empty.
    """
    if source is None:
        return own_text(512)
    try:
        content = source.read_bytes()
        text = (gzip.decompress(content) if source.suffix == ".gz" else content).decode("utf-8")
        read = [line.strip() for line in text.splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"{source}: cannot be read: {error}; --source takes text, plain or .gz") from None
    if not read:
        raise SystemExit(f"{source}: has no sentences")
    return read


def own_text(count: int) -> list[str]:
    """Write sentences of 3 to 70 words, short and long ones mixed, no two in a row alike."""
    parts = single_sentences(sum(_JOINED) * (count // len(_JOINED) + 1))
    written, used = [], 0
    for i in range(count):
        joined = _JOINED[i % len(_JOINED)]
        chosen = parts[used : used + joined]
        used += joined
        written.append(", and ".join([part.rstrip(".") for part in chosen]) + ".")
    return written


def pick(lines: Sequence[str], count: int) -> list[str]:
    """Take lines from all over a text, always the same ones; a short text is gone through again."""
    stride = max(1, len(lines) // count)
    return [lines[(i * stride) % len(lines)] for i in range(count)]


def tokenize(model: Model, lines: Sequence[str]) -> list[list[str]]:
    """Cut text into the model's pieces."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(model.huggingface / "source.spm"))
    pieces: list[list[str]] = processor.encode(list(lines), out_type=str)
    return pieces
