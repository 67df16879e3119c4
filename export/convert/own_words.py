"""Sentences of a model's own words, for gates that compare graphs and need no meaning."""

from __future__ import annotations

import random
from pathlib import Path

from model.checkpoint import read_config

_LINES = 300
_MOST_WORDS, _FEWEST_KNOWN = 20, 50
_FREQUENT = 5000


def write_own_words(checkpoint: Path, file: Path) -> Path:
    """Write lines of words that the source vocabulary has as pieces; of its letters, where it has no words.

    They mean nothing. That two programs compute the same can be seen on them, how well a model translates
    or what int8 costs it cannot.

    Args:
        checkpoint: of the model.
        file: where to.

    Returns:
        ``file``.

    Raises:
        CheckpointError: the checkpoint is damaged.
        TokenizerError: the same of its tokenizer.
    """
    tokenizer = read_config(checkpoint).load_tokenizer(checkpoint)
    scores = tokenizer.source_words()
    words, joint = sorted(scores, key=lambda word: -scores[word])[:_FREQUENT], " "
    if len(words) < _FEWEST_KNOWN:
        letters = {one for piece in tokenizer.source_pieces() for one in piece if one.isalpha()}
        words, joint = sorted(letters) or list("abcdefghijklmnopqrstuvwxyz"), ""
    draw = random.Random(0)
    lines = (joint.join(draw.choices(words, k=draw.randint(1, _MOST_WORDS))) + "." for _ in range(_LINES))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file
