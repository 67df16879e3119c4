"""Teaches copying: names and numbers that stand on both sides are swapped for ones never seen.

A small corpus shows the same few names over and over and hardly any digits, so a model trained on it
learns *which* names exist instead of *that* names are copied (compare Currey et al., 2017, "Copied
Monolingual Data Improves Low-Resource Neural Machine Translation").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

_WORD = re.compile(r"\w+(?:-\w+)*")
_NUMBER = re.compile(r"(?<![\w.,:])\d+(?:[.,:]\d+)*(?![\w])")
_ONSETS = (
    "b br c ch d dr f fr g gr h j k kl l m n p pr qu r s sch sh st t tr v w z " * 4 + "ł ø ś ž č"
).split()
_VOWELS = ("a a e e i i o o u ai ea ei ie oo y " * 3 + "á é í ö ü å ô").split()
_CODAS = ["", "", "", "n", "r", "l", "s", "t", "m", "ck", "nd", "rt", "x"]


def _random_name(rng: np.random.Generator) -> str:
    def pick(options: Sequence[str]) -> str:
        return options[int(rng.integers(len(options)))]

    if rng.random() < 0.12:  # a code such as B-12 or XK470
        letters = "".join(chr(65 + int(rng.integers(26))) for _ in range(int(rng.integers(1, 4))))
        return f"{letters}{pick(['', '-'])}{int(rng.integers(1, 1000))}"
    syllables = (pick(_ONSETS) + pick(_VOWELS) + pick(_CODAS) for _ in range(int(rng.integers(1, 4))))
    return "".join(syllables).capitalize()


def _random_number(like: str, rng: np.random.Generator) -> str:
    if like.isdigit():
        digits = int(rng.integers(1, 7)) if rng.random() < 0.5 else len(like)
        return str(int(rng.integers(10 ** (digits - 1), 10**digits)))
    return "".join(str(int(rng.integers(1, 10))) if c.isdigit() else c for c in like)


class CopyAugmenter:
    """Rewrites sentence pairs so that both sides share a new name or number.

    Args:
        sources: the corpus, to learn which words are names: capitalised, never in lower case on the source
            side, and found unchanged on the target side.
        targets: its other side.
        number_words: spelled-out numbers and their translation; written as digits on both sides.
    """

    def __init__(
        self, sources: Sequence[str], targets: Sequence[str], number_words: Mapping[str, str] | None = None
    ) -> None:
        self._number_words = dict(number_words or {})
        lower: set[str] = set()
        shared: Counter[str] = Counter()
        for source, target in zip(sources, targets, strict=True):
            words = _WORD.findall(source)
            lower.update(word for word in words if word[0].islower())
            candidates = {word for word in words if word[0].isupper() and len(word) > 2}
            if candidates:
                shared.update(candidates.intersection(_WORD.findall(target)))
        self._names = [name for name in sorted(shared) if name.lower() not in lower]
        self._known = set(self._names)
        self.candidates: list[int] = []
        self._with_number: set[int] = set()
        for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
            kinds = {kind for kind, _, _ in self._shared(source, target)}
            if kinds:
                self.candidates.append(i)
            if kinds & {"word", "number"}:
                self._with_number.add(i)

    def _shared(self, source: str, target: str) -> list[tuple[str, str, str]]:
        """List (kind, source word, target word) that can be swapped; each stands once on either side."""
        found = []
        target_words = Counter(_WORD.findall(target))
        source_words = Counter(_WORD.findall(source))
        for word, count in source_words.items():
            if word in self._known and count == 1:
                if target_words[word] + target_words[word + "s"] == 1:
                    found.append(("name", word, word))
            elif word in self._number_words and count == 1 and target_words[self._number_words[word]] == 1:
                found.append(("word", word, self._number_words[word]))
        numbers = Counter(_NUMBER.findall(source))
        target_numbers = Counter(_NUMBER.findall(target))
        found += [("number", n, n) for n, c in numbers.items() if c == 1 and target_numbers[n] == 1]
        return found

    def has_number(self, index: int) -> bool:
        """Tell whether the corpus pair at ``index`` shares a number, in digits or spelled out."""
        return index in self._with_number

    def augment(self, source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
        """Swap every shared name and number of the pair; a pair without any comes back unchanged."""
        for kind, old_source, old_target in self._shared(source, target):
            if kind == "name":
                fresh = rng.random() < 0.7 or len(self._names) < 2
                new = _random_name(rng) if fresh else self._names[int(rng.integers(len(self._names)))]
            else:
                new = _random_number("7" if kind == "word" else old_source, rng)
            # The German genitive "Toms" keeps its s; \b keeps "Tom" apart from "Tomate".
            ending = "s?" if kind == "name" else ""
            source = re.sub(rf"\b{re.escape(old_source)}\b", new, source)
            target = re.sub(rf"\b{re.escape(old_target)}(?={ending}\b)", new, target)
        return source, target
