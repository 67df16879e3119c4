"""Joins sentence pairs, so that a model of short sentences learns longer ones.

A corpus of short sentences teaches nothing about the twentieth word: what is longer comes out incomplete.
Pairs that are joined on both sides are longer and still right (Kondo et al., 2021, "Sentence Concatenation
Approach to Data Augmentation for Neural Machine Translation"). Half of them become one sentence: "Hello, how
are you?".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

_FIRST = re.compile(r"\w+")
_ENDS = (".", "!")


class Joiner:
    """Joins pairs of one direction.

    Args:
        sources: the corpus, to learn which words are written in lower case.
        targets: its other side.
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        self._lower = [_lower_words(sources), _lower_words(targets)]

    def join(
        self, first: tuple[str, str], second: tuple[str, str], rng: np.random.Generator
    ) -> tuple[str, str]:
        """Join two pairs, source with source and target with target.

        Either as two sentences, or with a comma as two clauses if the first ones are statements or
        exclamations on both sides.
        """
        if rng.random() < 0.5 and all(side.endswith(_ENDS) and side[0].isalnum() for side in first):
            sides = zip(first, second, self._lower, strict=True)
            source, target = (f"{one[:-1]}, {_continued(two, lower)}" for one, two, lower in sides)
        else:
            source, target = (" ".join(both) for both in zip(first, second, strict=True))
        return source, target


def _lower_words(sentences: Sequence[str]) -> set[str]:
    return {word for sentence in sentences for word in _FIRST.findall(sentence) if word[0].islower()}


def _continued(clause: str, lower: set[str]) -> str:
    """Write the first word small, unless it is a name or another word that never is."""
    word = _FIRST.match(clause)
    if word is None or word[0].lower() not in lower:
        return clause
    return clause[0].lower() + clause[1:]
