"""Damages sentences as people do who type in a hurry: case, punctuation, apostrophes, accents and letters.

A corpus of clean sentences teaches a model nothing about "i cant find my keys" or "WHERE IS IT", and what it
does with them is worse than a word-by-word guess: it drops the negation. Trained with damaged sources and
clean targets it learns to read both (compare Belinkov and Bisk, 2018, "Synthetic and Natural Noise Both Break
Neural Machine Translation"). Works on letters of any script; nothing is specific to a language.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import numpy as np

_TYPED_WORD = re.compile(r"[^\W\d_]{4,}")
_WORD = re.compile(r"[^\W\d_]{2,}")
_APOSTROPHES = re.compile("['’]")
_END = re.compile(r"[.!?]+$")
_WORDS_A_TYPO = 8
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {
    key: "".join(row[max(0, i - 1) : i] + row[i + 1 : i + 2]) for row in _KEYS for i, key in enumerate(row)
}


def damage(text: str, rng: np.random.Generator) -> str:
    """Damage a sentence in one way or several; one that has nothing to damage comes back unchanged."""
    if rng.random() < 0.4:
        text = _mistyped(text, rng)
    if rng.random() < 0.5:
        text = _APOSTROPHES.sub("", text)
    if rng.random() < 0.3:
        text = text.replace(",", "")
    if rng.random() < 0.25:
        text = without_accents(text)
    if rng.random() < 0.4:
        text = _END.sub("", text) or text
    return _other_case(text, rng)


def mistyped(text: str, rng: np.random.Generator) -> str:
    """Mistype one word, and one more for every eight words there are."""
    return _mistyped(text, rng)


def in_lower_case(text: str) -> str:
    """Write everything in small letters."""
    return text.lower()


def in_capitals(text: str) -> str:
    """Write everything in capitals."""
    return text.upper()


def without_accents(text: str) -> str:
    """Write plain letters for accented ones: "donde esta", "uber"; letters that are no accented form stay."""
    plain = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(c for c in plain if not _is_latin_accent(c)))


def without_punctuation(text: str) -> str:
    """Leave out apostrophes, commas and what ends the sentence; a text of nothing else stays."""
    return _END.sub("", _APOSTROPHES.sub("", text).replace(",", "")) or text


def _is_latin_accent(character: str) -> bool:
    # The block of combining marks for Latin, Greek and Cyrillic; vowel signs of other scripts are letters.
    return "\u0300" <= character <= "\u036f"


def _other_case(text: str, rng: np.random.Generator) -> str:
    # Few in capitals: the server undoes them before a model reads them (server/service/text/truecasing.py).
    draw = rng.random()
    if draw < 0.30:
        return text.lower()
    if draw < 0.36:
        return text.upper()
    if draw < 0.51:
        return text[:1].lower() + text[1:]
    if draw < 0.61:
        return _at_one_word(text, _WORD, rng, str.upper)
    return text


def _mistyped(text: str, rng: np.random.Generator) -> str:
    for _ in range(1 + len(text.split()) // _WORDS_A_TYPO):
        text = _at_one_word(text, _TYPED_WORD, rng, lambda word: _typo(word, rng))
    return text


def _at_one_word(
    text: str, pattern: re.Pattern[str], rng: np.random.Generator, change: Callable[[str], str]
) -> str:
    words = list(pattern.finditer(text))
    if not words:
        return text
    match = words[int(rng.integers(len(words)))]
    return text[: match.start()] + change(match[0]) + text[match.end() :]


def _typo(word: str, rng: np.random.Generator) -> str:
    """Swap, drop, double or mistake one letter, not the first one."""
    i = int(rng.integers(1, len(word) - 1))
    draw = rng.random()
    if draw < 0.3:
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    if draw < 0.55:
        return word[:i] + word[i + 1 :]
    if draw < 0.75:
        return word[:i] + word[i] + word[i:]
    near = _NEIGHBOURS.get(word[i].lower(), word[i])
    return word[:i] + near[int(rng.integers(len(near)))] + word[i + 1 :]
