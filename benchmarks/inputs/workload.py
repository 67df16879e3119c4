"""What is translated: rows of the offline table, their sentences, and texts of mixed lengths."""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.concurrency import sentences as single_sentences
from benchmarks.inputs import vocabulary
from benchmarks.models import EVERY_NAME, NAMES, RANDOM_SIZES, Model
from benchmarks.peers.turns import REPOSITORY

FORCED_TOKENS = 25
"""Source words and target tokens of every sentence of the models with random weights."""

COUNTS = (1, 8, 32, 64)
"""Of the rows that are measured when none is named; `parse_row` takes any other number, as 256."""

BEAMS = (1, 4)
_ALONE, _ALONE_FORCED = 12, 6
_OWN_SENTENCES = 144
CORPUS = REPOSITORY / "data" / "tatoeba-en-de" / "test.en.gz"
"""Sentences that the default model was not trained on; not in the repository."""

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


EVERY_ROW = (
    *(Row(name, beam, count) for name in NAMES for beam in BEAMS for count in COUNTS),
    *(Row("large", 1, count) for count in (1, 8, 32)),
    *(Row("large", 4, count) for count in (1, 8)),
)
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
    if found is None or found[1] not in EVERY_NAME:
        raise ValueError(f"{name!r} is no row; rows are called like base-greedy-64 or default-beam4-8")
    return Row(found[1], int(found[3] or 1), int(found[4]))


def sentences_of(row: Row, model: Model, source: Path | None) -> tuple[list[list[str]], int | None]:
    """Draw a row's sentences.

    Args:
        row: the row.
        model: whose pieces they are.
        source: text for the default model, one sentence a line, plain or gzip; None as in `read_text`.

    Returns:
        Pieces of each sentence, and the target tokens they are forced to, or None.
    """
    forced = row.model in RANDOM_SIZES
    count = row.sentences if not row.is_single else _ALONE_FORCED if forced else _ALONE
    if forced:
        size = RANDOM_SIZES[row.model].vocabulary
        return vocabulary.random_sentences(size, [FORCED_TOKENS] * count, 2, ending=False), FORCED_TOKENS
    return tokenize(model, pick(read_text(source), count)), None


def text_name(source: Path | None) -> str:
    """Say where the default model's sentences come from."""
    found = source or (CORPUS if CORPUS.exists() else None)
    return found.name if found else "sentences of our own"


def read_text(source: Path | None) -> list[str]:
    """Read sentences: a file's, else those of the corpus that the default model is tested on, else our own.

    Raises:
        SystemExit: the file cannot be read or is empty.
    """
    if source is None:
        if not CORPUS.exists():
            return single_sentences(_OWN_SENTENCES)
        source = CORPUS
    try:
        content = source.read_bytes()
        text = (gzip.decompress(content) if source.suffix == ".gz" else content).decode("utf-8")
        read = [line.strip() for line in text.splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"{source}: cannot be read: {error}; --source takes text, plain or .gz") from None
    if not read:
        raise SystemExit(f"{source}: has no sentences")
    return read


def with_long_texts(lines: Sequence[str], count: int, every: int, words: int) -> list[str]:
    """Take lines for the clients, and now and then a text of many of them.

    Args:
        lines: sentences.
        count: texts wanted.
        every: which of them is long.
        words: of the long ones, at least.
    """
    endless = itertools.cycle(lines)
    texts = []
    for i in range(count):
        text = next(endless)
        while i % every == every // 2 and text.count(" ") + 1 < words:
            text = f"{text} {next(endless)}"
        texts.append(text)
    return texts


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
