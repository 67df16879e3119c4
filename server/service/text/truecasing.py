"""Text in capitals as the text that a model knows, and back.

A model has seen few words in capitals: "WHERE IS MY KEY" reaches it letter by letter, and nonsense comes out.
So each word is given the form that the vocabulary knows best, lower case or with a capital: truecasing (Lita
et al., 2003, "tRuEcasIng"), with the pieces of SentencePiece and their scores in the place of counts. The
translation of a sentence that was in capitals is put into capitals.
"""

import re

from model.tokenizer import Tokenizer

MIN_LETTERS = 4
"""Of a sentence or word in capitals. What is shorter is mostly an abbreviation or looks like one: US, IT."""

MIN_LETTERS_UNKNOWN = 5
"""Of a word that is no single piece in any form. Pieces do not tell HELLO from NATO, but few abbreviations
are as long as this."""

# What holds digits or underscores is a code or a name in a program.
_WORD = re.compile(r"[\w-]*[\d_][\w-]*|[^\W\d_]+")
# Words in capitals have such a run; so may words of letters beyond Latin-1, which are looked at one by one.
_CAPITALS = re.compile(rf"[^\W\d_a-zß-öø-ÿ]{{{MIN_LETTERS}}}")
_APOSTROPHES = "'’"


class Truecaser:
    """Knows the words of one vocabulary. Thread-safe.

    Args:
        tokenizer: of the model; its source side is used.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._scores = tokenizer.source_words()

    def restore(self, sentence: str) -> tuple[str, bool]:
        """Undo capitals.

        Args:
            sentence: of the source language.

        Returns:
            The sentence to translate, and whether its translation belongs in capitals. What has no capitals
            to undo comes back as it is.
        """
        if sentence.isupper():
            if sum(map(str.isalpha, sentence)) < MIN_LETTERS:
                return sentence, False
            plain = _WORD.sub(self._best, sentence)
            first = next(i for i, character in enumerate(plain) if character.isalpha())
            return plain[:first] + plain[first].upper() + plain[first + 1 :], True
        if not _CAPITALS.search(sentence):
            return sentence, False
        return _WORD.sub(self._emphasised, sentence), False

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
        return -len(self._tokenizer.encode(form)), self._scores.get(form, 0.0)

    def _emphasised(self, match: re.Match[str]) -> str:
        """Undo the capitals of one word in a sentence, unless it may be an abbreviation."""
        word = match[0]
        if len(word) < MIN_LETTERS or not (word.isupper() and word.isalpha()):
            return word
        best = self._best(match)
        if len(word) < MIN_LETTERS_UNKNOWN and best not in self._scores:
            return word
        begins = not _WORD.search(match.string, 0, match.start())
        return best.capitalize() if begins and best != word else best
