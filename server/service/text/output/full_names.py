"""Names of several words: a translation has them letter by letter, or it has lost them."""

import re
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

from server.service.text.detection.word_lists import is_common
from server.service.text.output.shape import CAPITAL_NOUNS
from server.service.text.reading.abbreviations import abbreviations
from server.service.text.segment import Segment, Span
from server.service.text.vocabulary import Vocabulary

_CAPITALIZED = r"[A-ZÀ-ÞŒ][a-zß-ÿœ]+(?:-[A-ZÀ-ÞŒ][a-zß-ÿœ]+)*"
_WITH_PARTICLE = re.compile(
    rf"(?<![\w'’.-])(?P<first>{_CAPITALIZED}(?: {_CAPITALIZED})?) "
    r"(?:(?:[Dd]el?|du|van|vo[nm]|d[ia]|dos|b[ei]n|ibn) (?:(?:[LlDd]a|[Ll]os|las|[Ll]e|[Ee]l|de[rn]) ){0,2}"
    rf"|[dD]['’])(?P<last>{_CAPITALIZED})(?![\w-])"
)
"""Of persons and places: `Luis de Guindos`, `Jerez de la Frontera`, `Otto von Bismarck`."""
_TOKEN = re.compile(r"[^\W\d_](?:\.(?= )|[\w’'-]*\w)?")
_MOST_RUNS = 12
"""Of a sentence; what has more is a list, and comparing them takes long."""
_POSSESSIVE = re.compile(r"['’]s$")
ALIKE = 0.85
"""Of `difflib`, from which two words are forms of one name: `Zelanda`, `Zealand`; misspellings have less."""
MISSPELT = 0.6
"""Of `difflib`, from which a word may be a misspelt name: `Henrikes`, `Henriksen`."""
SPELLED_PIECES = 3
"""From which on the model does not know a word, but spells it."""
MANY_PIECES = 4
_TRANSLATED = (-2.5, -1.0)
"""Coverage of a name above which the lexical tables know its translation, and of one with many pieces."""


class FullNames:
    """Finds names of several words. Thread-safe.

    Attributes:
        translated: names that have another form in the other language; none if that is not known.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        translated: frozenset[str],
        coverage: Callable[[str, str], float] | None,
    ) -> None:
        """Keep what is needed.

        Args:
            vocabulary: of the model.
            translated: see the attribute.
            coverage: says how well the lexical tables let a text account for a word; None without tables.
        """
        self._count = vocabulary.count_pieces
        self.translated = translated
        self._coverage = coverage

    def lost_full(self, segment: Segment, text: str, said: Collection[str], language: str) -> list[Span]:
        """Find those that a translation has not as they stand.

        Args:
            segment: a sentence.
            text: its translation.
            said: words with a capital of it.
            language: of the sentence.

        Returns:
            Disjoint spans, ascending.
        """
        found: list[Span] = []
        for start, end in sorted(
            [
                *self._with_particles(segment.text, text, said, language),
                *self._runs(segment.text, text, said, language),
            ],
            key=lambda span: (span[0], -span[1]),
        ):
            name = Span(start, end)
            if not _has(text, segment.text[start:end]) and not any(
                overlap(name, other) for other in (*segment.spans, *found)
            ):
                found.append(name)
        return found

    def _runs(self, source: str, text: str, said: Collection[str], language: str) -> list[tuple[int, int]]:
        """Find neighbors with capitals of which one at least is a word that the model spells."""
        spans = []
        runs = _neighbors(source)
        for run in runs if len(runs) <= _MOST_RUNS else ():
            while run and self._is_no_part(run[0], language):
                run = run[1:]
            words = [_POSSESSIVE.sub("", token[0]) for token in run]
            if not run or any(word in self.translated for word in words):
                continue
            start, end = run[0].start(), run[-1].start() + len(words[-1])
            if len(words) == 1:
                continue
            if language in CAPITAL_NOUNS and not any(self._is_said(one, said) for one in words):
                continue  # two nouns
            if any(self._is_name(word, text, said) for word in words) and not any(
                self._is_translated(word, text, said, language) for word in words
            ):
                spans.append((start, end))
        return spans

    def _is_known(self, name: str) -> bool:
        """Tell whether the model has few pieces for a word, with or without its capital (`Fourth`)."""
        lower = self._count(name.lower())
        return min(self._count(name), lower + 1 if self.translated else lower) < SPELLED_PIECES

    def _is_untranslated(self, name: str, text: str) -> bool:
        """Tell whether a translation does not account for a name."""
        many = self._count(name) > MANY_PIECES
        return self._coverage is None or self._coverage(name, text) < _TRANSLATED[many]

    def _is_no_part(self, token: re.Match[str], language: str) -> bool:
        """Tell whether a word before a name is a title, or a noun, or has its capital from its place."""
        word = token[0]
        if is_common(word, language) or word.lower() in abbreviations(language).titles:
            return True
        return (self._is_known(word) and (token.start() == 0 or language in CAPITAL_NOUNS)) or (
            token.start() == 0 and "-" in word
        )

    def _is_said(self, word: str, said: Collection[str]) -> bool:
        """Tell whether a translation has a word that the model spells, or a misspelt form of it."""
        return not self._is_known(word) and bool(get_close_matches(word, said, 1, MISSPELT))

    def _is_name(self, word: str, text: str, said: Collection[str]) -> bool:
        return not (word.isupper() or self._is_known(word)) and (
            self._is_said(word, said) or self._is_untranslated(word, text)
        )

    def _is_translated(self, word: str, text: str, said: Collection[str], language: str) -> bool:
        """Tell whether a translation accounts for a word in another form, and that is no misspelt name."""
        if word.endswith(".") or word in said or self._is_untranslated(word, text):
            return False
        if self._is_known(word):
            is_word = self._count(word.lower()) == 1 or is_common(word, language)
            return is_word or language in CAPITAL_NOUNS
        return not self._is_said(word, said)

    def _with_particles(
        self, source: str, text: str, said: Collection[str], language: str
    ) -> list[tuple[int, int]]:
        """Find names such as `Luis de Guindos`; `Ministerio de Defensa` is none."""
        spans = []
        for match in _WITH_PARTICLE.finditer(source):
            start, first = match.start(), match["first"].split(" ")
            if is_common(first[0], language) and len(first) > 1:  # `Con Vicente del Bosque`
                start += len(first.pop(0)) + 1
            if self._is_name_with_particle(start, first, match["last"], text, said, language):
                spans.append((start, match.end()))
        return spans

    def _is_name_with_particle(
        self, start: int, first: Sequence[str], last: str, text: str, said: Collection[str], language: str
    ) -> bool:
        """Tell whether one part is unknown, and none of those before the particles is a word."""
        if last in self.translated or any(
            word in self.translated or is_common(word, language) for word in first
        ):
            return False
        if all(self._is_known(word) for word in (*first, last)):
            return False
        # At the beginning `Vivienda` may be any word.
        is_sure = start > 0 or not self._is_known(last)
        return all(
            word in said
            or (not self._is_known(word) and get_close_matches(word, said, 1, ALIKE))
            or (
                language not in CAPITAL_NOUNS
                and (
                    self._count(word) < self._count(word.lower())
                    or (is_sure and not self._is_known(word) and self._is_untranslated(word, text))
                )
            )
            for word in first
        )


def overlap(one: Span, other: Span) -> bool:
    """Tell whether two spans share a character."""
    return one.start < other.end and other.start < one.end


def _has(text: str, name: str) -> bool:
    """Tell whether a name stands in a text as a word of its own, or with an `s`."""
    return re.search(rf"(?<!\w){re.escape(name)}(?:s?(?!\w))", text) is not None


def _neighbors(source: str) -> list[list[re.Match[str]]]:
    """Cut out words with capitals, with nothing but a space between them."""
    runs: list[list[re.Match[str]]] = []
    end = -2
    for token in _TOKEN.finditer(source):
        if not token[0][0].isupper():
            continue
        if runs and source[end : token.start()] == " ":
            runs[-1].append(token)
        else:
            runs.append([token])
        end = token.end()
    return runs
