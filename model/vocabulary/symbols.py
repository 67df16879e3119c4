"""Characters that every general text may hold, whatever the corpus, and how text is normalised for them.

SentencePiece's usual normalization (NFKC) turns `…` into three points and `™` into two letters, which can
then not come out again. The rules here keep what a reader sees, and even out only what looks the same:
composed and decomposed accents, kinds of space, full-width forms, ligatures; invisible characters go.
"""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

ASCII = "".join(map(chr, range(0x21, 0x7F)))
SIGNS = "€£¥¢§¶°©®™†‡µ№ªº¹²³¼½¾‰¬±×÷−≤≥≠≈∞·•→←↑↓↔✓–—…«»‹›„“”‚‘’¿¡"

_LATIN = range(0xC0, 0x180)  # Latin-1 and Latin Extended-A: the languages of Europe
LETTERS = "".join(char for char in map(chr, _LATIN) if char.isalpha()) + "ẞȘșȚț"

REQUIRED = ASCII + SIGNS + LETTERS
"""Characters that become pieces even if the corpus lacks them; the rest is spelled in bytes."""

_INVISIBLE = "\u00ad\u200b\u200e\u200f\u2060\ufeff"


def normalization_rules() -> dict[str, str]:
    """Give the characters, or sequences of them, that become others."""
    rules = {unicodedata.normalize("NFD", letter): letter for letter in LETTERS}
    rules |= dict.fromkeys(_INVISIBLE, "")
    for char in map(chr, range(sys.maxunicode + 1)):
        category = unicodedata.category(char)
        if char.isspace() and char != " ":
            rules[char] = " "
        elif category == "Cc":
            rules[char] = ""
        elif "\uff01" <= char <= "\uff5e" or "\ufb00" <= char <= "\ufb06":
            rules[char] = unicodedata.normalize("NFKC", char)
    return {before: after for before, after in rules.items() if before != after and before != "\0"}


def write_rules(path: Path) -> None:
    """Write the rules as SentencePiece reads them: code points in hexadecimal, a tab between."""
    lines = (
        "\t".join(" ".join(f"{ord(char):X}" for char in side) for side in rule)
        for rule in sorted(normalization_rules().items())
    )
    path.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
