"""Tokenises chunks of a corpus on all processors.

In processes, as SentencePiece's threads share Python's lock for as long as they make lists; without torch, so
that such a process starts at once.
"""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from model.data.token_table import Column, fits
from model.tokenizer import Tokenizer

_FEW = 8
"""Chunks the caller tokenises itself: of 16,384 pairs each, a second, as long as a pool takes to start."""

_MOST = 8
"""Processes. The caller reads, sends and writes, which is an eighth of the work."""


@dataclass(frozen=True)
class Chunk:
    """Neighbouring pairs of one direction, as lines of two strings: lists take ten times as long to send.

    Attributes:
        prefix: ids before every source.
        sources: one sentence a line.
        targets: its translation, same line.
    """

    prefix: Sequence[int]
    sources: str
    targets: str


def tokenised(
    chunks: Iterable[Chunk], tokenizer: Tokenizer, max_tokens: int
) -> Iterator[tuple[Column, Column]]:
    """Yield the ids of each chunk in order, without pairs of ``max_tokens`` or more with eos on either side.

    Twice as many chunks as there are processes are in memory at most.
    """
    remaining, processes = iter(chunks), min(_processors(), _MOST)
    for chunk in itertools.islice(remaining, _FEW if processes > 1 else None):
        yield _tokenise(chunk, tokenizer, max_tokens)
    following = next(remaining, None)
    if following is None:
        return
    # Not forked: torch's threads may hold locks in this process.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, _start, (tokenizer, max_tokens))
    try:
        waiting: deque[Future[tuple[Column, Column]]] = deque()
        for chunk in itertools.chain([following], remaining):
            waiting.append(pool.submit(_tokenise_here, chunk))
            if len(waiting) == 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _tokenise(chunk: Chunk, tokenizer: Tokenizer, max_tokens: int) -> tuple[Column, Column]:
    sources = tokenizer.encode_batch(chunk.sources.split("\n"))
    if chunk.prefix:
        sources = [[*chunk.prefix, *ids] for ids in sources]
    targets = tokenizer.encode_target_batch(chunk.targets.split("\n"))
    columns = Column.of(sources), Column.of(targets)
    kept = fits(np.diff(columns[0].offsets), np.diff(columns[1].offsets), max_tokens)
    if kept.all():
        return columns
    sources, targets = (list(itertools.compress(side, kept)) for side in (sources, targets))
    return Column.of(sources), Column.of(targets)


class _Own:
    """What a process of the pool tokenises with."""

    tokenizer: Tokenizer
    max_tokens: int


def _start(tokenizer: Tokenizer, max_tokens: int) -> None:
    _Own.tokenizer, _Own.max_tokens = tokenizer, max_tokens
    gc.disable()  # a fifth of the time went to looking for cycles among lists of ids, which have none
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller, who ends the pool
    threading.Thread(target=_end_with_caller, daemon=True).start()


def _end_with_caller() -> None:
    """End this process, whose caller was killed.

    It would wait for its next chunk for ever, as it holds the other end of the queue itself.
    """
    caller = multiprocessing.parent_process()
    assert caller is not None
    caller.join()
    os._exit(1)


def _tokenise_here(chunk: Chunk) -> tuple[Column, Column]:
    return _tokenise(chunk, _Own.tokenizer, _Own.max_tokens)
