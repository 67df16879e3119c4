"""Text as a model knows it: what readers do not see is taken out, look-alikes become the usual characters.

Spans keep their characters; the offsets of everything else are moved along.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import partial

from server.service.text.reading.abbreviations import LONG_BEFORE_NUMBERS, LONG_BESIDE, LONG_FORMS
from server.service.text.segment import Segment

# Soft hyphens, zero width, marks of direction, variation selectors, byte order mark.
_INVISIBLE = "\u00ad\u200b-\u200f\u2028\u2029\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
_CONTROL = "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufff9-\ufffd"
# Letters with marks that NFC would join, letters in circles, ligatures, full width forms, and mathematical
# alphabets, which people write instead of bold type.
_COMPATIBLE = "\u0300-\u036f\u24b6-\u24e9\ufb00-\ufb06\uff01-\uff5e\U0001d400-\U0001d7ff"
_ELONGATED = re.compile(r"([^\W\d_])\1{2,}")
_CHARACTERS = re.compile(f"[{_INVISIBLE}{_CONTROL}]+|[^\\W\\d_]?[{_COMPATIBLE}]+")
_UNUSUAL = re.compile(f"[{_INVISIBLE}{_CONTROL}{_COMPATIBLE}]")
_SPACE_RUN = re.compile(r"[^\S ]\s*| \s+")
_OTHER_SCRIPT = re.compile("[\u0370-\u052f]")
_WORD = re.compile(r"\w+")
# Cyrillic and Greek letters that look like Latin ones (Unicode Technical Standard 39, confusables).
_LATIN = str.maketrans(
    "авсԁеһіјԛорѕухᴦАВСЕНІЈКМОРЅТУХΑΒΕΖΗΙΚΜΝΟΡΤΥΧονυі", "abcdehijqopsyxrABCEHIJKMOPSTYXABEZHIKMNOPTYXovui"
)
_HYPHENATED = re.compile(r"([^\W\d_]{2,40})- ([^\W\d_]{2,40})")
# Behind a hyphen that stands for the rest of a word: `Nord- und Südsee`.
_NEXT_PART = frozenset(("und", "oder", "bis", "and", "or", "to", "et", "ou", "y", "o"))
_STUTTER = re.compile(r"(?<![\w'’\-])([^\W\d_])-(?:\1-)+(?=\1)([^\W\d_])(?!-)", re.I)
# Dashes that touch words: `he—or she--left`, `—dijo él—`.
_DASH = re.compile(
    r"(?<=[^\W\d_]|[\"”’)»!?])(?:—(?=[\s.,;:])|(?:—|-{2,3})(?=[^\W\d_]|[\"“‘(«¿¡]))|(?<=\s)—(?=[^\W\d_]|[\"“(«¿¡])"
)
_GLUED = re.compile(
    r"(?<=[A-Za-zÀ-ž][A-Za-zÀ-ž])"
    r"(?:[,;!?&](?=[A-Za-zÀ-ž][A-Za-zÀ-ž '’])|\((?=[A-Za-zÀ-ž]{2,30} [^()]{1,200}\)))"
)
"""Marks without their space: `Hello,how are you?`, `rock&roll`, `he left(it was late)`, but not `AT&T`."""
_SPACED = {"&": " & ", "(": " ("}
_LONGEST_WORD = 64
_SHORT = re.compile(
    r"(?<![\w.])[^\W\d_]{1,8}\.(?:[ \u00a0\u202f]?(?:[^\W\d_]|ex|ej|Zt|UU)\.|-à-d\.){0,2}(?=[\s,;:(\"“„«])"
    r"(?! J\.-C)"  # `av. J.-C.` has nothing to do with avenues
)
"""Abbreviations of one to three parts, not at the end, where the full stop may be that of the sentence."""
_SPELLED = 3
"""Pieces from which on a model has not learnt an abbreviation."""


def normalize(segment: Segment, count_pieces: Callable[[str], int]) -> Segment:
    """Rewrite a block for the model.

    Takes out invisible and control characters; joins letters and marks (NFC), ligatures and other forms of
    letters; gives Latin words with a few look-alike letters their Latin ones; shortens letters that are
    repeated more than twice, also in stutter; joins words that are parted at the end of a line; gives dashes
    and marks between words their spaces.

    Args:
        segment: a block.
        count_pieces: how many pieces a word has for the model, which chooses between `so` and `soo` for
            `soooo`, and whether a word parted at its hyphen has one.

    Returns:
        The block; the same object if there is nothing to do.
    """
    if _UNUSUAL.search(segment.text):
        segment = segment.rewritten(_CHARACTERS, _usual)
    if _OTHER_SCRIPT.search(segment.text):
        segment = segment.rewritten(_WORD, lambda match: _latin(match[0]))
    if "—" in segment.text or "--" in segment.text:
        segment = segment.rewritten(_DASH, _spaced)
    segment = segment.rewritten(_GLUED, lambda match: _SPACED.get(match[0], f"{match[0]} "))
    if "- " in segment.text:
        segment = _without_hyphenation(segment, count_pieces)
    if "-" in segment.text:
        segment = segment.rewritten(_STUTTER, lambda match: match[1])
    return segment.rewritten(_ELONGATED, lambda match: _shortened(match, count_pieces))


def spell_out(segment: Segment, language: str, count_pieces: Callable[[str], int]) -> Segment:
    """Write abbreviations out that a model would have to spell: `z. B.` is `zum Beispiel`.

    Args:
        segment: a block.
        language: of its text.
        count_pieces: how many pieces a word has for the model.

    Returns:
        The block; the same object if there is nothing to do.
    """
    for pattern, meant in LONG_BESIDE.get(language, ()):
        segment = segment.rewritten(pattern, partial(_as_begun, meant))
    long_of = LONG_FORMS.get(language)
    if long_of is None or "." not in segment.text:
        return segment

    before_numbers = LONG_BEFORE_NUMBERS.get(language, {})

    def written_out(match: re.Match[str]) -> str:
        short = "".join(match[0].split())
        if short in before_numbers and match.string[match.end() : match.end() + 2].strip()[:1].isdigit():
            return before_numbers[short]
        known, lower = long_of.get(short), long_of.get(short[:1].lower() + short[1:])
        long = known or (lower and _as_begun(lower, match))
        return long if long and count_pieces(short) >= _SPELLED else match[0]

    return segment.rewritten(_SHORT, written_out)


def _as_begun(long: str, short: re.Match[str]) -> str:
    """Give a long form the capital of its abbreviation, and a space before what it would touch."""
    long = short.expand(long)
    if long and short.string[short.end() : short.end() + 1].isalnum():
        long += " "
    return long[:1].upper() + long[1:] if short[0][0].isupper() else long


def fold_spaces(segment: Segment) -> Segment:
    """Make every run of white space in a sentence one space.

    Args:
        segment: a sentence.

    Returns:
        The sentence; the same object if there is nothing to do.
    """
    if " ".join(segment.text.split()) == segment.text:
        return segment
    return segment.rewritten(_SPACE_RUN, lambda _: " ")


def _usual(match: re.Match[str]) -> str:
    found = match[0]
    if unicodedata.category(found[-1]) in ("Cf", "Cc", "Zl", "Zp") or "\ufe00" <= found[-1] <= "\ufe0f":
        return ""
    return unicodedata.normalize("NFKC" if found[-1] > "\u036f" else "NFC", found)


def _spaced(match: re.Match[str]) -> str:
    """Part a dash from the words that it touches: a model knows it between spaces."""
    before, behind = match.string[match.start() - 1], match.string[match.end()]
    return " " * (not before.isspace()) + match[0] + " " * (behind not in ".,;:" and not behind.isspace())


def _without_hyphenation(segment: Segment, count_pieces: Callable[[str], int]) -> Segment:
    breaks = {tag.at for tag in segment.tags if "\n" in tag.output}

    def joined(match: re.Match[str]) -> str:
        first, second = match.groups()
        if match.start(2) not in breaks or not second[0].islower() or second in _NEXT_PART:
            return match[0]
        return min((f"{first}-{second}", first + second), key=count_pieces)

    return segment.rewritten(_HYPHENATED, joined) if breaks else segment


def _latin(word: str) -> str:
    """Give a word its Latin letters if half of its letters are Latin and the others look like it."""
    others = len(_OTHER_SCRIPT.findall(word))
    if not others or len(word) < 2 * others:
        return word
    latin = word.translate(_LATIN)
    return word if _OTHER_SCRIPT.search(latin) else latin


def _shortened(match: re.Match[str], count_pieces: Callable[[str], int]) -> str:
    """Write an elongated word as usual, `soooo`; three may be meant: `VIII`, `IEEE`, `Schifffahrt`."""
    letter, text, (start, end) = match[1], match.string, match.span()
    begins, ends = start, end
    while begins and start - begins < _LONGEST_WORD and text[begins - 1].isalpha():
        begins -= 1
    while ends < len(text) and ends - end < _LONGEST_WORD and text[ends].isalpha():
        ends += 1
    if (begins, ends) == (start, end) or (end - start == 3 and letter.isupper()):
        return match[0]

    def pieces(new: str) -> int:
        return count_pieces(text[begins:start] + new + text[end:ends])

    best = min((letter, 2 * letter), key=pieces)
    return match[0] if end - start == 3 and pieces(best) > 1 else best
