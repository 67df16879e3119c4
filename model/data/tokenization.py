"""Turns the text of a corpus into a table of ids on disk, once."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from model.checkpoint import Direction
from model.data.corpus import CorpusError, iterate_lines, iterate_parallel
from model.data.token_table import TokenTableError, TokenTableWriter, read_index
from model.data.tokenization_pool import Chunk, tokenised
from model.recipe import Corpus, DirectionText
from model.tokenizer import Tokenizer

_LINES = 1 << 14
"""Pairs that are tokenised at a time."""

_MOST_ORIGINS = 1 << 16
"""A table holds their numbers in two bytes."""


def made_from(
    corpus: Corpus,
    directions: Sequence[Direction],
    tokenizer_files: list[Path],
    max_tokens: int,
    directory: Path | None = None,
) -> dict[str, Any]:
    """Describe what a table depends on: names, sizes and times of the text files, vocabulary, tags, limit.

    Args:
        corpus: the files.
        directions: with their tags.
        tokenizer_files: of the vocabulary.
        max_tokens: the limit.
        directory: of a table that was made elsewhere; files that are not here count as those it was made of.
    """
    files = _files(corpus, directory)
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in tokenizer_files]
    tags = [direction.source_prefix_ids for direction in directions]
    return {"files": files, "tokenizer_sha256": hashes, "tags": tags, "max_tokens": max_tokens}


def _files(corpus: Corpus, directory: Path | None = None) -> list[list[str | int]]:
    index = None if directory is None else read_index(directory)
    known = (index or {}).get("made_from", {}).get("files", [])
    found: list[list[str | int]] = []
    paths = [path for text in corpus.directions for path in _of_training(text)]
    unknown: list[str | int] = [""]
    for path, entry in zip(paths, [*known, *[unknown] * len(paths)], strict=False):
        try:
            status = path.stat()
            found.append([path.name, status.st_size, status.st_mtime_ns])
        except OSError as error:
            if entry[0] != path.name or not isinstance(error, FileNotFoundError):
                raise CorpusError(f"{path}: cannot be read: {error.strerror}") from None
            found.append(entry)
    return found


def _of_training(text: DirectionText) -> list[Path]:
    return [*text.train_source, *text.train_target, *text.train_origin]


def has_files_of(directory: Path, corpus: Corpus) -> bool:
    """Tell whether ``directory`` holds a table of these very text files, whatever the vocabulary was."""
    index = read_index(directory)
    return index is not None and index.get("made_from", {}).get("files") == _files(corpus, directory)


def is_tokenised(directory: Path, description: dict[str, Any]) -> bool:
    """Tell whether ``directory`` holds the table of this corpus."""
    index = read_index(directory)
    return index is not None and index.get("made_from") == description


def tokenise(
    corpus: Corpus,
    directions: Sequence[Direction],
    tokenizer: Tokenizer,
    directory: Path,
    description: dict[str, Any],
    *,
    quiet: bool,
) -> None:
    """Tokenise the training text into ``directory``, some thousand pairs in memory at a time.

    Raises:
        CorpusError: the text is broken.
        TokenTableError: one of its processes was killed.
    """
    writer = TokenTableWriter(directory, max(tokenizer.source_vocab_size, tokenizer.target_vocab_size))
    read = 0
    bar = tqdm(desc="tokenising", unit="pair", unit_scale=True, disable=quiet, dynamic_ncols=True)

    names: dict[str, int] = {}

    def counted() -> Iterator[Chunk]:
        nonlocal read
        for chunk in chunks_of(corpus, directions, names):
            read += len(chunk.origins)
            yield chunk

    try:
        with bar:
            for rows in tokenised(counted(), tokenizer, description["max_tokens"]):
                writer.add(rows.sources, rows.targets, rows.origins)
                bar.update(read - bar.n)
    except BrokenExecutor:
        raise TokenTableError(
            f"{directory}: a process that made it was killed, as happens when memory runs out; "
            "the same command begins it anew"
        ) from None
    left_out = read - writer.rows
    writer.finish(description, left_out, list(names))


def chunks_of(corpus: Corpus, directions: Sequence[Direction], names: dict[str, int]) -> Iterator[Chunk]:
    """Yield the text of a corpus in order, some thousand pairs at a time.

    Args:
        corpus: the files.
        directions: of the corpus, with their tags.
        names: filled with the number of each origin, in order of appearance.

    Raises:
        CorpusError: the text is broken, or has too many origins.
    """
    for number, (text, direction) in enumerate(zip(corpus.directions, directions, strict=True)):
        pairs = iterate_parallel(text.train_source, text.train_target)
        origins = _origins(text)
        while some := list(itertools.islice(pairs, _LINES)):
            own = list(itertools.islice(origins, len(some)))
            if len(own) < len(some):
                raise CorpusError(f"{text.train_origin[-1]}: has fewer lines than the text")
            numbers = [names.setdefault(name, len(names)) for name in own]
            if len(names) > _MOST_ORIGINS:
                files = ", ".join(map(str, text.train_origin))
                raise CorpusError(f"{files}: over {_MOST_ORIGINS:,} origins; name the sources, not lines")
            yield Chunk(
                direction.source_prefix_ids,
                "\n".join([source for source, _ in some]),
                "\n".join([target for _, target in some]),
                np.array(numbers, np.uint16),
                number,
            )
        if text.train_origin and next(origins, None) is not None:
            raise CorpusError(f"{text.train_origin[-1]}: has more lines than the text")


def _origins(text: DirectionText) -> Iterator[str]:
    if not text.train_origin:
        return itertools.repeat("")
    return itertools.chain.from_iterable(map(iterate_lines, text.train_origin))
