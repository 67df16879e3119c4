"""Inline marks of a block: Markdown, BBCode, HTML, subtitle and game tags in plain text.

Emphasis follows the delimiter rules of CommonMark 0.31 (section 6.2), but one mark is one pair: what does not
pair stays text. No Markdown parser for Python tells where inline marks are, so they are found here.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from server.service.text.detection.word_lists import words
from server.service.text.protection.patterns import MATH
from server.service.text.reading.emphasis import Run, pair_runs
from server.service.text.reading.lines import WINDOWS_PATH
from server.service.text.segment import Segment, Span, Tag

_ATTRIBUTES = r"(?:\s+[^\s\"'<>/=]+(?:\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=/]+))?)*"
_VALUE = r"(?:=(?:\"[^\"<>\n]{0,100}\"|[^\s\"'<>/]{1,60}))?"  # `<color=#f00>`, as games have it
_TOKEN = re.compile(
    r"(?P<tex>\\(?:emph|enquote|text(?:[bimrsu][a-z])?|underline|(?:sub){0,2}section|chapter|(?:sub)?paragraph|title"
    r"|caption|footnote)\*?\{|``(?=[^\s`][^`\n]{0,500}''(?!`)))"
    r"|(?P<code>`+)"
    r"|(?P<comment><!--)"
    r"|(?P<auto><(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]{1,2000}|[^\s<>@/]{1,200}@[^\s<>@]{1,200})>)"
    rf"|(?P<tag><(?P<slash>/?)(?P<name>[A-Za-z][A-Za-z0-9.:_-]{{0,40}}|\d{{1,4}}){_VALUE}{_ATTRIBUTES}\s*(?P<empty>/?)>)"
    r"|(?P<bbcode>\[(?P<ends>/?)(?P<code_name>[A-Za-z]{1,20})(?P<value>=[^\[\]\n]{1,200}"
    r"|(?:\s+[a-z_-]{1,30}=(?:\"[^\"\[\]\n]{0,200}\"|[^\s\"\[\]]{1,60})){1,10})?\s*/?\])"
    r"|(?P<lone><\d\d[\d:.]{3,12}>|<!\[CDATA\[|\]\]>|\\\^|(?<=[.?!…])\\[!.|]"
    r"|(?<=[\w.,}])~?\\(?:cite[a-z]{0,10}|label|index)\*?(?:\[[^\[\]\n]{0,200}\])?\{[^{}\n]{0,200}\})"
    r"|(?P<override>\{\\[^{}\n]{1,300}\})"
    rf"|(?P<skip>{MATH}|{WINDOWS_PATH}"
    r"|(?:https?://|ftp://|www\.)[^\s<>()\[\]*]{1,2000}|\{\{?[^{}\s]{1,100}\}\}?|__[A-Z][A-Z0-9_]*__|\*\|[^|*\n]{1,80}\|\*)"
    r"|(?P<span>(?<![^\W_])[^\W_]+(?:\\[_*~][^\W_]+)+|\[\[[^\[\]\n]{1,300}\]\])"
    r"|(?P<escape>\\[\\`*_\[\]#~<>|\"])"
    r"|(?P<note>\[\^[^\]\[\s]{1,100}\])"
    r"|(?P<open>(?:!(?!\[/))?\[)|(?P<close>\])"
    r"|(?P<run>\*+|_+|~+|(?<!')'{3}(?!')|(?<!=)==(?!=))"
)
_BBCODE_END = re.compile(r"\[/([A-Za-z]{1,20})\]")
_TARGET = re.compile(
    r"\(\s*+(?:<[^<>\n]{0,2000}>|[^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)"
    r"(?:(?:\s++|(?<=\s))(?:\"[^\"]{0,500}\"|'[^']{0,500}'))?\s*+\)"
)
_REFERENCE = re.compile(r"\[([^\[\]]{0,200})\]")
_PLAIN = re.compile(r"[`<{\\\[*_~]|'''|==")
_VERBATIM = frozenset(["code", "kbd", "samp", "tt", "var", "pre", "script", "style", "math", "svg"])
_ALONE = frozenset(["br", "hr", "img", "wbr", "input"])
_ELEMENTS = _ALONE | words(
    "a abbr acronym b bdi bdo big blockquote button c center cite del details dfn div em font g h1 h2"
    " h3 h4 h5 h6 i ins label lang li mark mrk ol option p q rp rt ruby s section small span strike"
    " strong sub summary sup table td th time tr u ul v"
)
# Of XLIFF: each stands for something of the source document, a word or a mark.
_STANDS_FOR = frozenset(["x", "ph", "bx", "ex", "bpt", "ept", "it"])
_TEX_MARK = re.compile(r"\\.|[{}]|``|''")
_OVERRIDE = re.compile(r"\{\\([ibus])([01])\}")
_DEPTH = 100  # how many open brackets and elements are looked at


@dataclass(slots=True)
class _Mark:
    """A part of the source that becomes a tag, or a span whose text is `start + lead : end - trail`."""

    start: int
    end: int
    pair: int = -1
    opens: bool = False
    span: bool = False
    lead: int = 0
    trail: int = 0


def read_inline(
    source: str,
    breaks: Sequence[tuple[int, int]],
    references: Collection[str],
    number: Callable[[], int],
) -> Segment:
    """Turn a block into text, tags and spans. Time is linear but for deep nesting, which is cut off.

    Args:
        source: the block as it stands in the document.
        breaks: start and end of the line breaks in it, with all that stands between the last word of a line
            and the first one of the next; disjoint, ascending. Each becomes a space and a tag.
        references: lower-case labels of links that are defined in the document.
        number: gives a new number for a pair of tags.

    Returns:
        Text that with tags and outputs of spans at their offsets gives the source, but for the spaces that
        stand for breaks.
    """
    if not _PLAIN.search(source):
        return _assembled(source, [], breaks)
    blank = source
    if breaks:  # what leads a line is no mark of the text
        parts: list[str] = []
        position = 0
        for start, end in breaks:
            parts += source[position:start], " " * (end - start)
            position = end
        blank = "".join([*parts, source[position:]])
    return _assembled(source, _Scanner(blank, references, number).scan(), breaks)


def _assembled(source: str, marks: Sequence[_Mark], breaks: Sequence[tuple[int, int]]) -> Segment:
    spans: list[Span] = []
    tags: list[Tag] = []
    text: list[str] = []
    length = position = 0

    def copy(end: int) -> None:
        nonlocal length, position
        text.append(source[position:end])
        length += end - position
        position = end

    events = [
        *((start, end, None) for start, end in breaks),
        *((mark.start, mark.end, mark) for mark in marks),
    ]
    for start, end, mark in sorted(events, key=lambda event: event[:2]):
        if start < position:
            continue  # a break inside of a mark
        copy(start)
        raw = source[start:end]
        position = end
        if mark is None:
            glue = (
                "" if _is_unspaced(source[start - 1 : start]) and _is_unspaced(source[end : end + 1]) else " "
            )
            text.append(glue)
            length += len(glue)
            tags.append(Tag(length, raw))
        elif mark.span:
            inner = raw[mark.lead : len(raw) - mark.trail]
            spans.append(Span(length, length + len(inner), None if inner == raw else raw))
            text.append(inner)
            length += len(inner)
        else:
            tags.append(Tag(length, raw, mark.pair, mark.opens))
    copy(len(source))
    return Segment("".join(text), tuple(spans), tuple(tags))


def cut_at_links(segment: Segment) -> list[Segment]:
    """Cut a row of links and pictures, which is no sentence: two or more that have all the words.

    Args:
        segment: a block.
    """
    text, inside, position = segment.text, -1, 0
    borders = []
    for tag in segment.tags:
        if inside < 0 and any(map(str.isalnum, text[position : tag.at])):
            return [segment]
        position = tag.at
        if inside < 0 and tag.opens and tag.output in ("[", "!["):
            inside = tag.pair
            borders.append(tag.at)
        elif tag.closes and tag.pair == inside:
            inside = -1
    if len(borders) < 2 or any(map(str.isalnum, text[position:])):
        return [segment]
    return segment.cut(sorted(set(borders) - {0, len(text)}))


def _is_unspaced(char: str) -> bool:
    """Whether a character is of a script without spaces: Chinese, Japanese."""
    return "\u2e80" <= char <= "\uabff" or "\uf900" <= char <= "\ufaff" or "\uff00" <= char <= "\uffef"


class _Scanner:
    """Finds the marks of one block. For one thread."""

    def __init__(self, source: str, references: Collection[str], number: Callable[[], int]) -> None:
        self._source = source
        self._references = references
        self._number = number
        self._marks: list[_Mark] = []
        self._runs: list[Run] = []
        self._brackets: list[tuple[int, int]] = []
        self._elements: list[tuple[str, _Mark]] = []
        self._ticks: dict[int, list[int]] = defaultdict(list)
        self._no_comment = False
        for match in re.finditer("`+", source):
            self._ticks[len(match[0])].append(match.start())
        self._bbcode_ends: dict[str, list[int]] = defaultdict(list)
        for match in _BBCODE_END.finditer(source):
            self._bbcode_ends[match[1].lower()].append(match.start())

    def scan(self) -> list[_Mark]:
        """Find all marks, ascending and disjoint; pairs do not cross."""
        position = 0
        while match := _TOKEN.search(self._source, position):
            position = self._token(match)
        for name, mark in self._elements:  # never closed
            stands_alone = name in _ELEMENTS or "=" in self._source[mark.start : mark.end]
            mark.opens, mark.pair = False, -1 if stands_alone else -2
        emphasis: set[int] = set()
        for opener, closer in pair_runs(self._runs):
            pair = self._number()
            emphasis.add(pair)
            self._marks += _Mark(*opener, pair, opens=True), _Mark(*closer, pair)
        return _without_crossing([mark for mark in self._marks if mark.pair > -2], emphasis)

    def _token(self, match: re.Match[str]) -> int:
        """Take one token; return where to go on."""
        kind, start, end = match.lastgroup or "", match.start(), match.end()
        if kind == "code":
            return self._code(start, end)
        if kind == "tex":
            self._tex(start, end)
        elif kind == "comment":
            found = -1 if self._no_comment else self._source.find("-->", end)
            self._no_comment = found < 0
            end = end if found < 0 else found + 3
            if found >= 0:
                self._marks.append(_Mark(start, end))
        elif kind in ("auto", "span"):
            self._marks.append(_Mark(start, end, span=True))
        elif kind in ("lone", "escape", "note"):
            self._marks.append(_Mark(start, end))
        elif kind == "override":
            switch = _OVERRIDE.fullmatch(match[0])
            self._element(
                f"\\{switch[1]}" if switch else "", start, end, closes=bool(switch and switch[2] == "0")
            )
        elif kind == "tag":
            return self._tag(match)
        elif kind == "bbcode":
            return self._bbcode(match)
        elif kind == "open":
            self._brackets = [*self._brackets[-_DEPTH:], (start, end)]
        elif kind == "close":
            return self._close(start, end)
        elif kind == "run":
            self._runs.append(Run.of(self._source, start, end))
        return end

    def _code(self, start: int, end: int) -> int:
        places = self._ticks[end - start]
        index = bisect_left(places, end)
        if index == len(places):
            return end
        close = places[index]
        self._marks.append(_Mark(start, close + end - start, span=True, lead=end - start, trail=end - start))
        return close + end - start

    def _tex(self, start: int, end: int) -> None:
        """Make a pair of a command of TeX and its last brace, or of the quotes of TeX."""
        if closing := self._tex_ends.get(end):
            pair = self._number()
            self._marks += _Mark(start, end, pair, opens=True), _Mark(*closing, pair)

    @cached_property
    def _tex_ends(self) -> dict[int, tuple[int, int]]:
        """Where the braces and quotes of TeX end, by the offset behind those that open them."""
        opened: list[tuple[str, int]] = []
        ends = {}
        for match in _TEX_MARK.finditer(self._source):
            if match[0] in ("{", "``"):
                opened.append((match[0], match.end()))
            elif match[0] == "}":
                while opened and opened[-1][0] != "{":  # quotes do not reach out of braces
                    opened.pop()
                if opened:
                    ends[opened.pop()[1]] = match.span()
            elif match[0] == "''" and opened and opened[-1][0] == "``":
                ends[opened.pop()[1]] = match.span()
        return ends

    def _tag(self, match: re.Match[str]) -> int:
        name, start, end = match["name"].lower(), match.start(), match.end()
        closes = bool(match["slash"])
        if name in _VERBATIM and not closes and not match["empty"]:
            close = re.compile(f"</{name}\\s*>", re.IGNORECASE).search(self._source, end, end + 20_000)
            if close:
                self._marks.append(
                    _Mark(start, close.end(), span=True, lead=end - start, trail=close.end() - close.start())
                )
                return close.end()
        if match["empty"] or name in _ALONE:
            beside = self._source[start - 1 : start] + self._source[end : end + 1]
            may_stand_for_a_word = name in _STANDS_FOR or name.isdigit()
            stands_for_a_word = may_stand_for_a_word and not any(char.isalnum() for char in beside)
            self._marks.append(_Mark(start, end, span=stands_for_a_word))
        else:
            base = name.partition(".")[0]  # classes of a VTT cue
            self._element(base if base in _ELEMENTS else name, start, end, closes=closes)
        return end

    def _bbcode(self, match: re.Match[str]) -> int:
        """Take `[b]` if a `[/b]` follows, and `[img id="3"]` alone; other brackets are text or a link's."""
        name, start, end = match["code_name"].lower(), match.start(), match.end()
        if match["ends"]:
            self._element(f"[{name}", start, end, closes=True)
            return end
        closes = self._bbcode_ends[name]
        index = bisect_left(closes, end)
        if index < len(closes) and name in _VERBATIM:
            close = closes[index]
            behind = close + len(name) + 3
            self._marks.append(_Mark(start, behind, span=True, lead=end - start, trail=behind - close))
            return behind
        if index < len(closes):
            self._element(f"[{name}", start, end, closes=False)
        elif match["value"] and match["value"][0] != "=":
            self._marks.append(_Mark(start, end))
        else:
            self._brackets = [*self._brackets[-_DEPTH:], (start, start + 1)]
            return start + 1
        return end

    def _element(self, name: str, start: int, end: int, *, closes: bool) -> None:
        mark = _Mark(start, end, opens=not closes and bool(name))
        if not closes:
            if name:
                self._elements.append((name, mark))
            self._marks.append(mark)
            return
        for index in range(len(self._elements) - 1, max(-1, len(self._elements) - _DEPTH), -1):
            if self._elements[index][0] == name:
                opener = self._elements.pop(index)[1]
                opener.pair = mark.pair = self._number()
                self._marks.append(mark)
                return
        if name in _ELEMENTS or name.startswith("\\"):
            self._marks.append(mark)

    def _close(self, start: int, end: int) -> int:
        """Make a link, an image or a reference of two brackets."""
        if not self._brackets:
            return end
        opener = self._brackets.pop()
        label = self._source[opener[1] : start].strip().lower() if start - opener[1] <= 200 else ""
        target = _TARGET.match(self._source, end) or _REFERENCE.match(self._source, end)
        is_known = bool(label) and label in self._references
        if target and not (is_known and target[0] == "[]"):
            pair = self._number()
            self._marks += _Mark(*opener, pair, opens=True), _Mark(start, target.end(), pair)
            return target.end()
        if is_known:  # the label is what the link is found by
            end = target.end() if target else end
            while self._marks and self._marks[-1].start >= opener[0]:
                self._marks.pop()
            while self._runs and self._runs[-1].start >= opener[0]:
                self._runs.pop()
            self._marks.append(_Mark(opener[0], end, span=True))
        return end


def _without_crossing(marks: list[_Mark], emphasis: Collection[int]) -> list[_Mark]:
    """Drop pairs that cross another one, first of all emphasis; their characters stay text."""
    marks.sort(key=lambda mark: (mark.start, mark.end))
    open_pairs: list[int] = []
    crossing: set[int] = set()
    for mark in marks:
        if mark.pair < 0:
            continue
        if mark.opens:
            open_pairs.append(mark.pair)
        elif open_pairs and open_pairs[-1] == mark.pair:
            open_pairs.pop()
        elif mark.pair in open_pairs[-_DEPTH:]:
            index = len(open_pairs) - 1 - open_pairs[: -_DEPTH - 1 : -1].index(mark.pair)
            within = open_pairs[index + 1 :]
            if mark.pair in emphasis and not all(pair in emphasis for pair in within):
                crossing.add(open_pairs.pop(index))
            else:
                crossing.update(within)
                del open_pairs[index:]
    return [mark for mark in marks if mark.pair not in crossing]
