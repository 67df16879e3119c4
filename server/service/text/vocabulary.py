"""What a model can read: its characters and words, asked of its tokenizer once."""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from model.tokenizer import Tokenizer
from server.service.text.protection.symbols import FINAL_MARKS
from server.service.text.protection.writing import escaped
from server.service.text.segment import Segment, Span, Tag, is_of_word

# What a model without the character reads in its place.
_INSTEAD = {
    "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "’": "'", "‘": "'", "‚": "'", "`": "'", "´": "'",
    "ʼ": "'", "–": "-", "—": "-", "‑": "-", "−": "-", "…": "...", "·": "-", "×": "x", "‐": "-", ";": ",",
}  # fmt: skip
_DASH = re.compile(r"(?<=[^\W\d_])[ \u00a0][—–-](?=[ \u00a0][^\W\d_])")
"""Around what is put in between. A model that has no `–` has seen no such dash, and reads a comma well."""
_AND = {"en": "and", "de": "und", "fr": "et", "es": "y"}
_TWO_MARKS = "\u1e00"
"""From here on letters have two marks (`ễ`), and many bytes: what models make of them is no copy."""
_NAME_BEHIND = re.compile(r"(?: [^\W\d_][\w’-]{0,30}\w){1,3}")
_MAX_WORDS = 20_000
_FEWEST_PIECES = 1000
"""Of a vocabulary that says something about words; a smaller one spells them all."""
_LETTERS = re.compile(r"[^\W\d_]+")
# A word of Latin letters without one is none; other scripts have no vowels that could be told here.
_VOWELS = re.compile(r"[aeiouyäëïöüáéíóúàèìòùâêîôûæœøåãõ]|[^\x00-\u024f]")


class Vocabulary:
    """Knows which characters and words a model has. Thread-safe.

    Attributes:
        count_pieces: says how many pieces a word has.
    """

    count_pieces: Callable[[str], int]

    def __init__(self, tokenizer: Tokenizer, lost: str = "") -> None:
        """Ask nothing yet.

        Args:
            tokenizer: of the model; its source side is used.
            lost: characters that have a piece and yet are unknown: the model cannot write them.
        """
        self._tokenizer = tokenizer
        pieces = tokenizer.source_pieces()
        self._has_words = len(pieces) >= _FEWEST_PIECES
        self._unknown = {i for i, piece in enumerate(pieces) if piece.startswith("<0x") or piece == "<unk>"}
        self._has_bytes = "<0xC3>" in pieces
        self._characters: dict[str, bool] = dict.fromkeys(lost, False)
        self._lost_letters = {one for one in lost if one.isalpha()}
        self._readable: set[str] = set()
        self.count_pieces = lru_cache(_MAX_WORDS)(lambda word: len(tokenizer.encode(word)))

    def knows(self, character: str) -> bool:
        """Tell whether the model has a piece for a character, and can write it."""
        known = self._characters.get(character)
        if known is None:
            # Some have a piece only at the beginning of a word, others only within one.
            known = (character.isascii() and character.isalnum()) or any(
                self._unknown.isdisjoint(self._tokenizer.encode(before + character)) for before in ("", "a")
            )
            if len(self._characters) < _MAX_WORDS:
                self._characters[character] = known
                if known:
                    self._readable.add(character)
        return known

    def is_gibberish(self, text: str) -> bool:
        """Tell whether no word of a text looks like one: letters that the model can only spell one by one."""
        if not self._has_words:
            return False
        words = [word for word in _LETTERS.findall(text.lower()) if len(word) > 2]
        letters, pieces = sum(map(len, words)), sum(map(self.count_pieces, words))
        if 3 * pieces < 2 * letters or not words:
            return False
        spelled = 5 * pieces >= 4 * letters if len(words) > 1 else 3 * pieces > 4 * letters
        return spelled or not any(_VOWELS.search(word) for word in words)

    def readable(self, segment: Segment, language: str) -> Segment:
        """Give a block characters that the model has.

        Quotes, dashes and `&` become what the model knows of the kind; runs of letters that it does not know
        become spans, other signs become tags.

        Args:
            segment: a block.
            language: of its text.

        Returns:
            The block; the same object if the model knows all of it.
        """
        if _DASH.search(segment.text) and segment.text.rstrip()[-1:] in FINAL_MARKS and not self.knows("–"):
            segment = segment.rewritten(_DASH, lambda _: ",")
        unseen = set(segment.text).difference(self._readable)
        if not unseen:
            return segment
        strange = {one for one in unseen if not (one.isspace() or self.knows(one) or self._spells(one))}
        return segment if not strange else self._without(segment, strange, language)

    def _spells(self, character: str) -> bool:
        """Whether it is a letter with an accent that the model reads as bytes: it may know to copy a name."""
        plain = unicodedata.normalize("NFKD", character)
        return (
            character not in self._lost_letters
            and self._has_bytes
            and character.isalpha()
            and plain[0].isascii()
            and character < _TWO_MARKS
        )

    def _without(self, segment: Segment, strange: set[str], language: str) -> Segment:
        text, kept = segment.text, segment.spans
        spans, tags, edits = list(kept), [], []
        position = index = 0
        while position < len(text):
            while index < len(kept) and kept[index].end <= position:
                index += 1
            if index < len(kept) and kept[index].start <= position:
                position = kept[index].end
                continue
            character = text[position]
            if character not in strange:
                position += 1
                continue
            end = position + 1
            is_kept = character in self._lost_letters or (character >= _TWO_MARKS and character.isalpha())
            new = None if is_kept else self._instead(text, position, language)
            if new is not None:
                edits.append((position, end, new))
            elif character.isalnum() or _is_within_word(text, position):
                first = kept[index - 1].end if index else 0
                last = kept[index].start if index < len(kept) else len(text)
                begin, end = _word_around(text, position, max(first, edits[-1][1] if edits else 0), last)
                end = _end_of_name(text, begin, end, last)
                if spans and len(spans) > len(kept) and spans[-1].end >= begin:
                    begin = spans.pop().start
                spans.append(Span(begin, end))
            else:
                following = kept[index].start if index < len(kept) else len(text)
                if end < following and text[end] == " " and (not position or text[position - 1] == " "):
                    end += 1
                parts_words = text[position - 1 : position].isalnum() and text[end : end + 1].isalnum()
                edits.append((position, end, " " if parts_words else ""))
                tags.append(Tag(position, escaped(text[position:end], segment.escape)))
            position = end
        merged = sorted([*segment.tags, *tags], key=lambda tag: tag.at)
        spans.sort(key=lambda span: span.start)
        return Segment(text, tuple(spans), tuple(merged), segment.escape).edited(edits)

    def _instead(self, text: str, position: int, language: str) -> str | None:
        character = text[position]
        if (
            character == "&"
            and text[position - 1 : position] == " "
            and text[position + 1 : position + 2] == " "
        ):
            return _AND.get(language)
        new = _INSTEAD.get(character)
        if character == ";" and not text[position + 1 :].strip():
            return None  # the last mark is written back as it is
        if new is None:
            plain = without_accents(character)
            new = plain if plain != character and not plain.isspace() else None
        return new if new is not None and all(map(self.knows, new)) else None


def without_accents(text: str) -> str:
    """Take the accents off letters, and make ligatures and the like plain letters (NFKD)."""
    return "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))


def _is_within_word(text: str, position: int) -> bool:
    """Tell whether a sign stands between letters and is no sign that parts words: `R&D`."""
    around = text[position - 1 : position], text[position + 1 : position + 2]
    return text[position] not in "/|\\" and all(map(str.isalnum, around))


def _end_of_name(text: str, start: int, end: int, last: int) -> int:
    """Go on behind a word over others with capitals: `Thảo` is kept, and with it `Thảo Trần`."""
    following = _NAME_BEHIND.match(text, end, last) if text[start].isupper() else None
    if following is None:
        return end
    for word in following[0].split(" ")[1:]:
        if not word[0].isupper():
            break
        end += len(word) + 1
    return end


def _word_around(text: str, position: int, first: int, last: int) -> tuple[int, int]:
    start, end = position, position + 1
    while start > first and is_of_word(text[start - 1]):
        start -= 1
    while end < last and is_of_word(text[end]):
        end += 1
    return start, end
