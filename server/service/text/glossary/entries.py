"""What a glossary holds, and where its terms stand in a sentence."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from server.service.text.protection.words import Word, find_words
from server.service.text.segment import Segment, Target

MAX_TERM_CHARS = 200
MAX_FORMS = 20
_MAX_WORDS = 20
_WORD = re.compile(r"\w")
_JOINERS = re.compile("[\u200c\u200d]")  # of Persian and of scripts of India: no control characters
_GENITIVE = re.compile(r"(?<=\w)['’]s$", re.IGNORECASE)
_FRENCH_PRONOUN = re.compile(
    r"(?<=\w)(?:['’]s|-(?:t-)?(?:je|tu|ils?|elles?|on|nous|vous|ce|les?|la|lui|leur|moi|toi|y|en|là|ci))$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A term and its translation.

    Attributes:
        source: the term. In small letters it is found in any case; with a capital in it, as it is written
            here or all in capitals.
        target: its translation, which is written where the model has chosen another one.
        forms: other translations that are as good, such as inflected forms of `target`.
    """

    source: str
    target: str
    forms: tuple[str, ...] = ()

    @property
    def accepted(self) -> tuple[str, ...]:
        """All translations that are good."""
        return (self.target, *self.forms)


@dataclass(frozen=True, slots=True)
class Match:
    """A term in a sentence.

    Attributes:
        entry: of the glossary.
        start: offset of its first character.
        end: offset behind its last one.
    """

    entry: Entry
    start: int
    end: int


def make_entry(source: str, target: str, forms: Sequence[str] = ()) -> Entry:
    """Clean the parts of an entry, and check them.

    Args:
        source: term.
        target: its translation.
        forms: other translations; empty ones are left out.

    Raises:
        ValueError: it is none; the message says what is wrong, without any of the text.
    """
    source, target, *others = (
        " ".join(unicodedata.normalize("NFC", one).split()) for one in (source, target, *forms)
    )
    others = [one for one in dict.fromkeys(others) if one and one != target]
    for name, one in (("source", source), ("target", target), *(("form", form) for form in others)):
        if not _WORD.search(one):
            raise ValueError(f"the {name} has no letter or digit")
        if len(one) > MAX_TERM_CHARS:
            raise ValueError(f"the {name} has {len(one)} characters; the most is {MAX_TERM_CHARS}")
        if not _JOINERS.sub("", one).isprintable():
            raise ValueError(f"the {name} has a control character")
    if len(find_words(source)) > _MAX_WORDS:
        raise ValueError(f"the source has more than {_MAX_WORDS} words")
    if len(others) > MAX_FORMS:
        raise ValueError(f"there are {len(others)} forms; the most is {MAX_FORMS}")
    return Entry(source, target, tuple(others))


class Glossary:
    """The entries of one pair of languages. Immutable; thread-safe."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        """Index the entries by their words.

        Args:
            entries: of different sources.
        """
        self.entries = tuple(entries)
        self._by_words: dict[tuple[str, ...], list[Entry]] = {}
        lengths: dict[str, set[int]] = {}
        for entry in entries:
            for words in {words_of(entry.source), words_of(entry.source, "fr")}:
                self._by_words.setdefault(words, []).append(entry)
                lengths.setdefault(words[0], set()).add(len(words))
        self._lengths = {first: sorted(sizes, reverse=True) for first, sizes in lengths.items()}

    def find(self, segment: Segment, language: str = "") -> list[Match]:
        """Find the terms of a sentence outside of its spans: the longest ones, from left to right.

        Takes time in proportion to the length of the sentence.

        Args:
            segment: a sentence.
            language: of it; in French, pronouns behind a hyphen are words of their own.

        Returns:
            Disjoint matches, ascending.
        """
        text = segment.text
        words = _parted(text, find_words(text, segment.spans), language)
        folded = ["" if word.span >= 0 else fold(text[word.start : word.end]) for word in words]
        found: list[Match] = []
        at = 0
        while at < len(words):
            match = self._at(text, words, folded, at)
            if match is None:
                at += 1
                continue
            found.append(match[0])
            at += match[1]
        return found

    def _at(
        self, text: str, words: Sequence[Word], folded: Sequence[str], at: int
    ) -> tuple[Match, int] | None:
        for length in self._lengths.get(folded[at], ()):
            if at + length > len(words):
                continue
            start, end = words[at].start, words[at + length - 1].end
            fitting = [
                entry
                for entry in self._by_words.get(tuple(folded[at : at + length]), ())
                if is_written_as(" ".join(text[start:end].split()), entry.source)
            ]
            if fitting:  # what has the same capitals comes before what has none
                return Match(max(fitting, key=lambda entry: not entry.source.islower()), start, end), length
        return None


def fold(text: str) -> str:
    """Take away what does not part one word from another: capitals, joiners, the shape of apostrophes."""
    return _JOINERS.sub("", text.replace("’", "'")).casefold()


def words_of(term: str, language: str = "") -> tuple[str, ...]:
    """Cut a term into words and marks without case."""
    words = _parted(term, find_words(term), language)
    return tuple(fold(term[word.start : word.end]) for word in words)


def is_written_as(text: str, term: str) -> bool:
    """Tell whether a text with the words of a term has its capitals, too, where the term has some."""
    text, term = text.replace("’", "'"), term.replace("’", "'")
    return term == term.lower() or text in (term, term.upper())


def occurrences(term: str, text: Segment | Target) -> list[tuple[int, int]]:
    """Find where a term stands in a text outside of the spans, on the borders of words.

    Args:
        term: with or without capitals.
        text: sentence or translation.

    Returns:
        Start and end of each.
    """
    wanted = words_of(term)
    if wanted[0] not in fold(text.text):
        return []
    found = Glossary([Entry(term, term)]).find(Segment(text.text, text.spans))
    return [(match.start, match.end) for match in found]


def _parted(text: str, words: Sequence[Word], language: str) -> list[Word]:
    """Cut off English genitives, `dog's`, and what French puts behind its verbs: `joues-tu`."""
    pattern = _FRENCH_PRONOUN if language == "fr" else _GENITIVE
    if "'" not in text and "’" not in text and "-" not in text:
        return list(words)
    cut: list[Word] = []
    for word in words:
        ending = None if word.span >= 0 else pattern.search(text, word.start, word.end)
        if ending is None:
            cut.append(word)
        else:
            cut += [Word(word.start, ending.start()), Word(ending.start(), word.end)]
    return cut
