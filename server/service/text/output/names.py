"""Names that a translation lost or spelled in another way than its source."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

from server.service.text.detection.word_lists import is_common
from server.service.text.output.full_names import (
    ALIKE,
    MANY_PIECES,
    MISSPELT,
    SPELLED_PIECES,
    FullNames,
    overlap,
)
from server.service.text.output.shape import CAPITAL_NOUNS
from server.service.text.reading.abbreviations import abbreviations
from server.service.text.segment import Segment, Span, Target
from server.service.text.vocabulary import Vocabulary, without_accents

_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[A-ZÀ-ÞŒ][\w'’]*(?:-\w+)*(?<=\w)|(?<!\w)[a-z]+[A-Z]\w*")
_CAMEL = re.compile(r"[a-zß-ÿ][A-Z](?!nnen?\b)")
"""Within names of products and programs: `iPhone`, `JavaScript`; German `StudentInnen` are no name."""
_LONGEST_ABBREVIATION = 6
_TRANSLATED_SHORT = frozenset(("OK", "TV", "AM", "PM", "EE", "UU", "ID", "US", "USA", "UK"))
"""Abbreviations that are mostly translated; `EE` and `UU` are those of `EE.UU.`."""
_BEFORE_CAPITAL = frozenset(("", *'.!?…:¿¡"“„«('))
"""What stands before a word that has its capital from beginning a sentence; nothing at the very beginning."""
_CLITIC = re.compile(r"['’](?:s|d|ll|re|ve|m)$")
_TITLE = re.compile(r"(\w{1,8})\.$")
_SMALL = re.compile(r"(?<![\w'’.@/#-])[a-zß-ÿœ][a-zß-ÿœ-]*(?![\w@/#])")
_BEFORE = re.compile(r"(?<![\w'’.-])[A-ZÀ-ÞŒ][a-zß-ÿœ]+ $")
_BEHIND = re.compile(r" [A-ZÀ-ÞŒ][a-zß-ÿœ]+(?![\w-])")
_ADJECTIVE = re.compile(r"-|ische[mnrs]?$")
"""Of German words that belong to a name and have another form elsewhere: `Julianischen`, `Agenda-Plan`."""
_TITLED = {
    language: re.compile(rf"(?<!\w)(?:{titles}) (?:(?:Dr|Prof)\. )*$")
    for language, titles in {
        "de": r"Frau|Herrn?|Familie|Dr\.|Prof\.|heiß(?:t|e|en)(?: (?:er|sie|es))?"
        r"|nenn(?:t|e|en) (?:ihn|sie|mich|uns)(?: nur| auch)?"
        r"|Tochter|Sohn|Bruder|Schwester|Tante|Onkel|Freund(?:in)?|Kolleg(?:e|in)|Nachbar(?:in)?",
        "en": r"M(?:r|rs|s)\.?|Miss|Dr\.?|Prof\.|named|nicknamed|calls? (?:him|her|me)|knows? (?:him|her) as",
        "es": r"[Ss]eñor(?:a|ita)?|[Ss]ra?\.|[Dd](?:on|oña|ra?\.)|(?:se|te) llama|me llamo|llamad[oa]",
        "fr": r"[Mm](?:onsieur|adame|ademoiselle|me|lle)|M\.|Dr|[smt]['’]appelles?|(?:sur)?nommée?",
    }.items()
}
_OFFICES = re.compile(
    r"Pr[eäé]sident|Speaker|Chair|Minister|Kommissar|Commission|Direct|Direkt|Vorsitz|Christ"
)
"""What follows a title, too, and is no name."""
_LATIN = re.compile(r"[A-Za-zÀ-ɏ]")
_MOST_NAMES = 3
_ENDING = 2
"""Letters by which a form of a name may be longer; it may be one shorter."""


class Names(FullNames):
    """Compares the names of a sentence with those of its translation. Thread-safe.

    A name is a word with a capital that the model can only spell, within a sentence; at the beginning of one,
    and in a language whose nouns have capitals, too, only beside another one, as in `Lars Henriksen`.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        translated: frozenset[str],
        coverage: Callable[[str, str], float] | None,
        restored: Callable[[str], tuple[str, bool]],
    ) -> None:
        """As `FullNames`; `restored` undoes capitals of a sentence, see `ModelText.restored`."""
        super().__init__(vocabulary, translated, coverage)
        self._restored = restored

    def lost(self, segment: Segment, target: Target, language: str) -> list[Span]:
        """Find names and abbreviations that a translation has not.

        One that has another form in the other language (`Vienna`, `Wien`) is no loss, nor is one with another
        ending; in a bundle that does not list such names, one that the lexical tables translate or that looks
        much alike.

        Args:
            segment: a sentence.
            target: its translation.
            language: of the sentence.

        Returns:
            Spans of names, ascending; one for a full name.
        """
        if not _NAME.search(segment.text, 1) or _is_in_other_letters(target.text):
            return []
        found: list[Span] = []
        said = set(_NAME.findall(target.text))
        said.update(*(name.split("-") for name in said if "-" in name))  # `API-Schlüssel`
        plain = [without_accents(word) for word in _WORD.findall(target.text.lower())]
        cased, _ = self._restored(segment.text)
        for match in _NAME.finditer(segment.text):
            start, end = match.span()
            name = _CLITIC.sub("", match[0])
            pieces = self._count(name)
            is_short = (
                1 < len(name) < _LONGEST_ABBREVIATION and name.isupper() and name not in _TRANSLATED_SHORT
            )
            is_short = is_short or bool(_CAMEL.search(name))
            is_sure = self._is_given_name(segment.text, match, said, language)
            is_sure = is_sure or _is_titled(segment.text, match, language)
            if not (is_short or is_sure) and self._is_no_name(segment.text, match, said, plain, language):
                continue
            if (
                not said.isdisjoint((name, f"{name}s"))  # `URLs`
                or name in self.translated
                or (is_short and any(_is_same_letters(name, one) for one in said))
                or cased[start : start + len(name)] != name
                or (not is_short and self._is_among(without_accents(name.lower()), plain))
                or any(overlap(Span(start, end), span) for span in segment.spans)
            ):
                continue
            spelled = pieces >= SPELLED_PIECES and "-" not in name
            if (
                (spelled and self.translated)
                or is_sure
                or (is_short and pieces >= len(name))  # its letters say nothing
                or self._is_untranslated(name, target.text)
            ):
                if self.translated and found and segment.text[found[-1].end : start] == " ":
                    found[-1] = Span(found[-1].start, end)  # one mask for a full name
                else:
                    found.append(Span(start, end))
        if self.translated and self._coverage is not None:
            full = self.lost_full(segment, target.text, said, language)
            found = [span for span in found if not any(overlap(span, one) for one in full)] + full
            found.sort(key=lambda span: span.start)
        return found if len(found) <= _MOST_NAMES and not segment.text.isupper() else []

    def recased(self, segment: Segment, target: Target, language: str, target_language: str) -> Target:
        """Give names back the capital that a translation took from them.

        Args:
            segment: a sentence.
            target: its translation.
            language: of the sentence.
            target_language: of the translation.

        Returns:
            The translation; the same object if nothing is to be changed.
        """
        if not _NAME.search(segment.text, 1) or segment.text.isupper():
            return target
        small = {match[0]: match.span() for match in _SMALL.finditer(target.text)}
        said = set(_NAME.findall(target.text))
        edits = []
        for match in _NAME.finditer(segment.text):
            name = _CLITIC.sub("", match[0])
            place = small.get(name.lower())
            if (
                place is None
                or (name[1:] != name[1:].lower() and not name.isupper())
                or is_common(name, target_language)
                or is_common(name, language)
                or not self._is_surely_name(segment.text, match, said, language)
                or any(span.start < place[1] and place[0] < span.end for span in target.spans)
            ):
                continue
            edits.append((*place, name))
        return target.edited(sorted(set(edits)))

    def _is_no_name(
        self, text: str, match: re.Match[str], said: Collection[str], words: Sequence[str], language: str
    ) -> bool:
        """Tell whether a word may have its capital from its place, or from being a noun.

        Args:
            text: the sentence.
            match: the word in it.
            said: words with a capital of the translation.
            words: of the translation, in small letters without accents.
            language: of the sentence.
        """
        name = _CLITIC.sub("", match[0])
        if language not in CAPITAL_NOUNS:
            if self._is_known(name):
                return True
            if not _begins(text[: match.start()].rstrip(), language):
                return False
            beside = _words_beside(text, match)
            return (
                not self.translated
                or is_common(name, language)
                or all(is_common(one, language) or self._is_known(one) for one in beside)
            )
        if not self._is_in_full_name(text, match, said, language) or _ADJECTIVE.search(name):
            return True
        spelled = [word for word in words if self._count(word) >= SPELLED_PIECES]
        return not get_close_matches(without_accents(name.lower()), spelled, 1, MISSPELT)

    def _is_given_name(self, text: str, match: re.Match[str], said: Collection[str], language: str) -> bool:
        """Tell whether a word is known as a name alone, and stands before one that the translation kept.

        `John Whitaker` is no `Jean Whitaker`, though other Johns are. Among nouns with capitals another form
        of it (`Mary` of `Maria`) tells that it is a name.
        """
        name, behind = match[0], _BEHIND.match(text, match.end())
        if behind is None or not self.translated or is_common(name, language):
            return False
        surname = behind[0].strip()
        return (
            surname in said
            and not self._is_known(surname)
            and not is_common(surname, language)
            and (
                bool(get_close_matches(name, said, 1, MISSPELT)) and not _ADJECTIVE.search(name)
                if language in CAPITAL_NOUNS
                else self._count(name) < self._count(name.lower())
            )
            and name.lower() not in abbreviations(language).titles
        )

    def _is_surely_name(self, text: str, match: re.Match[str], said: Collection[str], language: str) -> bool:
        """Tell whether a word is a name that may not lose its capital; a noun with many pieces often is."""
        if match[0].isupper():
            return not self._is_known(match[0])
        if _begins(text[: match.start()].rstrip(), language):
            return self._is_in_full_name(text, match, said, language)
        if language in CAPITAL_NOUNS and self._count(match[0]) < MANY_PIECES:
            return self._is_in_full_name(text, match, said, language)
        return not self._is_known(match[0]) and match[0] not in self.translated

    def _is_in_full_name(self, text: str, match: re.Match[str], said: Collection[str], language: str) -> bool:
        """Tell whether a word with a capital stands beside one that is a name in the translation, too."""
        if not self.translated or is_common(match[0], language):
            return False
        return any(
            not is_common(one, language)
            and (not self._is_known(one) or get_close_matches(one, said, 1, MISSPELT))
            for one in _words_beside(text, match)
        )

    def _is_among(self, name: str, words: Sequence[str]) -> bool:
        """Tell whether a name stands among words in some form."""
        if not self.translated:
            return bool(get_close_matches(name, words, 1, ALIKE))
        return any(
            (word.startswith(name) and len(word) <= len(name) + _ENDING) or word == name[:-1]
            for word in words
        )


def _is_in_other_letters(text: str) -> bool:
    """Tell whether a translation is in letters that write names in another way: `Смит`."""
    return 2 * len(_LATIN.findall(text)) < sum(map(str.isalpha, text))


def _is_titled(text: str, match: re.Match[str], language: str) -> bool:
    """Tell whether a word follows a title or a verb of naming: `Herr Koch` is no cook."""
    titled = _TITLED.get(language)
    return (
        titled is not None
        and titled.search(text, max(0, match.start() - 30), match.start()) is not None
        and not _OFFICES.match(match[0])
        and match[0].lower() not in abbreviations(language).titles
    )


def _words_beside(text: str, match: re.Match[str]) -> list[str]:
    """Give the words with a capital before and behind a word: the rest of a full name, perhaps."""
    found = _BEFORE.search(text, 0, match.start()), _BEHIND.match(text, match.end())
    return [one[0].strip() for one in found if one]


def _begins(before: str, language: str) -> bool:
    """Tell whether a word has its capital from its place; a title (`Ms.`) begins no sentence."""
    title = _TITLE.search(before)
    return before[-1:] in _BEFORE_CAPITAL and not (
        title is not None and title[1].lower() in abbreviations(language).titles
    )


def _is_same_letters(name: str, other: str) -> bool:
    """Tell whether one abbreviation is another in other words: `NATO` and `OTAN`, `UN` and `ONU`."""
    return other.isupper() and len(other) <= len(name) + 1 and not Counter(name) - Counter(other)
