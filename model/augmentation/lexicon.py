"""Which word of a sentence translates which: lexical tables of both directions and the place in the sentence.

The tables are IBM model 1 (model/data/word_alignment.py), times a preference for the diagonal as in
fast_align (Dyer et al., 2013). A link is kept if each word is the other's best, so links are few and mostly
right; that is what rewriting a sentence on both sides needs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from model.data.word_alignment import learn_translations

_WORD = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")
_MOST_WORDS = 40_000
"""Of a side; rarer ones are linked only to themselves."""

_MOST_CELLS = 20_000_000
"""Word pairs that are learnt from: 80,000 sentences of 15 words, 12 s a direction."""

_LEAST = 0.02
_DIAGONAL = 4.0
_SURE = 0.04
"""Product of both probabilities and the preference for the diagonal from which on a link counts."""


class Word(NamedTuple):
    """A word or a mark, and where it stands in its sentence."""

    text: str
    start: int
    end: int


def words_of(sentence: str) -> list[Word]:
    """Cut a sentence into words and marks."""
    return [Word(match[0], *match.span()) for match in _WORD.finditer(sentence)]


@dataclass(frozen=True)
class WordLexicon:
    """Read by any number of threads and processes.

    Attributes:
        sources: number of each source word by its text in lower case, the commonest first.
        targets: number of each target word.
        forward: p(target | source) by ``source * len(targets) + target``.
        backward: p(source | target) by the same key.
    """

    sources: dict[str, int]
    targets: dict[str, int]
    forward: dict[int, float]
    backward: dict[int, float]

    @classmethod
    def learn(cls, sources: Sequence[str], targets: Sequence[str]) -> WordLexicon:
        """Learn from parallel sentences; from a sample of a large corpus, the same one every time.

        Raises:
            ValueError: there is no word on one of the sides.
        """
        step = max(1, len(sources) * 400 // _MOST_CELLS)
        texts = [[_lower(line) for line in side[::step]] for side in (sources, targets)]
        numbers = [_numbers(side) for side in texts]
        ids = [
            [[known[word] for word in line if word in known] for line in side]
            for side, known in zip(texts, numbers, strict=True)
        ]
        width = len(numbers[1])
        there = learn_translations(ids[0], ids[1], len(numbers[0]), width, _MOST_CELLS)
        back = learn_translations(ids[1], ids[0], width, len(numbers[0]), _MOST_CELLS)
        keys = there.sources.astype(np.int64) * width + there.targets
        forward = _likely(keys, there.probabilities)
        keys = back.targets.astype(np.int64) * width + back.sources
        return cls(numbers[0], numbers[1], forward, _likely(keys, back.probabilities))

    def links(self, source_words: Sequence[str], target_words: Sequence[str]) -> list[tuple[int, int]]:
        """Link words that translate each other, by their places; each word at most once."""
        scores = [
            [
                self._score(source, target)
                * math.exp(-_DIAGONAL * abs(i / len(source_words) - j / len(target_words)))
                for j, target in enumerate(self._keys(target_words, self.targets))
            ]
            for i, source in enumerate(self._keys(source_words, self.sources))
        ]
        if not scores or not scores[0]:
            return []
        best = [max(range(len(row)), key=row.__getitem__) for row in scores]
        columns = [max(range(len(scores)), key=lambda i, j=j: scores[i][j]) for j in range(len(scores[0]))]  # type: ignore[misc]
        return [(i, j) for i, j in enumerate(best) if columns[j] == i and scores[i][j] >= _SURE]

    @staticmethod
    def _keys(words: Sequence[str], numbers: dict[str, int]) -> list[tuple[str, int]]:
        return [(word.lower(), numbers.get(word.lower(), -1)) for word in words]

    def _score(self, source: tuple[str, int], target: tuple[str, int]) -> float:
        if source[0] == target[0]:
            return 1.0
        if source[1] < 0 or target[1] < 0:
            return 0.0
        key = source[1] * len(self.targets) + target[1]
        return self.forward.get(key, 0.0) * self.backward.get(key, 0.0)


def _lower(sentence: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(sentence)]


def _numbers(sentences: Iterable[Iterable[str]]) -> dict[str, int]:
    counts = Counter(word for words in sentences for word in words)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {word: number for number, (word, _) in enumerate(ordered[:_MOST_WORDS])}


def _likely(keys: np.ndarray, probabilities: np.ndarray) -> dict[int, float]:
    likely = probabilities >= _LEAST
    return dict(zip(keys[likely].tolist(), probabilities[likely].tolist(), strict=True))
