"""Kinds of damage that texts come with, to measure what a system makes of them.

Typing: letters, case, marks, accents, spaces, drawn-out letters, chat. Copying: look-alike letters, invisible
characters, decomposed accents, recognition errors. Compare Belinkov and Bisk (2018, "Synthetic and Natural
Noise Both Break Neural Machine Translation") and Bawden and Sagot (2023, RoCS-MT).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import numpy as np

from model.augmentation.noise import (
    damage,
    in_capitals,
    in_lower_case,
    mistyped,
    without_accents,
    without_punctuation,
)

Damage = Callable[[str, np.random.Generator], str]

_WORDS_A_CHANGE = 8
_EMOJI = "😀😂❤🎉👍"
_VOWEL = re.compile(r"(?<=[^\W\d_])[aeiouäöüáéíóúàèù]", re.IGNORECASE)
_SPACE = re.compile(r"(?<=\w) (?=\w)")
_WITHIN = re.compile(r"(?<=[^\W\d_]{2})(?=[^\W\d_]{2})")
_FINAL = re.compile(r"[.!?]$")
_LOOK_ALIKE = dict(zip("aceopxyACEHKMOPTX", "асеорхуАСЕНКМОРТХ", strict=True))
_ALIKE = re.compile("(?<=[a-z])[aceopxy](?=[a-z])|[ACEHKMOPTX](?=[a-z]{2})")
_MISREAD = {"rn": "m", "m": "rn", "l": "1", "o": "0", "cl": "d", "d": "cl", "i": "l", "e": "c"}
_READ = re.compile("(?<=[a-z])(?:rn|cl|m|l|o|d|i|e)(?=[a-z])")
_CHAT = {
    "you": "u", "are": "r", "please": "pls", "because": "bc", "thanks": "thx", "before": "b4", "your": "ur",
    "tomorrow": "tmrw", "people": "ppl", "with": "w/", "great": "gr8", "what": "wat", "don't": "dont",
    "going to": "gonna", "want to": "wanna", "I don't know": "idk", "right now": "rn", "though": "tho",
}  # fmt: skip
_CHATTED = re.compile(rf"\b(?:{'|'.join(sorted(_CHAT, key=len, reverse=True))})\b")


def _some(text: str, pattern: re.Pattern[str], rng: np.random.Generator, new: Callable[[str], str]) -> str:
    """Replace one place that a pattern finds, and one more for every eight words there are."""
    for _ in range(1 + len(text.split()) // _WORDS_A_CHANGE):
        places = list(pattern.finditer(text))
        if not places:
            break
        match = places[int(rng.integers(len(places)))]
        text = text[: match.start()] + new(match[0]) + text[match.end() :]
    return text


def drawn_out(text: str, rng: np.random.Generator) -> str:
    """Draw out a vowel: `sooooo`."""
    return _some(text, _VOWEL, rng, lambda vowel: vowel * int(rng.integers(3, 7)))


def with_lost_spaces(text: str, rng: np.random.Generator) -> str:
    """Write words together."""
    return _some(text, _SPACE, rng, lambda _: "")


def with_added_spaces(text: str, rng: np.random.Generator) -> str:
    """Write words in two."""
    return _some(text, _WITHIN, rng, lambda _: " ")


def with_look_alikes(text: str, rng: np.random.Generator) -> str:
    """Write Cyrillic letters for Latin ones that look the same (Unicode Technical Standard 39)."""
    return _some(text, _ALIKE, rng, _LOOK_ALIKE.__getitem__)


def with_zero_width(text: str, rng: np.random.Generator) -> str:
    """Put zero width spaces and soft hyphens into words."""
    return _some(text, _WITHIN, rng, lambda _: "\u200b\u00ad"[int(rng.integers(2))])


def misread(text: str, rng: np.random.Generator) -> str:
    """Mistake letters as optical character recognition does: `rn` and `m`, `l` and `1`."""
    return _some(text, _READ, rng, _MISREAD.__getitem__)


def as_in_chat(text: str) -> str:
    """Shorten English words as people do in chats."""
    return _CHATTED.sub(lambda match: _CHAT[match[0]], text)


def with_emoji(text: str, rng: np.random.Generator) -> str:
    """Put an emoji behind the text or between two words."""
    emoji = _EMOJI[int(rng.integers(len(_EMOJI)))]
    if rng.random() < 0.5:
        return f"{text} {emoji}"
    return _some(text, _SPACE, rng, lambda _: f" {emoji} ")


def with_curly_quotes(text: str) -> str:
    """Write typographic quotes and apostrophes for straight ones."""
    return re.sub(r'(?<!\S)"', "“", text).replace('"', "”").replace("'", "’")


KINDS: dict[str, Damage] = {
    "typos": mistyped,
    "lower case": lambda text, rng: in_lower_case(text),
    "capitals": lambda text, rng: in_capitals(text),
    "no punctuation": lambda text, rng: without_punctuation(text),
    "no accents": lambda text, rng: without_accents(text).replace("ß", "ss"),
    "drawn out": drawn_out,
    "lost spaces": with_lost_spaces,
    "added spaces": with_added_spaces,
    "repeated marks": lambda text, rng: _FINAL.sub(lambda mark: 3 * mark[0], text),
    "chat": lambda text, rng: as_in_chat(text),
    "emoji": with_emoji,
    "curly quotes": lambda text, rng: with_curly_quotes(text),
    "look-alikes": with_look_alikes,
    "zero width": with_zero_width,
    "no-break spaces": lambda text, rng: text.replace(" ", "\u00a0"),
    "decomposed": lambda text, rng: unicodedata.normalize("NFD", text),
    "misread": misread,
    "hasty": damage,
}
"""By name; `hasty` is several kinds of typing at once."""

_NOT_COMPARED = re.compile(rf" ?[{_EMOJI}]|[\s.!?…]+$")
_SHAPED = frozenset({"lower case", "capitals", "no punctuation", "repeated marks", "emoji", "chat", "hasty"})


def comparable(text: str, kind: str) -> str:
    """Write a translation or reference as it is scored.

    A translation may have the case, final mark and emoji of its source, and is right either way: where
    these are what is damaged, they are left out.

    Args:
        text: a translation or a reference.
        kind: of `KINDS`.
    """
    return _NOT_COMPARED.sub("", text).lower() if kind in _SHAPED else text
