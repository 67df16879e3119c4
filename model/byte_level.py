"""Byte-level byte-pair encoding as that of GPT-2 and BART (Radford et al., 2019).

A text is parted into words; bytes of a word become printable characters, of which pieces are made. A leaf:
standard library only.
"""

from __future__ import annotations

import re
import unicodedata

_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
_CHARACTERS = {byte: byte for byte in _PRINTABLE} | {byte: 256 + i for i, byte in enumerate(_OTHERS)}
_BYTES = {character: byte for byte, character in _CHARACTERS.items()}
# GPT-2's pattern, over kinds of characters; the letters of English endings and the apostrophe are kept.
_WORD = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[Ldelmrstv]+| ?N+| ?[O']+|[ S]+(?![^ S])|[ S]+")
_KEPT = " 'delmrstv"
_NO_SPACES = "\x1c\x1d\x1e\x1f"
"""What Python takes for white space and Unicode does not."""
_BASIC_PLANE = 0x10000

BYTE_CHARACTERS = tuple(chr(_CHARACTERS[byte]) for byte in range(256))
"""What stands for each byte."""


class _Kinds(dict[int, str]):
    """Letters are ``L``, numbers ``N``, white space ``S``, all else ``O``; filled as it is asked."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character in _KEPT:
            kind = character
        elif character.isspace() and character not in _NO_SPACES:
            kind = "S"
        else:
            category = unicodedata.category(character)[0]
            kind = category if category in "LN" else "O"
        if code < _BASIC_PLANE:
            self[code] = kind
        return kind


_KINDS = _Kinds()


def split_words(text: str) -> list[str]:
    """Part a text into words with the space before them, numbers, runs of signs, and white space.

    Their concatenation is the text; takes linear time.
    """
    return [text[match.start() : match.end()] for match in _WORD.finditer(text.translate(_KINDS))]


def to_characters(text: str) -> str:
    """Give every byte of a text's UTF-8 a printable character; what is no text becomes ``?``."""
    return text.encode("utf-8", "replace").decode("latin-1").translate(_CHARACTERS)


def to_bytes(characters: str) -> bytes:
    """Undo ``to_characters``.

    Raises:
        ValueError: a character stands for no byte.
    """
    try:
        return bytes(_BYTES[ord(character)] for character in characters)
    except KeyError as error:
        raise ValueError(f"{chr(error.args[0])!a} stands for no byte") from None
