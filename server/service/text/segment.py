"""A piece of text on its way: plain text, what in it is not translated, and the marks on its words.

All offsets count characters of the plain text. A segment is a block (a paragraph, a list item, a table cell)
until it is cut into sentences, and a sentence from then on.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

# One by one: the empty string is none of them.
_LINE_BREAKS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
# Possessive, for linear time.
_USUAL = re.compile(r"(?:[A-Za-zÀ-ÖØ-öø-ž]++[,;]?[ '’\-]?)++[.!?]?")
Escape = Literal["none", "html", "attribute", "icu", "message"]


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a segment that comes back as it is.

    Attributes:
        start: offset of its first character.
        end: offset behind its last one.
        output: what is written in its place, markup and escapes included; None writes its text, escaped as
            the rest of the segment.
    """

    start: int
    end: int
    output: str | None = None


@dataclass(frozen=True, slots=True)
class Tag:
    """An inline mark between two characters: an HTML tag, Markdown's `**`, an emoji, an inner line break.

    Attributes:
        at: offset of the character that it stands before; the length of the text behind the last one.
        output: what is written, byte for byte. What begins with a line break, perhaps behind blanks, takes
            the place of a space.
        pair: number of the element, the same for its two tags; -1 for a mark that stands alone (`<br>`).
        opens: whether it begins its element.
    """

    at: int
    output: str
    pair: int = -1
    opens: bool = False

    @property
    def breaks_line(self) -> bool:
        """Whether it takes the place of the space before it: a line break, or that of SSA subtitles."""
        return self.output.lstrip(" \t\xa0\u3000")[:1] in _LINE_BREAKS or self.output.startswith("\\N")

    @property
    def closes(self) -> bool:
        """Whether it ends its element."""
        return self.pair >= 0 and not self.opens


@dataclass(frozen=True, slots=True)
class Segment:
    """Plain text with its spans and tags.

    Attributes:
        text: the characters; entities are decoded, markup is gone.
        spans: disjoint, ascending.
        tags: ascending by offset; those at one offset in the order of the source. An element may have only
            one of its tags here if a neighbor has the other one.
        escape: how text is written on its way back; see `writing.escaped`.
    """

    text: str
    spans: tuple[Span, ...] = ()
    tags: tuple[Tag, ...] = ()
    escape: Escape = "none"

    def cut(self, borders: Sequence[int]) -> list["Segment"]:
        """Cut at some offsets, which are inside of no span.

        A tag at a border goes with the characters that it belongs to: one that opens or stands alone with
        those behind it, one that closes with those before it.

        Args:
            borders: ascending, above 0 and below the length of the text.

        Returns:
            One part more than there are borders, with offsets of their own. Their texts joined give the text.
        """
        starts = [0, *borders]
        if len(starts) == 1:
            return [self]
        spans: list[list[Span]] = [[] for _ in starts]
        tags: list[list[Tag]] = [[] for _ in starts]
        for span in self.spans:
            part = bisect_right(starts, span.start) - 1
            shift = starts[part]
            spans[part].append(replace(span, start=span.start - shift, end=span.end - shift))
        behind = 0
        for tag in self.tags:
            part = bisect_right(starts, tag.at) - 1
            if part and tag.at == starts[part] and tag.closes and behind < part:
                part -= 1
            behind = part  # tags keep their order
            tags[part].append(replace(tag, at=tag.at - starts[part]))
        ends = [*borders, len(self.text)]
        return [
            Segment(self.text[start:end], tuple(spans[part]), tuple(tags[part]), self.escape)
            for part, (start, end) in enumerate(zip(starts, ends, strict=True))
        ]

    def edited(self, edits: Sequence[tuple[int, int, str]]) -> "Segment":
        """Replace characters and keep the offsets of everything else right.

        Args:
            edits: start, end and new text; disjoint, ascending, and none cuts into a span.

        Returns:
            The new segment. Tags that stood inside of a replaced part stand before what replaces it.
        """
        if not edits:
            return self
        to = moved_by(edits)
        return Segment(
            _replaced(self.text, edits),
            tuple(replace(span, start=to(span.start), end=to(span.end)) for span in self.spans),
            tuple(replace(tag, at=to(tag.at)) for tag in self.tags),
            self.escape,
        )

    def rewritten(self, pattern: re.Pattern[str], rewrite: Callable[[re.Match[str]], str]) -> "Segment":
        """Replace what a pattern finds outside of the spans.

        Args:
            pattern: what is looked for.
            rewrite: gives the new text of a match.

        Returns:
            The new segment; the same object if nothing changes.
        """
        index = 0
        edits: list[tuple[int, int, str]] = []
        for match in pattern.finditer(self.text):
            start, end = match.span()
            while index < len(self.spans) and self.spans[index].end <= start:
                index += 1
            if index < len(self.spans) and self.spans[index].start < end:
                continue
            new = rewrite(match)
            if new != match[0]:
                edits.append((start, end, new))
        return self.edited(edits)


@dataclass(frozen=True, slots=True)
class Target:
    """A translation of a segment before its tags are put in: text, and where the spans came to be.

    Attributes:
        text: plain text; a span stands in it with the text that it had in the source.
        spans: disjoint, ascending, in offsets of `text`; perhaps in another order than in the source.
    """

    text: str
    spans: tuple[Span, ...] = ()

    def edited(self, edits: Sequence[tuple[int, int, str]]) -> "Target":
        """Replace characters outside of the spans.

        Args:
            edits: start, end and new text; disjoint, ascending.

        Returns:
            The new translation; the same object without edits. What is put in before a span is none of it.
        """
        if not edits:
            return self
        to = moved_by(edits)
        spans = [replace(span, start=to(span.start + 1) - 1, end=to(span.end)) for span in self.spans]
        return Target(_replaced(self.text, edits), tuple(spans))


def _replaced(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    position = 0
    for start, end, new in edits:
        parts += text[position:start], new
        position = end
    return "".join([*parts, text[position:]])


def is_usual(text: str) -> bool:
    """Tell whether a text is words of Latin letters, commas and a final mark: most sentences are."""
    return _USUAL.fullmatch(text) is not None


def moved_by(edits: Sequence[tuple[int, int, str]]) -> Callable[[int], int]:
    """Make the map from offsets in a text to offsets after some edits.

    Args:
        edits: as for `Segment.edited`.
    """
    starts, shifts, shift = [], [0], 0
    for start, end, new in edits:
        starts.append(start)
        shift += len(new) - (end - start)
        shifts.append(shift)

    def to(offset: int) -> int:
        index = bisect_right(starts, offset - 1)  # edits that begin before it
        if index and offset < edits[index - 1][1]:
            return edits[index - 1][0] + shifts[index - 1]
        return offset + shifts[index]

    return to


def is_of_word(character: str) -> bool:
    """Tell whether a character is a letter, a digit, or a mark of a letter (Thai, Hindi, NFD)."""
    return character.isalnum() or unicodedata.category(character)[0] == "M"
