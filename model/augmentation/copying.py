"""Teaches copying: names and numbers that stand on both sides are swapped for ones never seen.

A small corpus shows the same few names over and over and hardly any digits, so a model trained on it
learns *which* names exist instead of *that* names are copied (compare Currey et al., 2017, "Copied
Monolingual Data Improves Low-Resource Neural Machine Translation").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

_WORD = re.compile(r"\w+(?:-\w+)*")
_NUMBER = re.compile(r"(?<![\w.,:])\d+(?:[.,:]\d+)*(?![\w])")
_ONSETS = (
    "b br c ch d dr f fr g gr h j k kl l m n p pr qu r s sch sh st t tr v w z " * 4 + "ł ø ś ž č"
).split()
_VOWELS = ("a a e e i i o o u ai ea ei ie oo y " * 3 + "á é í ö ü å ô").split()
_CODAS = ["", "", "", "n", "r", "l", "s", "t", "m", "ck", "nd", "rt", "x"]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# Polish, Czech, Turkish, Nordic, Portuguese, Romanian, Hungarian, Baltic and others.
_ACCENTED = {
    "a": "áàâäãåăąāæ", "c": "çčćċ", "d": "ďđð", "e": "éèêëěęēėœ", "g": "ğģ", "h": "ħ", "i": "íìîïıī",
    "k": "ķ", "l": "łľļ", "n": "ñńňņ", "o": "óòôöõøőō", "r": "řŕ", "s": "śšşș", "t": "ťţțþ", "u": "úùûüůűū",
    "y": "ýÿ", "z": "źżž",
}  # fmt: skip


def _pick(options: Sequence[str], rng: np.random.Generator) -> str:
    return options[int(rng.integers(len(options)))]


def _accented(word: str, rng: np.random.Generator) -> str:
    return "".join(_pick(_ACCENTED[c], rng) if c in _ACCENTED and rng.random() < 0.4 else c for c in word)


def _digits(count: int, rng: np.random.Generator, *, zero: bool = False) -> str:
    """Draw digits; the first is 0 only if ``zero``, and runs such as 55 or 000 are common."""
    digits = str(int(rng.integers(0 if zero else 1, 10)))
    while len(digits) < count:
        digits += digits[-1] if rng.random() < 0.3 else str(int(rng.integers(10)))
    return digits


def _random_code(rng: np.random.Generator) -> str:
    """Make up something like B-12, LH2047, XK-470 or ISO 9001."""
    letters = "".join(chr(65 + int(rng.integers(26))) for _ in range(int(rng.integers(1, 4))))
    return letters + _pick(("", "-", "-", " "), rng) + _digits(int(rng.integers(1, 5)), rng)


def _random_word(rng: np.random.Generator) -> str:
    if rng.random() < 0.12:
        word = "".join(_pick(_LETTERS, rng) for _ in range(int(rng.integers(2, 10))))
    else:
        count = int(rng.integers(1, 4))
        word = "".join(_pick(_ONSETS, rng) + _pick(_VOWELS, rng) + _pick(_CODAS, rng) for _ in range(count))
    return (_accented(word, rng) if rng.random() < 0.12 else word).capitalize()


def _random_number(like: str, rng: np.random.Generator) -> str:
    """Draw a number: one with separators keeps its form, plain digits become one of many shapes."""
    if not like.isdigit():
        return re.sub(r"\d+", lambda part: _digits(len(part[0]), rng, zero=part.start() > 0), like)
    shape = rng.random()
    if shape < 0.25:
        return _digits(len(like), rng)
    if shape < 0.60:
        digits = _digits(int(rng.integers(1, 9)), rng)
        return f"0{digits[1:]}" if len(digits) > 1 and rng.random() < 0.1 else digits
    if shape < 0.72:
        return f"{_digits(int(rng.integers(1, 4)), rng)}.{_digits(int(rng.integers(1, 4)), rng, zero=True)}"
    if shape < 0.80:
        return f"{int(rng.integers(24))}:{int(rng.integers(60)):02}"
    if shape < 0.87:  # a telephone number
        area = "0" + _digits(int(rng.integers(2, 5)), rng)
        return f"{area} {_digits(int(rng.integers(4, 9)), rng, zero=True)}"
    if shape < 0.94:
        size = int(rng.integers(2, 4))
        return " ".join(_digits(size, rng, zero=True) for _ in range(int(rng.integers(2, 5))))
    return _random_code(rng)


def _is_like_a_name(word: str) -> bool:
    return 3 < len(word) < 11 and word.isalpha() and not word.isupper()


class CopyAugmenter:
    """Rewrites sentence pairs so that both sides share a new name or number.

    Many family names are words (Fischer, Blackwood), which a model translates or writes in lower case unless
    it has seen that a capitalised word behind a first name is copied: some second names are made of words.

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
        every: Counter[str] = Counter()
        shared: Counter[str] = Counter()
        for source, target in zip(sources, targets, strict=True):
            words = _WORD.findall(source)
            lower.update(word for word in words if word[0].islower())
            every.update(word.lower() for word in words if _is_like_a_name(word))
            candidates = {word for word in words if word[0].isupper() and len(word) > 2}
            if candidates:
                shared.update(candidates.intersection(_WORD.findall(target)))
        self._names = [name for name in sorted(shared) if name.lower() not in lower]
        self._known = set(self._names)
        self._words = sorted(word for word, count in every.items() if count > 1)

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

    def shares(self, source: str, target: str) -> Literal["", "name", "number"]:
        """Tell what can be swapped: a number, in digits or spelled out, a name alone, or nothing."""
        kinds = {kind for kind, _, _ in self._shared(source, target)}
        if kinds & {"word", "number"}:
            return "number"
        return "name" if kinds else ""

    def _new_name(self, rng: np.random.Generator) -> str:
        """Draw a code, or one or two names, each made up or out of the corpus."""
        if rng.random() < 0.12:
            return _random_code(rng)

        def part() -> str:
            fresh = rng.random() < 0.7 or len(self._names) < 2
            return _random_word(rng) if fresh else _pick(self._names, rng)

        def word() -> str:
            made = _pick(self._words, rng)
            return f"{made}{_pick(self._words, rng)}" if len(made) < 6 and rng.random() < 0.4 else made

        name = part()
        if rng.random() < 0.4:
            name += f" {word().capitalize() if self._words and rng.random() < 0.4 else part()}"
        if rng.random() < 0.06:
            name += f"-{part()}"
        return name

    def augment(self, source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
        """Swap every shared name and number of the pair; a pair without any comes back unchanged."""
        numbers: dict[str, str] = {}
        names: dict[str, str] = {}
        source_words: dict[str, str] = {}
        target_words: dict[str, str] = {}
        for kind, old_source, old_target in self._shared(source, target):
            if kind == "name":
                names[old_source] = self._new_name(rng)
            elif kind == "word":
                source_words[old_source] = target_words[old_target] = _random_number("7", rng)
            else:
                numbers[old_source] = _random_number(old_source, rng)
        source_words.update(names)
        target_words.update(names)

        def swapped(match: re.Match[str]) -> str:
            return numbers.get(match[0], match[0])

        def in_target(match: re.Match[str]) -> str:
            word = match[0]
            if word not in target_words and word[:-1] in names and word[-1] == "s":
                return f"{names[word[:-1]]}s"  # the German genitive "Toms" keeps its s
            return target_words.get(word, word)

        # Numbers first: what is put in for a name may hold digits, and is final.
        source = _WORD.sub(lambda match: source_words.get(match[0], match[0]), _NUMBER.sub(swapped, source))
        return source, _WORD.sub(in_target, _NUMBER.sub(swapped, target))
