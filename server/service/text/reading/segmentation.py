"""Where sentences begin.

The rules are those of sentencex. What it gets wrong is mended: abbreviations, initials, ordinals, ellipses,
numbers of lists, closing marks and emoji, and its quadratic time on unclosed quotes.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal

import sentencex

from server.service.text.reading.abbreviations import Abbreviations, abbreviations

# The library's time grows with the square of what it is given.
_WINDOW = 8000
_CLOSERS = "\"'”’»›“」』）)\\]"
_MARKS = ".!?…"
# Before a full stop they make the library panic: `B\u00a0.`
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
# A mark, perhaps closed, white space, perhaps opened, a capital or a digit: all places that a rule may add.
_CANDIDATE = re.compile(
    f"[{_MARKS}][{_CLOSERS}]{{0,3}}\\s+(?=[\"'“„«»‹(\\[¿¡]{{0,3}}[^\\W_a-z])|[!?]{{2}}\\s+(?=\\w)"
)
# Without a space between them: `I went.She came.`, but not `System.Out`.
_GLUED_BEFORE = re.compile(r"\s[a-zß-ÿ]{2,20}[.!?]$")
_GLUED_AFTER = re.compile(r"[A-ZÀ-Þ][a-zß-ÿ]*[,']?\s+\w")
# Marks after which no space is written.
_UNSPACED = "。！？｡．؟۔।॥።၊။"
_ENUMERATOR = re.compile(r"\s*[(\[]?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})[.)]\s*")
_INNER_PHRASE = re.compile(
    r"(?:^|[\s(\[\"'“„«])(?:[zZ]\.\s?B|[dD]\.\s?h|[iI]\.\s?d\.\s?R|[iI]\.\s?[AV]|[uU]\.\s?[aU]|h\.\s?c|[pP]\.\s?ej|"
    r"[eE]\.\s?g|[iI]\.\s?e|[cC]\.-?[àa]-d|[pP]ar ex|[sS]\.\s?[uo]|[oO]\.\s?g|[vV]\.\s?a|P\.\s?D|N\.\s?B)\.$"
)
_FINAL_PHRASE = re.compile(
    r"(?:^|[\s(\[\"'“„«])(?:U\.\s?S(?:\.\s?A)?|U\.\s?K|E\.\s?U|EE\.\s?UU|(?:av|ap|apr)\. J\.-C|[ad]\.\s?C|"
    r"[vn]\. Chr|u\.\s?s\.\s?w|u\.\s?v\.\s?m|o\.\s?[äÄ]|Ph\.\s?D|[ABM]\.\s?[AS]c?)\.$"
)
_HALF_DAY = re.compile(r"(?:^|[\s\d(])[aApP]\.?\s?[mM]\.$")
_LONGEST_PART = 3
"""Letters before the last point of these phrases."""
_LONGEST_TOKEN = 30
_TOKEN = re.compile(rf"([^\s()\[\]\"'“”„«»’]{{0,{_LONGEST_TOKEN}}})\.$")
_INITIALS = re.compile(r"(?:[^\W\d_]\.-?)*[^\W\d_]")
_NEXT = re.compile(r"[\s\"'“„«»‹(\[¿¡*_]{0,8}(\w+)")
_ROMAN = re.compile(r"[IVXLC]{2,}")
_ELLIPSIS = re.compile(rf"(?:\.\.+|…)[{_CLOSERS}]{{0,3}}$")
_REPEATED = ("!!", "??", "!?", "?!")
"""Behind them a sentence begins, whatever its letters: `omg!!! i know`."""
_STOP_CLOSED = re.compile(rf"\.([{_CLOSERS}]{{1,3}})$")
# What follows a last mark and belongs to it: closing marks at once, symbols and emoji also after a space.
_TAIL = re.compile(
    f"(?:(?<=\\s)[”’»›」』）)\\]](?=\\s|$)|(?<!\\s)[{_CLOSERS}]{{1,3}})?"
    r"(?:\s*[^\w\s!-/:-@\[-`{-~¿¡‐-‧‹›«»⟨-⟫\u3000-\u303f]+)*\s*"
)
_LETTER_WORDS = frozenset("aàyoeuói")
_LOOK = 48
Verdict = Literal["border", "none", "unknown"]


def sentence_borders(text: str, language: str, kept: Sequence[tuple[int, int]] = ()) -> list[int]:
    """Find where sentences begin. Time is linear in the length of the text.

    Args:
        text: a block of text; line breaks in it are white space.
        language: ISO 639 code of its language; unknown ones and "" are split by general rules.
        kept: start and end of parts that are not cut, disjoint and ascending. They count as words.

    Returns:
        Offsets above 0 and below the length of the text, ascending, none inside of a kept part; the white
        space between two sentences goes with the first one.
    """
    words = abbreviations(language)
    masked = _masked(text, kept)
    found = set(_library_borders(masked, language))
    candidates = sorted(found | {match.end() for match in _CANDIDATE.finditer(masked)})
    kept_ends = {end: text[end - 1].isalpha() for _, end in kept}
    kept_starts = [start for start, _ in kept]
    borders: list[int] = []
    for candidate in candidates:
        start = borders[-1] if borders else 0
        if candidate <= start:
            continue
        verdict = _judge(masked, start, candidate, words, kept_ends)
        if verdict == "none" or (verdict == "unknown" and candidate not in found):
            continue
        border = _behind_tail(masked, candidate)
        index = bisect_right(kept_starts, border) - 1
        inside = index >= 0 and kept[index][0] < border < kept[index][1]
        if start < border < len(text) and not inside:
            borders.append(border)
    return borders


def _masked(text: str, kept: Sequence[tuple[int, int]]) -> str:
    """Put letters in the place of kept parts, but for those that are symbols only."""
    parts: list[str] = []
    position = 0
    for start, end in kept:
        part = text[start:end]
        is_word = any(char.isalnum() or char in _MARKS for char in part)
        parts += text[position:start], "Q" + "q" * (end - start - 1) if is_word and part else part
        position = end
    return "".join([*parts, text[position:]])


def _library_borders(text: str, language: str) -> Iterator[int]:
    text = _WIDE_SPACE.sub(" ", text)
    start = 0
    while start < len(text):
        end = _window_end(text, start)
        window = text[start:end]
        for boundary in sentencex.get_sentence_boundaries(language or "zz", window):
            border = start + boundary["end_index"]
            while border < len(text) and text[border].isspace():
                border += 1
            if border < end:
                yield border
            end = max(end, border)  # a long white space is walked through once
        start = end


def _window_end(text: str, start: int) -> int:
    """End a window behind a word, best where no sentence can end."""
    end = start + _WINDOW
    if end >= len(text):
        return len(text)
    for position in range(end, end - 1000, -1):
        if text[position].isspace() and text[position - 1].isalnum():
            return position
    return end


def _behind_tail(text: str, border: int) -> int:
    match = _TAIL.match(text, border)
    return match.end() if match else border


def _judge(text: str, start: int, border: int, words: Abbreviations, kept_ends: dict[int, bool]) -> Verdict:
    """Say whether a sentence begins somewhere, or that the library knows better."""
    before = text[max(start, border - _LOOK) : border]
    trimmed = before.rstrip()
    following = text[border : border + _LOOK]
    if not trimmed or (border - start <= 10 and _ENUMERATOR.fullmatch(text[start:border])):
        return "none"
    if len(trimmed) == len(before) and trimmed[-1] not in _UNSPACED:
        return _judge_glued(trimmed, following)
    match = _NEXT.match(following)
    word = match[1] if match else ""
    if _ELLIPSIS.search(trimmed):
        begins = word[:1].isupper() and (not words.ordinal_stops or word.lower() in words.starters)
        return "border" if begins and word not in ("I", "A") else "none"
    if trimmed[-2:] in _REPEATED:
        return "border"
    if not trimmed.endswith("."):
        closed = _STOP_CLOSED.search(trimmed)
        return "border" if closed and ")" in closed[1] and word[:1].isupper() else "unknown"
    ends_in_letter = kept_ends.get(border - (len(before) - len(trimmed)) - 1)
    if ends_in_letter is not None:
        if word[:1].isupper():
            return "border"
        return "none" if ends_in_letter else "unknown"  # `at 12 Main St. in Boston`
    return _judge_stop(trimmed, word, following, words)


def _judge_glued(before: str, following: str) -> Verdict:
    if following[:1] in _CLOSERS and _NEXT.match(following):
        return "unknown"  # the border moves behind what is closed
    if any(mark in before[-3:] for mark in _UNSPACED) or following[:1] > "\u2e80":
        return "unknown"  # scripts without spaces
    return "unknown" if _GLUED_BEFORE.search(before) and _GLUED_AFTER.match(following) else "none"


def _judge_stop(before: str, word: str, following: str, words: Abbreviations) -> Verdict:
    """Judge one full stop that a space follows."""
    first = word[:1]
    is_initial = following.startswith(f"{first}.")
    starts: Verdict = "none"
    if first.isupper() and word.lower() in words.starters and not is_initial:
        starts = "border"
    if not before[-_LONGEST_PART - 2 : -1].isalpha():  # all phrases end in a short part
        if _INNER_PHRASE.search(before):
            return "none"
        if _HALF_DAY.search(before):
            return "border" if first.isupper() else "none"
        if _FINAL_PHRASE.search(before):
            return starts
    found = _TOKEN.search(before, max(0, len(before) - _LONGEST_TOKEN - 1))
    token = found[1] if found else ""
    name = token.lower()
    if name == "no":
        return "none" if first.isdigit() else "border"
    if name in words.titles and (len(token) > 1 or token.isupper()):
        return "none"
    if name in words.numbered and (len(name) > 2 or first.isdigit() or not token.islower()):
        return starts
    if name in words.final:
        if not first.isupper():
            return "none"
        return "border" if starts == "border" or (name == "etc" and not words.ordinal_stops) else "unknown"
    if _INITIALS.fullmatch(token):
        return _judge_letter(token, first, starts, following)
    if token.isdigit() and words.ordinal_stops and len(token) <= 2:
        return starts
    if _ROMAN.fullmatch(token):
        return starts if words.ordinal_stops or not first.isupper() else "unknown"
    # The library takes `me.` and `mag.` for abbreviations.
    return "border" if starts == "border" and token.islower() else "unknown"


def _judge_letter(token: str, first: str, starts: Verdict, following: str) -> Verdict:
    """Judge initials and single letters."""
    if token[-1].isupper():
        return starts
    if token in _LETTER_WORDS and not re.match(r"\w\.", following):
        return "unknown"
    return "unknown" if first.isupper() else "none"
