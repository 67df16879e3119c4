"""Text in capitals, or iN eRrAtIc CaSe, as the text that a model knows, and back.

A model has seen few words in capitals: "WHERE IS MY KEY" reaches it letter by letter, and nonsense comes out.
So each word is given the form that the vocabulary knows best, lower case or with a capital: truecasing (Lita
et al., 2003, "tRuEcasIng"), with the pieces of SentencePiece and their scores in the place of counts. The
translation of a sentence that was in capitals is put into capitals.

A label (`Vegetables`) has its capital from beginning a line; few models have seen words stand alone, and know
them within sentences.
"""

import re

from model.tokenizer import Tokenizer
from server.service.text.detection.word_lists import words

MIN_LETTERS = 4
"""Of a sentence or word in capitals. What is shorter is mostly an abbreviation or looks like one: US, IT."""

MIN_LETTERS_UNKNOWN = 5
"""Of a word that is no single piece in any form. Pieces do not tell HELLO from NATO, but few abbreviations
are as long as this."""

MIN_ERRATIC = 3
"""Words of a sentence in erratic case. What has fewer may list names of products."""

MIN_INVERTED = 2
"""The same if all words have a small letter before capitals: `gOOD mORNING`."""

# What holds digits or underscores is a code or a name in a program.
_WORD = re.compile(r"(?<![\w-])[\w-]*[\d_][\w-]*|[^\W\d_]+")
# Words in capitals have such a run; so may words of letters beyond Latin-1, which are looked at one by one.
_CAPITALS = re.compile(rf"[^\W\d_a-zß-öø-ÿ]{{{MIN_LETTERS}}}")
# Words such as `tHe`; of letters beyond Latin-1 there are none.
_ERRATIC = re.compile(r"(?<![\w-])(?=[^\W\d_]*[a-zß-öø-ÿ][A-ZÀ-ÖØ-Þ])[^\W\d_]++(?![\w-])")
_INVERTED = re.compile(r"\W*(?:[^\W\d_]|[a-zß-öø-ÿ](?:['’]?[A-ZÀ-ÖØ-Þ])+)\W*")
"""A word as the Caps Lock key has it: `gOOD`, `i`."""
_APOSTROPHES = "'’"
# English days and months, which are never seen in small letters; German ones are nouns.
_ALWAYS_CAPITAL = words(
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July"
    " August September October November December"
)
_LABEL = re.compile(r"[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]+")


class Truecaser:
    """Knows the words of one vocabulary. Thread-safe.

    Args:
        tokenizer: of the model; its source side is used.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def restore(self, sentence: str) -> tuple[str, bool]:
        """Undo capitals.

        Args:
            sentence: of the source language.

        Returns:
            The sentence to translate, and whether its translation belongs in capitals. What has no capitals
            to undo comes back as it is.
        """
        capitals = sentence.isupper()
        if capitals and sum(map(str.isalpha, sentence)) < MIN_LETTERS:
            return sentence, False
        if capitals or self._is_erratic(sentence):
            plain = _WORD.sub(self._best, sentence)
            if sentence.isalpha():
                return plain, capitals
            first = next(i for i, character in enumerate(plain) if character.isalpha())
            return plain[:first] + plain[first].upper() + plain[first + 1 :], capitals
        if not _CAPITALS.search(sentence):
            return sentence, False
        return _WORD.sub(self._emphasised, sentence), False

    def within_sentences(self, label: str) -> str:
        """Give a word that stands alone the form that the vocabulary knows within sentences.

        Args:
            label: any text.

        Returns:
            The word in small letters, if it is one with a capital and has no more pieces so; else the text.
            Before a colon, which models know behind other words only, without it.
        """
        if label.endswith(":"):
            word = label[:-1].rstrip()
            within = self.within_sentences(word)
            return label if within == word else within
        if not _LABEL.fullmatch(label) or label in _ALWAYS_CAPITAL:
            return label
        return min(label.lower(), label, key=lambda form: len(self._tokenizer.encode(form)))

    def _is_erratic(self, sentence: str) -> bool:
        """Tell whether a sentence `sAyS iT LiKe tHiS`: most of its words are known, but in no such form."""
        erratic, words = _ERRATIC.findall(sentence), sentence.split()
        least = MIN_INVERTED if all(map(_INVERTED.fullmatch, words)) else MIN_ERRATIC
        if len(erratic) < least or 2 * len(erratic) <= len(words):
            return False
        known = sum(self._tokenizer.source_word_score(word.lower()) is not None for word in erratic)
        return 4 * known >= 3 * len(erratic)

    def _best(self, match: re.Match[str]) -> str:
        word = match[0]
        if not word.isalpha():
            return word
        lower = word.lower()
        before = match.string[match.start() - 1 : match.start()]
        if before and before in _APOSTROPHES:  # what follows one begins no word in the vocabulary
            return lower
        return max((lower, word.capitalize(), word), key=self._known)

    def _known(self, form: str) -> tuple[int, float]:
        return -len(self._tokenizer.encode(form)), self._tokenizer.source_word_score(form) or 0.0

    def _emphasised(self, match: re.Match[str]) -> str:
        """Undo the capitals of one word in a sentence, unless it may be an abbreviation."""
        word = match[0]
        if len(word) < MIN_LETTERS or not (word.isupper() and word.isalpha()):
            return word
        best = self._best(match)
        if len(word) < MIN_LETTERS_UNKNOWN and self._tokenizer.source_word_score(best) is None:
            return word
        begins = not _WORD.search(match.string, 0, match.start())
        return best.capitalize() if begins and best != word else best
