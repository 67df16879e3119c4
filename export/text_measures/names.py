"""Which names and abbreviations have another form in the other language: `Italy`, `Friday`, `VAT`.

A model that cannot spell a name loses it, and the server puts it back. Pieces do not say whether one is lost
or translated: the training text does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from model.tokenizer import Tokenizer

_LEAST_SEEN = 3
_MOST_COPIED = 0.5
_SPELLED_PIECES = 3
_MOST_NAMES = 3000

_NAME = re.compile(r"(?<=[\w,] )[A-ZÀ-ÞŒ]\w+")
"""A word with a capital that does not begin a sentence."""


def translated_names(sources: Sequence[str], targets: Sequence[str], tokenizer: Tokenizer) -> tuple[str, ...]:
    """Find names that mostly do not stand in the translation as they are.

    Args:
        sources: sentences.
        targets: a translation of each.
        tokenizer: of the model; of its source words, those of one or two pieces are known to it anyway.

    Returns:
        The most frequent ones, in alphabetical order.
    """
    seen: Counter[str] = Counter()
    copied: Counter[str] = Counter()
    for source, target in zip(sources, targets, strict=True):
        names = set(_NAME.findall(source))
        seen.update(names)
        copied.update(name for name in names if name in target)
    usual = [
        name
        for name, count in seen.most_common()
        if count >= _LEAST_SEEN and copied[name] < _MOST_COPIED * count
    ]
    pieces = tokenizer.encode_batch(usual)
    kept = [
        name for name, ids in zip(usual, pieces, strict=True) if name.isupper() or len(ids) >= _SPELLED_PIECES
    ]
    return tuple(sorted(kept[:_MOST_NAMES]))
