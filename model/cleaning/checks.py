"""Decides whether a sentence pair is fit to learn from, one pair at a time."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from enum import IntEnum

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from model.cleaning.plan import Filters


class Reason(IntEnum):
    """Why a pair is left out; the report uses the names."""

    KEPT = 0
    LEFT_OUT = 1
    HELD_OUT = 2
    EMPTY = 3
    NO_LETTERS = 4
    TOO_LONG = 5
    LENGTHS_DIFFER = 6
    UNTRANSLATED = 7
    NUMBERS_DIFFER = 8
    PLACEHOLDERS_DIFFER = 9
    OTHER_LANGUAGE = 10
    DUPLICATE = 11
    NEAR_DUPLICATE = 12
    NEAR_HELD_OUT = 13


_LETTER = re.compile(r"[^\W\d_]")
_NOT_OF_WORDS = re.compile(r"[\W_]+")
_GROUPS = re.compile(r"(?<=\d)[.,'’\u00a0\u202f ](?=\d{3}(?!\d))")
_NUMBER = re.compile(r"\d{3,}")
_PLACEHOLDER = re.compile(
    r"\{[\w.]{0,40}\}|%\([\w.]{1,40}\)[sd]|%(?:\d\$)?[sd@](?![^\W_])|</?[A-Za-z][\w-]{0,20}"
)
_LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pt", "pl", "sv", "da", "cs", "ru", "zh", "ja")
_FEWEST_LETTERS = 40
"""Shorter text is not judged: product names and commands look like any language."""

_SURE = 0.9
_FEW_CHARACTERS = 16
"""Lengths may differ by so much whatever their ratio: "OK" and "Einverstanden"."""

_FEW_WORDS = 4


def key(sentence: str) -> int:
    """Give 64 bits that sentences share which differ in case, spaces and punctuation alone."""
    words = _NOT_OF_WORDS.sub(" ", sentence.casefold()).strip()
    return int.from_bytes(hashlib.blake2b((words or sentence).encode(), digest_size=8).digest(), "little")


def keys(sentences: Iterable[str]) -> frozenset[int]:
    """Give the keys of held-out sentences."""
    return frozenset(map(key, sentences))


class PairChecks:
    """The filters of a plan. Owned by the calling thread; goes to other processes before its first use.

    Args:
        languages: of the first and the second side.
        filters: which checks there are.
        held_out: keys of the sentences of dev and test sets, of either side.
    """

    def __init__(
        self, languages: tuple[str, str], filters: Filters, held_out: tuple[frozenset[int], frozenset[int]]
    ) -> None:
        self._languages = tuple(language.split("-")[0] for language in languages)
        self._filters = filters
        self._held_out = held_out
        self._identifier: LanguageIdentifier | None = None

    def check(self, first: str, second: str) -> Reason:
        """Find the first reason against a pair; KEPT if there is none."""
        filters = self._filters
        if not first or not second:
            return Reason.EMPTY
        if key(first) in self._held_out[0] or key(second) in self._held_out[1]:
            return Reason.HELD_OUT
        if not (_LETTER.search(first) and _LETTER.search(second)):
            return Reason.NO_LETTERS
        short, long = sorted((len(first), len(second)))
        if long > filters.max_characters or max(first.count(" "), second.count(" ")) >= filters.max_words:
            return Reason.TOO_LONG
        if long > filters.max_ratio * short and long - short > _FEW_CHARACTERS:
            return Reason.LENGTHS_DIFFER
        if first.casefold() == second.casefold() and first.count(" ") >= _FEW_WORDS:
            return Reason.UNTRANSLATED
        if filters.numbers and _numbers(first) != _numbers(second):
            return Reason.NUMBERS_DIFFER
        if filters.placeholders and _placeholders(first) != _placeholders(second):
            return Reason.PLACEHOLDERS_DIFFER
        if filters.language and not all(map(self._is_in, (first, second), self._languages)):
            return Reason.OTHER_LANGUAGE
        return Reason.KEPT

    def _is_in(self, text: str, language: str) -> bool:
        if len(_LETTER.findall(text)) < _FEWEST_LETTERS:
            return True
        if self._identifier is None:
            self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            self._identifier.set_languages(sorted({*_LANGUAGES, *self._languages}))
        found, probability = self._identifier.classify(text)
        return bool(found == language or probability < _SURE)


def _numbers(text: str) -> Counter[str]:
    return Counter(_NUMBER.findall(_GROUPS.sub("", text)))


def _placeholders(text: str) -> Counter[str]:
    return Counter(_PLACEHOLDER.findall(text))
