"""What is suspicious about a translation: loops, losses, inventions.

The thresholds are the exporter's, quantiles of the bundle's development set; without them wide ones hold.
Loops: the excess of repeated n-grams over the source's (Raunak et al., 2021; Guerreiro et al., 2023).
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from text_to_num import alpha2digit

from export.lexicon import Lexicon, coverage, is_covered
from server.service.text.detection.triage import is_surely_in
from server.service.text.protection.symbols import QUOTES, SINGLE_QUOTED
from server.service.text.segment import Segment, Target, is_usual

REASONS = (
    "loop", "truncated", "overlong", "copied", "language", "invalid", "detached", "numbers", "names", "marks",
)  # fmt: skip
"""Alarms, most serious first."""

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_SEPARATORS = re.compile(r"[.,:]")
_TORN_NUMBER = re.compile(r"(?<!\d)\d{1,3}([.,])\d{3}\1\d{1,2}(?!\d)")
"""`1,250,00`: one sign for thousands and decimals, which no language has."""
_GROUPED = re.compile(r"(?<=\d)[.,'’ \u00a0\u202f](?=\d\d\d(?!\d))")
LOOP = re.compile(r"(.{1,40}?)\1{3,}", re.S)
"""The same characters four times and more."""
_STUTTER = re.compile(r"([^\W\d_]{1,4})\1{3}")
_IN_A_ROW = re.compile(r"\b(\w{1,40}(?:\W{1,3}\w{1,40}){0,8}?)(?:\W{1,3}\1\b)+", re.I)
_MARKS_ALONE = re.compile(r"(?:[^\w\s]\s?){6}")
_SPELLED_IN = frozenset(("de", "en", "es", "fr", "it", "nl", "pt"))
"""Languages whose numerals `text_to_num` reads."""
_ARTICLES = frozenset(("a", "an", "ein", "eine", "einen", "einem", "einer", "un", "una", "une"))
_TIME = re.compile(r"\b([01]?\d|2[0-4])(?::| ?h ?)([0-5]\d)\b")
_CLOCK = re.compile(r"\d ?[:h]|\bUhr\b|o'clock|\b[ap]\.?m\b|\bhoras?\b|\bheures?\b")
_HOURS = frozenset(map(str, range(1, 25)))
_BRACKETS = "()[]{}"
SINGLE_MARKS = re.compile(r"(?<!\w)(?P<opening>['‘])(?=\S)|(?<=\S)['’](?!\w)")
"""Single quotes and what may be some."""
_LONG_WORD, _OFTEN = 24, 3
_FEWEST_PLAIN = 3
"""Words in small letters that a sentence has at least which is no title and no list of names."""
_TWICE = 4
"""Words that are said twice in a row of four, which a source without any two words twice does not give."""
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
        languages: of source and target.
    """

    source: str
    target: str
    source_ids: Sequence[int]
    target_ids: Sequence[int]
    read_tokens: int
    was_cut: bool
    languages: tuple[str, str]


class Checks:
    """The checks of one model. Immutable; thread-safe."""

    def __init__(self, thresholds: Thresholds, lexicon: Lexicon | None) -> None:
        """Keep the thresholds of a bundle, and its lexicon if it has one."""
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
        elif is_untranslated(checked.target, *checked.languages):
            found.append("language")
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
    doubled = len(said) - len(set(said))
    repeats = doubled + 1 >= _OFTEN and (doubled >= _TWICE or max(Counter(said).values()) >= _OFTEN)
    if (
        not repeats
        and max(map(len, said), default=0) < _LONG_WORD
        and not _STUTTER.search(target)
        and (is_usual(target) or not _MARKS_ALONE.search(target))
    ):
        return False  # by far the most usual case, and neither of the two below
    match = LOOP.search(target)
    if match and (len(match[1].strip()) > 1 or len(match[0]) > 4) and not LOOP.search(source):
        return True
    given = _WORD.findall(source.lower())
    for size, most in ((1, 5), (3, 1)):
        if len(said) > size + most and _excess(said, given, size) > most:
            return True
    if doubled < _TWICE:
        return False
    return _commonest(said, _TWICE) > 1 and _commonest(given, 2) == 1


def without_loops(text: str) -> str:
    """Say once what is said several times in a row."""
    return _IN_A_ROW.sub(r"\1", LOOP.sub(r"\1", text))


def _excess(said: list[str], given: list[str], size: int) -> int:
    return _commonest(said, size) - max(1, _commonest(given, size))


def _commonest(words: list[str], size: int) -> int:
    """Count how often the commonest n-gram is there."""
    grams = Counter(zip(*(words[i:] for i in range(size)), strict=False))
    return max(grams.values(), default=0)


def is_copied(source: str, target: str) -> bool:
    """Tell whether a sentence of four words and more came back as it was, names and masks aside."""
    words = source.lower().split()
    if 2 * len(set(words).intersection(target.lower().split())) < len(words):
        return False
    given, said = _WORD.findall(source), _WORD.findall(target)
    if len(given) < 4 or len(said) < 4:
        return False
    plain = [word.lower() for word in given[1:] if word.islower()]
    if len(plain) < _FEWEST_PLAIN:
        return False
    left = Counter(word.lower() for word in said)
    same = sum(min(count, left[word]) for word, count in Counter(plain).items())
    return same > 0.9 * len(plain)


def is_untranslated(target: str, source_language: str, target_language: str) -> bool:
    """Tell whether a translation is in the language of its source, as titles (words with capitals) may be."""
    plain = sum(word.islower() for word in _WORD.findall(target))
    return plain >= _FEWEST_PLAIN and is_surely_in(target, source_language, rather_than=target_language)


def numbers_agree(source: Segment, target: Target, languages: tuple[str, str]) -> bool:
    """Tell whether a translation has the numbers of its source.

    A number may be digits in one and words in the other, an hour be of twelve or of twenty-four, and minutes
    be words that are no number (`half past two`).

    Args:
        source: the sentence.
        target: its translation.
        languages: of both.
    """
    if _TORN_NUMBER.search(target.text) and not _TORN_NUMBER.search(source.text):
        return False
    given, said = _digits(source.text), _digits(target.text)
    lost, new = given - said, said - given
    if lost or new:
        lost -= _spelled(target.text, languages[1])
        new -= _spelled(source.text, languages[0])
    if lost and new and (_CLOCK.search(source.text) or _CLOCK.search(target.text)):
        for hour in _HOURS.intersection(lost):
            for same in _HOURS.intersection((str(int(hour) - 12), str(int(hour) + 12))):
                both = min(lost[hour], new[same])
                lost[hour] -= both
                new[same] -= both
    return not +lost and not +new


def _digits(text: str) -> Counter[str]:
    """Count the numbers that are written in digits; of times, the hours."""
    plain = _TIME.sub(r"\1", _GROUPED.sub("", text))
    numbers = (_SEPARATORS.sub("", number).lstrip("0") for number in _NUMBER.findall(plain))
    return Counter(number or "0" for number in numbers)


def _spelled(text: str, language: str) -> Counter[str]:
    """Count the numbers that are written in words, and the minutes of times."""
    found = Counter(minutes.lstrip("0") or "0" for _, minutes in _TIME.findall(text))
    if language in _SPELLED_IN:
        found += _digits(alpha2digit(text, language, 0.0)) - _digits(text)
        found["1"] += sum(word in _ARTICLES for word in _WORD.findall(text.lower()))
    return found


def marks_agree(source: Segment, target: Target) -> bool:
    """Tell whether brackets and paired double quotes are as many as in the source, single ones not fewer."""
    if singles := len(SINGLE_QUOTED.findall(source.text)):
        opened = [match["opening"] is not None for match in SINGLE_MARKS.finditer(target.text)]
        if min(opened.count(True), opened.count(False)) < singles:
            return False
    if any(source.text.count(mark) != target.text.count(mark) for mark in _BRACKETS):
        return False
    if _are_paired(source.text) and not _are_paired(target.text):
        return False
    return sum(map(source.text.count, QUOTES)) == sum(map(target.text.count, QUOTES))


def _are_paired(text: str) -> bool:
    """Tell whether quotes are of one kind with those that close them: neither `«Yes”` nor `«Yes"`."""
    return text.count("«") == text.count("»") and text.count('"') % 2 == 0
