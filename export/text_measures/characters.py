"""Which characters a model has pieces for and yet cannot write: its training text hardly had them.

A vocabulary that was given accents and signs has rows that nothing was learnt for; `Çelik` comes out as
`Øelik`. Words with such a letter are better copied, and such signs put back.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

from export.text_measures.dev_translator import DevTranslator

_USUAL = 5
"""Times in the dev text that make a character one of the language, whatever becomes of it."""

_SENTENCES = 8
_WORDS = range(4, 10)
_LEAST_WRITTEN = 0.7
_WRITTEN_SHARE = 0.02
"""Of the letters of a text: with less, a script is that of words that were taken from elsewhere."""


def lost_characters(translator: DevTranslator, texts: Sequence[str], outputs: Sequence[str]) -> str:
    """Put every rare character into sentences; give those that seldom come out.

    A letter stands in a made-up name, another sign between two words. Letters of a script that the source is
    written in and the target is not are no names to copy: as they become others, they are left out.

    Args:
        translator: of the bundle.
        texts: dev sentences.
        outputs: their translations.

    Returns:
        The characters, in order.
    """
    foreign = _scripts(texts) - _scripts(outputs)
    seen = Counter("".join(texts))
    pieces = {piece for piece in translator.tokenizer.source_pieces() if len(piece) == 1}
    plain = {one for one in pieces if (one.isascii() and one.isalnum()) or one == "▁"}
    unusual = (one for one in pieces - plain if max(seen[one], seen[one.lower()]) < _USUAL)
    rare = sorted(one for one in unusual if not one.isalpha() or _script(one) not in foreign)
    frames = [words for text in texts if len(words := text.split()) in _WORDS][:_SENTENCES]
    if not frames:
        return ""
    tries = [(one, _with(words, one)) for one in rare for words in frames]
    outputs = translator.translate([text for _, text in tries], "rare characters")
    written = Counter(one for (one, _), output in zip(tries, outputs, strict=True) if one in output)
    return "".join(one for one in rare if written[one] < _LEAST_WRITTEN * len(frames))


def _scripts(texts: Sequence[str]) -> set[str]:
    """Name the scripts that texts are written in, as Unicode's names of letters begin: `CYRILLIC`, `CJK`."""
    seen = Counter(one for text in texts for one in text if one.isalpha())
    letters: Counter[str] = Counter()
    for one, count in seen.items():
        letters[_script(one)] += count
    return {script for script, count in letters.items() if count >= _WRITTEN_SHARE * letters.total()}


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _with(words: Sequence[str], character: str) -> str:
    """Put a character into the middle of a sentence."""
    word = character
    if character.isalpha():
        word = f"{character}orin" if character.isupper() else f"Da{character}in"
    middle = len(words) // 2
    return " ".join((*words[:middle], word, *words[middle:]))
