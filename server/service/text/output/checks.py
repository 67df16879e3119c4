"""What is suspicious about a translation: loops, losses, inventions.

The thresholds are the exporter's, quantiles of the bundle's development set; without them wide ones hold.
Loops: the excess of repeated n-grams over the source's (Raunak et al., 2021; Guerreiro et al., 2023).
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from export.lexicon import Lexicon, coverage, is_covered
from server.service.text.segment import Segment, Target, is_usual

REASONS = ("loop", "truncated", "overlong", "copied", "invalid", "detached", "numbers", "names", "marks")
"""Alarms, most serious first."""

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_SEPARATORS = re.compile(r"[.,:]")
_GROUPED = re.compile(r"(?<=\d)[.,'’ \u00a0\u202f](?=\d\d\d(?!\d))")
LOOP = re.compile(r"(.{1,40}?)\1{3,}", re.S)
"""The same characters four times and more."""
_IN_A_ROW = re.compile(r"\b(\w{1,40}(?:\W{1,3}\w{1,40}){0,8}?)(?:\W{1,3}\1\b)+", re.I)
_MARKS_ALONE = re.compile(r"(?:[^\w\s]\s?){6}")
_VALUES = (*range(21), *range(30, 101, 10), 1000)
_NUMERALS = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty "
    "ninety hundred thousand",
    "de": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig "
    "achtzig neunzig hundert tausend",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
    "seize dix-sept dix-huit dix-neuf vingt trente quarante cinquante soixante soixante-dix "
    "quatre-vingts quatre-vingt-dix cent mille",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
    "dieciséis diecisiete dieciocho diecinueve veinte treinta cuarenta cincuenta sesenta setenta "
    "ochenta noventa cien mil",
}
_NUMBER_OF = {
    language: {word: str(number) for word, number in zip(words.split(), _VALUES, strict=True)}
    for language, words in _NUMERALS.items()
}
_BRACKETS = "()[]{}"
_QUOTES = '"“”„«»'
_LONG_WORD, _OFTEN = 24, 3
_INVALID = re.compile("[\ufffd\x00-\x08\x0b-\x1f]")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where checks begin to fire.

    Attributes:
        from_tokens: source tokens of the sentences that they hold for.
        shortest: target tokens a source token, below which a translation is truncated.
        longest: above which it is overlong.
        coverage: of `export.lexicon.coverage`, below which it is detached from its source.
    """

    from_tokens: int = 8
    shortest: float = 0.3
    longest: float = 3.0
    coverage: float | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """What is looked at.

    Attributes:
        source: sentence as the model read it, masks included.
        target: what it wrote.
        source_ids: without special tokens.
        target_ids: without special tokens.
        read_tokens: source tokens, specials included.
        was_cut: whether it was ended by the length limit.
    """

    source: str
    target: str
    source_ids: Sequence[int]
    target_ids: Sequence[int]
    read_tokens: int
    was_cut: bool


class Checks:
    """The checks of one model. Immutable; thread-safe."""

    def __init__(self, thresholds: Thresholds, lexicon: Lexicon | None) -> None:
        """Keep what is needed.

        Args:
            thresholds: of the bundle.
            lexicon: of the bundle, if it has one.
        """
        self._thresholds = thresholds
        self._lexicon = lexicon

    def alarms(self, checked: Checked) -> list[str]:
        """Look at what a model wrote.

        Args:
            checked: one sentence.

        Returns:
            Reasons, of `REASONS`; none if nothing is wrong.
        """
        found = []
        lengths, limits = (checked.read_tokens, len(checked.target_ids)), self._thresholds
        if checked.was_cut or is_loop(checked.source, checked.target):
            found.append("loop")
        if lengths[0] >= limits.from_tokens:
            ratio = lengths[1] / lengths[0]
            if ratio < limits.shortest:
                found.append("truncated")
            elif ratio > limits.longest:
                found.append("overlong")
        elif not checked.target.strip() or lengths[1] > 4 * lengths[0] + 12:
            found.append("truncated" if not checked.target.strip() else "overlong")
        if is_copied(checked.source, checked.target):
            found.append("copied")
        if _INVALID.search(checked.target):
            found.append("invalid")
        if lengths[0] >= limits.from_tokens and self._is_detached(checked):
            found.append("detached")
        return found

    def _is_detached(self, checked: Checked) -> bool:
        lowest, lexicon = self._thresholds.coverage, self._lexicon
        if lowest is None or lexicon is None:
            return False
        return not is_covered(lexicon, checked.source_ids, checked.target_ids, lowest)

    def coverage(self, checked: Checked) -> float:
        """Score how well a translation accounts for its source; 0 at best."""
        if self._lexicon is None:
            return 0.0
        return coverage(self._lexicon, checked.source_ids, checked.target_ids)


def is_loop(source: str, target: str) -> bool:
    """Tell whether a text repeats itself more than its source does."""
    said = _WORD.findall(target.lower())
    repeats = len(said) - len(set(said)) + 1 >= _OFTEN and max(Counter(said).values()) >= _OFTEN
    if (
        not repeats
        and max(map(len, said), default=0) < _LONG_WORD
        and (is_usual(target) or not _MARKS_ALONE.search(target))
    ):
        return False  # by far the most usual case, and neither of the two below
    match = LOOP.search(target)
    if match and (len(match[1].strip()) > 1 or len(match[0]) > 5) and not LOOP.search(source):
        return True
    given = _WORD.findall(source.lower())
    for size, most in ((1, 5), (3, 1)):
        if len(said) > size + most and _excess(said, given, size) > most:
            return True
    return False


def without_loops(text: str) -> str:
    """Say once what is said several times in a row."""
    return _IN_A_ROW.sub(r"\1", LOOP.sub(r"\1", text))


def _excess(said: list[str], given: list[str], size: int) -> int:
    def commonest(words: list[str]) -> int:
        grams = Counter(zip(*(words[i:] for i in range(size)), strict=False))
        return max(grams.values(), default=0)

    return commonest(said) - max(1, commonest(given))


def is_copied(source: str, target: str) -> bool:
    """Tell whether a sentence of four words and more came back as it was, names and masks aside."""
    words = source.lower().split()
    if 2 * len(set(words).intersection(target.lower().split())) < len(words):
        return False
    given, said = _WORD.findall(source), _WORD.findall(target)
    if len(given) < 4 or len(said) < 4:
        return False
    plain = [word.lower() for word in given[1:] if word.islower()]
    if len(plain) < 3:
        return False
    left = Counter(word.lower() for word in said)
    same = sum(min(count, left[word]) for word, count in Counter(plain).items())
    return same > 0.9 * len(plain)


def numbers_agree(source: Segment, target: Target, languages: tuple[str, str]) -> bool:
    """Tell whether a translation has the numbers of its source; small and round ones may be words.

    Args:
        source: the sentence.
        target: its translation.
        languages: of both.
    """
    given, said = _numbers(source.text, languages[0]), _numbers(target.text, languages[1])
    lost, new = given[0] - said[0], said[0] - given[0]
    return not (lost - said[1]) and not (new - given[1])


def _numbers(text: str, language: str) -> tuple[Counter[str], Counter[str]]:
    plain = [_SEPARATORS.sub("", number) for number in _NUMBER.findall(_GROUPED.sub("", text))]
    digits = Counter(number.lstrip("0") or "0" for number in plain)
    known = _NUMBER_OF.get(language)
    if known is None:
        return digits, Counter()
    words: Counter[str] = Counter()
    for word in _WORD.findall(text.lower()):
        if (number := known.get(word) or known.get(word[:3] if word.startswith("ein") else "")) is not None:
            words[number] += 1
        elif word in ("a", "an", "ein", "eine", "einen", "einem", "einer", "une", "una"):
            words["1"] += 1
    return digits, words


def marks_agree(source: Segment, target: Target) -> bool:
    """Tell whether brackets and double quotes are as many as in the source."""
    if any(source.text.count(mark) != target.text.count(mark) for mark in _BRACKETS):
        return False
    return sum(map(source.text.count, _QUOTES)) == sum(map(target.text.count, _QUOTES))
