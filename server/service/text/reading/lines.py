"""Lines of a plain text: what leads them, what of them is translated, and whether they may be wrapped.

Known are Markdown, subtitles (SRT, VTT, SSA), quoted mail, chat logs and tables; `records` knows files of
keys and values. What has no letters is copied.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from server.service.text.reading.records import Records

_BREAK = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
# Blanks before something else, looked at from the first one only: from each it would take quadratic time.
BLANKS_BEFORE = r"(?:(?<![ \t])[ \t]++)?+"
# Breaks that are written as characters: HTML, subtitles of SSA.
_SOFT_BREAK = re.compile(
    rf"{BLANKS_BEFORE}(?:<br\s{{0,9}}/?>[ \t]*"
    rf"|(?:\\r)?\\[Nn](?=[^\W_]|\\[NnrRt\"]|[ \t]|[-–—¿¡\"'«“{{(*•]|$)[ \t]*)+"
)
WINDOWS_PATH = (
    r"(?:(?<!\w)[A-Za-z]:|%\w{1,60}%|(?<!\w)HK(?:EY_[A-Z_]{4,20}|LM|CU|CR)|\\{2,4}[\w.\-]{1,100})"
    r"\\[^\s<>\"|?*]{1,1000}"
)
_PATH = re.compile(WINDOWS_PATH)
# Branches and loops of templates (Jinja, Liquid, Twig, Handlebars, Mustache, ERB): what is on both sides of
# one is no sentence together.
_CONTROL = re.compile(
    BLANKS_BEFORE + r"(?:\{\{[~#/^]{1,2} ?[\w.@\" '=()-]{1,100}\}\}|\{\{~? ?else\b[^{}\n]{0,100}\}\}"
    r"|\{%[-~+]? ?(?:if|elif|elsif|else|unless|for|empty|case|when|block|blocktrans\w*|with|plural"
    r"|filter|macro|autoescape|comment|raw|end\w+)\b[^%\n]{0,200}%\}"
    r"|<%-? ?(?:if|elsif|else|end|unless|for|while|\}|[\w.@()]{1,60}\.each)\b[^%\n]{0,200}%>)[ \t]*"
)
_BLANKS = " \t\xa0\u3000\ufeff"
_LETTER = re.compile(r"[^\W\d_]")
_QUOTE = re.compile(r"[ \t]*(?:>[ \t]?)*")
_INDENT = re.compile(f"[{_BLANKS}]*")
_FENCE = re.compile(r"(?:[-*+]|\d{1,3}[.)])?[ \t]*(`{3,}+|~{3,}+)[^`]*$")
_MARK = re.compile(
    r"(?:(?P<sure>[-*+•‣◦▪■□●○◆◇★☆∙·✓✔✗☐☑☒→►♪♫#]|#{1,6}|\[[ xX]\]|:{3,}[ \t]*\w*|\[\^[^\]\s]{1,99}\]:|//+"
    r"|[-–—]{1,2}|:|\\item)(?=[ \t]|$)"
    r"|(?P<dash>[–—]|\[\*\]|-(?=[A-ZÀ-Þ¿¡\"“«]))"
    r"|(?!M\. |[A-Za-z]\. ?[A-Za-z]{1,2}\.)"  # `M. Dupont`, `z. B.`
    r"(?P<number>\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})(?:[.)]|\.\))(?=[ \t]|$)"
    r"|(?:[A-Z]:|\d{1,2}(?:\.\d{1,2}){1,4}\.?)(?=[ \t]+[A-ZÀ-Þ¿¡\"“„«])))[ \t\xa0]*"  # `A: Yes`, `1.2 Prices`
)
_FIRST = re.compile(r"\(?(?:[1ai][.)]+|[AI]\))|1\..*|.:")  # of a list, or alone in one
_TIMING = re.compile(r"\s*(?:\d+:)?\d\d?:\d\d[.,]\d{1,3}\s*-->\s*(?:\d+:)?\d\d?:\d\d[.,]\d{1,3}")
# Alone in its line, or before times.
_HEADER = re.compile(r"\ufeff?WEBVTT(?=[ \t]*(?:[\n\r]|\Z)|[ \t](?s:.*)-->)")
_NOTE = re.compile(r"(?:NOTE|STYLE|REGION)\b")
_STAMP = re.compile(
    r"(?:\[?\(?(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4}[T, ]{1,2})?\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,6})?"
    r"(?:Z|[ \u202f]?[AaPp]\.?[Mm]\.?|[+-]\d\d:?\d\d)?\)?\]?[ \t]*)(?:[-–|][ \t]*)?"
    r"(?:<[^<>\s]{1,40}>[ \t]*|[^\W\d_][\w.'-]{0,30}(?: [\w.'-]{1,30}){0,3}:[ \t]+)?"
)
_DATE = re.compile(r"\d[-./]\d{1,2}[-./]\d")
_CLOCK = re.compile(r"\d\d:\d\d(?::\d\d)?[ \t]+(?=[A-ZÀ-Þ])(?!Uhr|AM|PM|A\.M|P\.M|H\b|UTC|GMT|CES?T)")
_NICK = re.compile(
    r"(?:<[@+~ ]?[\w-]{1,30}>"
    r"|[^\W\d_][\w.'-]{0,30}(?: [\w.'-]{1,30}){0,2} [(\[]\d{1,2}:\d\d[^()\[\]]{0,12}[)\]]:)[ \t]+(?=\S)"
)
# Of a program's log, behind a time or in brackets: `WARN [main] com.acme.Shop - `.
_LEVEL = re.compile(
    r"(?:\[|(?<=[\d\])ZmM][ \t]))(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)(?!\w)"
    r"[\]:]{0,2}[ \t]+"
    r"(?:\[[\w.:-]{1,60}\][ \t]+)?(?:\w{1,60}(?:[.:]\w{1,60}){1,10}(?:[ \t]+-|:)[ \t]+|-[ \t]+)?"
)
_RULE = re.compile(r"(={2,}|[-+~]{3,}|(?:\*{3,}|#{3,})(?=[ \t]))[ \t]*(?=[^\W_])")  # `---- Message ----`
_SPEAKER = re.compile(r"[A-ZÀ-Þ][A-ZÀ-Þ .'’-]{1,24}:[ \t]+(?=\S)")
_SOUND = re.compile(r"(\([^\W\d_][^()\n]{0,60}\)|\[[^\W\d_][^\[\]\n]{0,60}\])[ \t]+(?=[^\W\d_]|[¿¡\"“])")
_DIALOGUE = re.compile(r"(?:Dialogue|Comment):[ \t]*(?:[^,\n]{0,100},){9}")
_SCRIPT = re.compile(r"^(?:\[Script Info\]|Dialogue:[ \t]*\d+,\d)", re.MULTILINE)
_TAGS = re.compile(
    r"(?:(?:</?[A-Za-z][\w:.-]*(?:\s+[\w:.-]+=(?:\"[^\"<>]*\"|'[^'<>]*'))*\s*/?>"
    r"|\[(?:/\w{1,20}|(?:align|center|indent|left|list|ol|quote|right|spoiler|table|tr|ul)(?:=[^\[\]]{0,200})?)\])\s*)+"
)
_FRAMES = re.compile(r"\{\d+\}\{\d+\}")
_HEADING_END = re.compile(r"[ \t]+(?:#+|\{#[^{}\s]{1,99}\})[ \t]*\Z")
_DEFINITION = re.compile(
    r"[ \t]{0,3}\[([^\[\]^][^\[\]]{0,198})\]:[ \t]*+(?:<[^<>]*>|#|(?=[^\s<]*(?:/|[#.:@]\w))[^\s<]++)"
    r"(?:[ \t]+(?:\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|\([^()]*\)))?$"
)
_CALLOUT = re.compile(r"\[![A-Za-z]+\][+-]?[ \t]*|(?:!!!|\?\?\?\+?) [a-z-]{1,30}(?:[ \t]+|$)")
_COMMAND = re.compile(
    r"\$ [^\s\d]|>>> \S|#!/|#include[ \t]*[<\"]|#(?:ifdef|endif)\b|<\?\w|<!\w"
    r"|\\(?:begin|end|include\w*|input|usepackage|documentclass|maketitle|tableofcontents|centering|newpage|label"
    r"|bibliography\w*)(?:[\[{][^\[\]{}\n]*[\]}])*$"
    # Stacks of calls; objects of JavaScript.
    r"|at [\w.$<>/]{1,200} ?\([^()\s]{1,200}\)$|File \"[^\"]{1,300}\", line \d"
    r"|(?:export default|module\.exports =|(?:export )?(?:const|let|var) \w{1,60} =)[^.?!]{0,60}[\[{(]$"
    r"|#define[ \t]+(?:[A-Z_]{2}|\w+(?:\(|[ \t]+[-\d(\"']\S*$))"
)
_CODE = re.compile(
    r"[;{}]$|^(?:[$%>] (?!\d)|@\w|import \w|from [\w.]+ import |def \w|class \w+[:({ ]|return\b"
    r"|(?:if|for|while|elif|else)\b.*[:{]$|(?:var|let|const|function|public|private|static|void|int) "
    r"|(?:echo|sudo|git|cd|npm|pip|apt|docker|curl|ls|mkdir) "
    r"|</?\w|\./|//|/\*|#)|\w\(.*\)|\S=\S|[=!<>]=|=>|->|&&|\|\||::| [-+*/%]?= |--\w"
)
_CELL_BREAK = re.compile(r"(?<!\\)\|")
_WITH_BARS = re.compile(r"`[^`]+`|\{\{[^{}]*\}\}|\$\{[^{}]*\}|<%[^%]*%>")
"""Code and placeholders, whose bars part no cells: `{{ price | currency }}`."""
_MOST_WITH_BARS = 200
_BOX = re.compile(r"\[[ xX]\]|\([ xX]\)|[☐☑☒]")
_COLUMN = re.compile(rf"\t+| {{3,}}|{BLANKS_BEFORE}\.{{5,}}[ \t]*")
# HTML in plain text: what is no part of a line.
_ELEMENT = re.compile(
    r"</?(?:p|div|ul|ol|li|dl|dt|dd|table|tr|td|th|thead|tbody|h[1-6]|option|select|section|header|footer|body|html"
    r"|blockquote|title|item|string|string-array|trans-unit|source|target|note)(?:\s[^<>]{0,500})?>|\t+| {3,}"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text, or a part of one that ends with `<br>`.

    Attributes:
        parts: start and end of what is translated, ascending; none if the line is copied.
        continues: whether it may continue the line before it.
        wraps: whether the next line may continue it.
        quote: how deep it is quoted.
        in_cue: whether it is the text of a subtitle.
    """

    parts: tuple[tuple[int, int], ...]
    continues: bool = False
    wraps: bool = False
    quote: int = 0
    in_cue: bool = False


_COPIED = Line(())


def read_lines(text: str) -> tuple[list[Line], frozenset[str]]:
    """Cut a text into lines.

    Args:
        text: any text.

    Returns:
        The lines, and the lower-case labels of the links that the text defines.
    """
    spans = []
    start = 0
    for match in _BREAK.finditer(text):
        spans.append((start, match.start()))
        start = match.end()
    spans.append((start, len(text)))
    return _Reader(text, spans).read()


class _Reader:
    """Goes through the lines once. For one thread."""

    def __init__(self, text: str, spans: list[tuple[int, int]]) -> None:
        self._text = text
        self._spans = spans
        self._records = Records(text, spans)
        self._references: set[str] = set()
        self._is_script = bool(_SCRIPT.search(text))
        self._is_markup = bool(re.match(r"\s*<[?!\w]", text))
        self._has_header = bool(_HEADER.match(text))
        self._fence = ""  # what closes the code that is being read
        self._until_blank = False  # in a header or a note of subtitles
        self._in_cue = False
        self._in_code = False  # indented
        self._last: Line | None = None  # None behind an empty line
        self._is_open = False  # whether the line before has no final mark

    def read(self) -> tuple[list[Line], frozenset[str]]:
        lines: list[Line] = []
        for index, (start, end) in enumerate(self._spans):
            end = self._trimmed(start, end)
            found = self._line(index, start, end)
            lines += found
            self._last = found[-1] if end > start else None
            self._is_open = self._text[end - 1 : end] not in ".!?…:;" if end > start else False
        return lines, frozenset(self._references)

    def _trimmed(self, start: int, end: int) -> int:
        """Leave out blanks at the end, and the backslash of a hard break of Markdown."""
        line = self._text[start:end].rstrip(_BLANKS)
        is_break = line.endswith("\\") and end < len(self._text) and line[-2:-1].isalnum()
        return start + len(line) - is_break

    def _line(self, index: int, start: int, end: int) -> list[Line]:
        text = self._text
        content = text[start:end]
        if self._fence or start == end:
            return [self._in_fence(content)]
        if _TIMING.match(content):
            self._in_cue, self._until_blank = True, False
            return [_COPIED]
        if self._until_blank or (index == 0 and self._has_header) or self._is_head(index, content):
            self._until_blank = self._until_blank or not self._in_cue
            return [_COPIED]
        records = None if self._is_script else self._records.parts(index)
        if records is not None:
            return [Line(tuple((a, b) for a, b in records if _LETTER.search(text, a, b)))]
        quote = _QUOTE.match(text, start, end)
        body = quote.end() if quote else start
        depth = text.count(">", start, body)
        fence = _FENCE.match(text, body, end)
        if fence:
            self._fence = fence[1]
            return [_COPIED]
        if text[body:end] == "$$":
            self._fence = "$$"
            return [_COPIED]
        definition = _DEFINITION.match(text, body, end)
        if definition:
            self._references.add(definition[1].strip().lower())
            return [_COPIED]
        if (
            not _LETTER.search(text, body, end)
            or _COMMAND.match(text, body, end)
            or self._is_code(start, body, end)
        ):
            return [_COPIED]
        return self._text_line(body, end, depth)

    def _in_fence(self, content: str) -> Line:
        if not content:
            self._in_cue = self._until_blank = False
        elif self._fence:
            core = content.lstrip(" \t>")
            if core.startswith(self._fence) and not core.strip(self._fence[0]):
                self._fence = ""
        return _COPIED

    def _is_head(self, index: int, content: str) -> bool:
        """Whether a line is the number or name of a subtitle, or a note between them."""
        if index + 1 < len(self._spans) and self._last is None:
            start, end = self._spans[index + 1]
            if _TIMING.match(self._text[start : min(end, start + 80)]):
                self._in_cue = True
                return True
        return bool(self._last is None and self._has_header and _NOTE.match(content))

    def _is_code(self, start: int, body: int, end: int) -> bool:
        indent = self._text[start:body].replace("\t", "    ")
        content = self._text[body:end]
        stripped = content.lstrip()
        deep = len(indent) + len(content.replace("\t", "    ")) - len(stripped) >= 4 and content != stripped
        if not deep and not indent.endswith("    "):
            self._in_code = False
        elif self._in_code or self._last is None or not self._last.parts:
            is_element = self._is_markup and stripped.startswith("<")
            self._in_code = (
                not is_element and bool(_CODE.search(stripped[:500])) and not _MARK.match(stripped)
            )
        return self._in_code

    def _text_line(self, body: int, end: int, depth: int) -> list[Line]:
        text = self._text
        if (self._is_script and not _DIALOGUE.match(text, body, end)) or _TAGS.fullmatch(text, body, end):
            return [_COPIED]
        begin, marked, heading = self._lead(body, end)
        if heading:
            tail = _HEADING_END.search(text, max(begin, end - 120), end)
            end = tail.start() if tail else end
        music = 0
        while end > begin and text[end - 1] in "♪♫ \t":
            end, music = end - 1, music + 1
        begin, end = self._within_rule(begin, end)
        cells = _between_controls(text, begin, end) or _cells(text, begin, end)
        if cells is not None:
            return [Line(tuple((a, b) for a, b in cells if _LETTER.search(text, a, b)))]
        if not _LETTER.search(text, begin, end):
            return [_COPIED]
        lines = []
        sound = _SOUND.match(text, begin, end) if self._in_cue else None
        if sound:
            lines.append(Line((sound.span(1),), not marked))
            begin = sound.end()
        for number, (a, b) in enumerate(_soft_parts(text, begin, end)):
            continues = number > 0 or not (marked or sound)
            lines.append(Line(((a, b),), continues, not heading, depth, self._in_cue))
        return lines

    def _within_rule(self, begin: int, end: int) -> tuple[int, int]:
        """Take dashes and the like off both ends of a line, and off speech that breaks off in a subtitle."""
        text = self._text
        rule = _RULE.match(text, begin, end)
        if rule:
            last = len(text[rule.end() : end].rstrip(text[begin]))
            if rule.end() + last <= end - 2:
                return rule.end(), rule.end() + len(text[rule.end() : rule.end() + last].rstrip())
        if self._in_cue:
            body = text[begin:end].rstrip("-–—")
            end = begin + len(body)
            begin = end - len(body.lstrip("-")) if body.startswith("--") else begin
        return begin, end

    def _lead(self, body: int, end: int) -> tuple[int, bool, bool]:
        """Skip indentation and marks; say whether there were any, and whether they make a heading."""
        text = self._text
        indent = _INDENT.match(text, body, end)
        begin = indent.end() if indent else body
        marked = heading = False
        callout = _CALLOUT.match(text, begin, end)
        if callout:
            begin, marked = callout.end(), True
        while (mark := _MARK.match(text, begin, end)) and mark.end() > begin:
            sign = mark[0].strip()
            if (mark["number"] and not marked and self._is_amid(sign)) or (mark["dash"] and marked):
                break
            heading = heading or sign.startswith("#")
            begin, marked = mark.end(), True
        level = _LEVEL.match(text, begin, end)
        if level and _LETTER.search(text, level.end(), end):
            return level.end(), True, heading
        speaker = _SPEAKER.match(text, begin, end) if self._in_cue else None
        if speaker and not text[speaker.end() : end].isupper():
            return speaker.end(), True, False
        for pattern in (_DIALOGUE, _FRAMES, _STAMP, _CLOCK, _NICK):
            found = pattern.match(text, begin, end)
            if (
                found
                and _LETTER.search(text, found.end(), end)
                and not (pattern is _STAMP and not _is_stamp(found[0]))
            ):
                level = _LEVEL.match(text, found.end(), end)
                return (level or found).end(), True, False
        return begin, marked, heading

    def _is_amid(self, sign: str) -> bool:
        """Whether what looks like the number of a list is inside of wrapped text: `5. Mai`."""
        last = self._last
        return bool(
            last and self._is_open and not _FIRST.fullmatch(sign) and (last.continues or not last.parts)
        )


def _is_stamp(stamp: str) -> bool:
    """Whether a time leads a line of a log: in brackets, behind a date or before a name."""
    core = stamp.strip()
    return core[:1] in "[(" or core[-1:] in ":>-–|]" or bool(_DATE.search(core))


def _soft_parts(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    paths: list[tuple[int, int]] | None = None
    for match in _SOFT_BREAK.finditer(text, begin, end):
        if paths is None:
            paths = [path.span() for path in _PATH.finditer(text, begin, end)]
        if any(first <= match.start() < last for first, last in paths):
            continue  # `C:\new`
        if _LETTER.search(text, begin, match.start()) and _LETTER.search(text, match.end(), end):
            yield begin, match.start()
            begin = match.end()
    yield begin, end


def _between_controls(text: str, begin: int, end: int) -> list[tuple[int, int]]:
    """Cut a line at the branches and loops of a template; empty if it has none, or has one in a tag."""
    parts = []
    if "{{" in text[begin:end] or "%" in text[begin:end]:
        for match in _CONTROL.finditer(text, begin, end):
            if text.rfind("<", begin, match.start()) > text.rfind(">", begin, match.start()):
                return []
            parts.append((begin, match.start()))
            begin = match.end()
    return [*parts, (begin, end)] if parts else []


def _cells(text: str, begin: int, end: int) -> list[tuple[int, int]] | None:
    """Cut a row of a table, or columns; None if a line is neither."""
    row = text[begin:end]
    bars = [match.start() for match in _CELL_BREAK.finditer(row)]
    if bars and (row.startswith("|") or any(row[at - 1 : at + 2] == " | " for at in bars)):
        kept = [match.span() for match in islice(_WITH_BARS.finditer(row), _MOST_WITH_BARS)]
        bars = [at for at in bars if not any(a < at < b for a, b in kept)]
        borders = [(at, at + 1) for at in bars]
    elif any(box in text[max(0, begin - 4) : end] for box in ("[ ]", "( )", "☐")):
        borders = [match.span() for match in _BOX.finditer(row)]
    else:
        borders = [match.span() for match in (_ELEMENT if "</" in row else _COLUMN).finditer(row)]
    if not borders:
        return None
    cells = []
    for a, b in zip([0, *(b for _, b in borders)], [*(a for a, _ in borders), len(row)], strict=True):
        cell = row[a:b]
        core = cell.strip(_BLANKS)
        start = begin + a + len(cell) - len(cell.lstrip(_BLANKS))
        cells.append((start, start + len(core)))
    return cells
