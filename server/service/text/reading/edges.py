"""What stands around a sentence and is none of it: white space, brackets, bullets, tags around all of it."""

import re
from collections import Counter
from dataclasses import dataclass, replace

from server.service.text.protection.writing import escaped, write
from server.service.text.segment import Segment

_PAIRS = dict(zip('([{“„«‹‘"»‚', ')]}”“»›’"«‘', strict=True))
# In front of a sentence, before a space.
_BULLETS = frozenset("-–—•·*>|»+~=#→:;,./\\<")
_POINTS = re.compile(r"(?:\.{2,4}|…)\s*(?=[^\W\d_])")
"""Of a sentence that goes on: `...and then he left.`"""


@dataclass(frozen=True, slots=True)
class Framed:
    """A sentence and what is written around its translation.

    Attributes:
        before: written before it.
        core: to be translated; its text is empty if there is nothing.
        behind: written behind it.
    """

    before: str
    core: Segment
    behind: str


def frame(segment: Segment) -> Framed:
    """Take off what can be copied at both ends of a sentence.

    Args:
        segment: a sentence with the white space around it.

    Returns:
        Its parts; written one after the other they are the segment, but that white space at an end changes
        places with tags that open or close there.
    """
    if not segment.tags and not segment.spans:
        text, core = segment.text, segment.text.strip()
        if core[:1].isalnum():  # most sentences: nothing but white space around them
            first = text.index(core)
            before, behind = text[:first], text[first + len(core) :]
            inner_segment = segment if len(core) == len(text) else replace(segment, text=core)
            return Framed(escaped(before, segment.escape), inner_segment, escaped(behind, segment.escape))
    ends = _Ends(segment)
    ends.shrink()
    first, last, tags = ends.start, ends.end, segment.tags
    inner = tuple(
        replace(tag, at=min(max(tag.at, first), last) - first) for tag in tags[ends.front : ends.back + 1]
    )
    spans = tuple(
        replace(span, start=span.start - first, end=span.end - first)
        for span in segment.spans
        if first <= span.start and span.end <= last
    )
    if first == last:
        inner, spans = (), ()
        front, back = tags, tags[:0]
    else:
        front, back = tags[: ends.front], tags[ends.back + 1 :]
    return Framed(
        write(segment.text, segment.spans, [(tag.at, tag) for tag in front], segment.escape, 0, first),
        Segment(segment.text[first:last], spans, inner, segment.escape),
        write(segment.text, segment.spans, [(tag.at, tag) for tag in back], segment.escape, last),
    )


class _Ends:
    """Two offsets and two tags that move towards each other."""

    def __init__(self, segment: Segment) -> None:
        self.text, self.tags = segment.text, segment.tags
        self.start, self.end = 0, len(segment.text)
        self.front, self.back = 0, len(segment.tags) - 1
        counts = Counter(tag.pair for tag in segment.tags)
        self.alone = [tag.pair < 0 or counts[tag.pair] < 2 for tag in segment.tags]
        self.first_span = segment.spans[0].start if segment.spans else len(segment.text)
        self.last_span = segment.spans[-1].end if segment.spans else 0

    def shrink(self) -> None:
        while self.start < self.end and (self._space() or self._tags() or self._marks()):
            pass

    def _space(self) -> bool:
        start, end = self.start, self.end
        while self.start < end and self.text[self.start].isspace() and self.start < self.first_span:
            self.start += 1
        while self.end > self.start and self.text[self.end - 1].isspace() and self.end > self.last_span:
            self.end -= 1
        return (start, end) != (self.start, self.end)

    def _tags(self) -> bool:
        if self.front > self.back:
            return False
        if count := self._empty(self.front, 1):
            self.front += count
        elif count := self._empty(self.back, -1):
            self.back -= count
        elif self._is_outside(self.front, 1) and self._is_pair(self.front, self.back, -1):
            self.front, self.back = self.front + 1, self.back - 1
        else:
            return False
        return True

    def _empty(self, index: int, step: int) -> int:
        """Count the tags beyond an end that hold nothing: one that stands alone, or two side by side."""
        if not self._is_outside(index, step):
            return 0
        if self.alone[index]:
            return 1
        return 2 if self._is_pair(index, index + step, step) else 0

    def _is_pair(self, index: int, other: int, step: int) -> bool:
        is_pair = self.front < self.back and self.tags[index].pair == self.tags[other].pair
        return is_pair and self._is_outside(other, step)

    def _is_outside(self, index: int, step: int) -> bool:
        """Tell whether a tag stands before the start, or behind the end if the step is back."""
        at = self.tags[index].at
        return at <= self.start if step > 0 else at >= self.end

    def _marks(self) -> bool:
        """Brackets and quotes around all of it, and bullets and points before it."""
        if self.front <= self.back and (
            self.tags[self.front].at <= self.start or self.tags[self.back].at >= self.end
        ):
            return False
        text, start, end = self.text, self.start, self.end
        if start >= self.first_span or (end <= self.last_span and self.last_span):
            return False
        if text[start] in _BULLETS and start + 1 < end and text[start + 1] == " ":
            self.start += 1
            return True
        if points := _POINTS.match(text, start, end):
            self.start = points.end()
            return True
        closing = _PAIRS.get(text[start])
        if closing is None or end - start < 3 or text[end - 1] != closing:
            return False
        inside = text[start + 1 : end - 1]
        if closing in inside or text[start] in inside:
            return False
        self.start, self.end = start + 1, end - 1
        return True
