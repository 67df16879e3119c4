"""The shape of a translation is that of its source: final mark, first letter, quotes, spaces.

A model writes sentences: it gives a list item a capital and a full stop. What the source has not is taken
away, what it has and the translation lost comes back.
"""

import re

from server.service.text.protection.symbols import QUOTES
from server.service.text.reading.abbreviations import abbreviations
from server.service.text.reading.segmentation import sentence_borders
from server.service.text.segment import Target, is_usual

_FINAL_MARKS = ".!?…:;,。！？"
_SPACE_BEFORE = {"fr": "?!:;"}
_OPENING_OF = {"es": {"?": "¿", "!": "¡"}}
_BEFORE_OPENING = f"{QUOTES}—–- '‘"
CAPITAL_NOUNS = frozenset({"de", "lb"})
"""Languages whose nouns have a capital, which then says nothing."""
_ALWAYS_CAPITAL = re.compile(r"(?:I|I'\w+|[A-Z]\w*[A-Z0-9]\w*)(?!\w)")
_BEGINS_WITH_I = re.compile(r"((?:<[^<>]{0,1000}>|[^\w<])*)I(?!\w)")
_BEGINS_SMALL = re.compile(r"(?:<[^<>]{0,1000}>|[^\w<])*[a-zß-ÿ]")
_INNER_STOP = re.compile(r"[.!?…]\s+\S")
# Where a translation may well end a sentence.
_INNER_END = re.compile(r"(?:[!?…;:–—]|\.\.)\s+\S|\.\s+[^\w\s]")
_TITLE_STOP = re.compile(
    r"\b(?:Herrn?|Frau|[Ss]eñor(?:a|ita)?|[Mm]adame|[Mm]onsieur|[Mm]ademoiselle)(\.)(?= [^\W\d_])"
)
"""A full stop of the source's `Mrs.`, behind a title that has none."""
_BEFORE_YEAR = re.compile(r"(\w{3,})\. (?=\d{4}(?!\d))")
_WORD = re.compile(r"\w+")
_LAST_WORD = re.compile(r"(?<!\w)\w{1,20}\Z")
_POLITE = frozenset({"sie", "ihr", "ihre", "ihren", "ihrem", "ihrer", "ihnen"})
"""German words that may have their capital for politeness."""
_QUOTES = re.compile(f"[{QUOTES}]")
_POINTS = (re.compile(r"…(?=\s*\S)"), re.compile(r"(?<!\.),? ?\.\.(?!\.)"))
"""What becomes of three points: one character, or two points, perhaps behind a comma."""


def shape(source: str, target: Target, source_language: str, target_language: str) -> Target:
    """Give a translation the shape of its source.

    Args:
        source: a sentence without white space at its ends.
        target: what the model made of it.
        source_language: its language.
        target_language: that of the translation.

    Returns:
        The translation; the same object if nothing is to be changed.
    """
    if not target.text:
        return target
    if not is_usual(target.text):
        inner = [
            *_quotes(source, target),
            *_three_points(source, target),
            *_inner_stops(source, target, source_language, target_language),
        ]
        target = target.edited(_disjoint(inner))
    edits = _final_mark(source, target, target_language)
    if first := _first_letter(source, target, source_language, target_language):
        edits.append(first)
    return target.edited(_disjoint(edits))


def _inner_stops(
    source: str, target: Target, source_language: str, language: str
) -> list[tuple[int, int, str]]:
    """Make commas of full stops within a sentence whose source goes on there; behind a title, nothing."""
    if not _INNER_STOP.search(target.text) or _INNER_END.search(source):
        return []
    kept = [(span.start, span.end) for span in target.spans]
    edits = [(*match.span(1), "") for match in _TITLE_STOP.finditer(target.text)]
    if ". " in source and sentence_borders(source, source_language):
        return edits
    known = abbreviations(language)
    years = [
        match.end()
        for match in _BEFORE_YEAR.finditer(target.text)
        if match[1].lower() not in known.numbered | known.final
    ]
    for border in sorted({*sentence_borders(target.text, language, kept), *years}):
        end = len(target.text[:border].rstrip())
        start = len(target.text[:end].rstrip(".!?…"))
        start = max([start, *(last for first, last in kept if first < end)])  # a span's own marks stay
        word = _LAST_WORD.search(target.text, max(0, start - 21), start)
        if word and f"{word[0]}." in source[:-1]:
            continue  # an abbreviation of the source
        if start < end < len(target.text.rstrip()) and (start, end, "") not in edits:
            edits.append((start, end, ","))
            if not any(first <= border < last for first, last in kept):
                edits += _small_letter(source, target.text, border, language)
    return edits


def _small_letter(source: str, text: str, at: int, language: str) -> list[tuple[int, int, str]]:
    """Take the capital from a word that begins no sentence any more, unless it may be a name or a noun."""
    word = _WORD.match(text, at)
    if (
        not word
        or not text[at].isupper()
        or _ALWAYS_CAPITAL.match(text, at)
        or word[0] in _WORD.findall(source)
    ):
        return []
    if language in CAPITAL_NOUNS and not _begins_sentences(word[0], language):
        return []
    return [(at, at + 1, text[at].lower())]


def _begins_sentences(word: str, language: str) -> bool:
    """Tell whether a word has its capital from beginning a sentence alone, in a language of such nouns."""
    return word.lower() in abbreviations(language).starters - _POLITE


def _disjoint(edits: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Sort edits; of those that overlap the first one holds."""
    chosen: list[tuple[int, int, str]] = []
    for edit in sorted(edits):
        if not chosen or (edit[0] >= chosen[-1][1] and edit[:2] != chosen[-1][:2]):
            chosen.append(edit)
    return chosen


def _final_mark(source: str, target: Target, language: str) -> list[tuple[int, int, str]]:
    text = target.text
    openings = _OPENING_OF.get(language, {})
    if (
        source[-1:] == text[-1:]
        and source[-2:-1].isalnum()
        and text[-2:-1].isalnum()
        and not target.spans
        and text[-1] not in openings
    ):
        return []  # most sentences: the same single mark, or none
    free_from = max((span.end for span in target.spans), default=0)
    start, wanted = _final_start(text, free_from), source[_final_start(source) :]
    for span in target.spans:  # points of its own: `Name: ......`
        wanted = wanted.rpartition(text[span.start : span.end])[2]
    if not wanted and start == len(text) and not _closed_marks(source):
        closed = _closed_marks(text, free_from)
        return [(closed.start, closed.stop, "")] if closed else []
    mark, has = wanted.strip(), text[start:].strip()
    if mark == "." and start == free_from and text[:start].endswith("."):
        mark = ""  # an abbreviation that is kept ends the sentence, too: `5 p.m.`
    closed = _closed_marks(text, free_from) if mark == "." and not has else range(0)
    if text[closed.start : closed.stop] == ".":  # from within the quote to behind it
        return [(closed.start, closed.stop, ""), (len(text), len(text), mark)]
    if has == mark or _same_mark(has, mark, "¡" in text):
        if not has and start < len(text):  # white space alone
            return [(start, len(text), "")]
        return [] if _is_code(source, text) else _opened(target, has, openings)
    space = "\u202f" if mark[:1] and mark[0] in _SPACE_BEFORE.get(language, "") else ""
    edits = [(start, len(text), space + mark)]
    edits += _opened(target, mark, openings)
    for end, opening in openings.items():
        if end not in mark and opening in text and end in has and text.count(opening) == 1:
            place = text.index(opening)
            if not any(span.start <= place < span.end for span in target.spans):
                edits.insert(0, (place, place + 1, ""))
    return edits


def _is_code(source: str, text: str) -> bool:
    """Tell whether the last word of a sentence is, with its mark, that of its translation, too: `panic!`."""
    last = source.rpartition(" ")[2]
    return last != source and last == text.rpartition(" ")[2]


def _opened(target: Target, mark: str, openings: dict[str, str]) -> list[tuple[int, int, str]]:
    """Put in what opens the marks that end a sentence, `¡Sí!`, behind quotes and dashes."""
    text = target.text
    missing = "".join(opening for end, opening in openings.items() if end in mark and opening not in text)
    place = len(text) - len(text.lstrip(_BEFORE_OPENING)) if missing else 0
    if any(span.start < place for span in target.spans):
        place = 0
    return [(place, place, missing)] if missing else []


def _final_start(text: str, free_from: int = 0) -> int:
    """Find where the marks and white space begin that end a text; its length if there are none."""
    at = len(text)
    while at > free_from and (text[at - 1] in _FINAL_MARKS or text[at - 1].isspace()):
        at -= 1
    is_abbreviation = text[at : at + 1] == "." and text[at + 1 : at + 2] in ("!", "?")  # `U.S.?`
    return at + (is_abbreviation and text[at - 1 : at].isalnum())


def _closed_marks(text: str, free_from: int = 0) -> range:
    """Find the marks that end a sentence before the quote that ends a text."""
    if not text.endswith(('"', "”", "“", "»")):
        return range(0)
    end = len(text) - 1
    end -= text[:end][-1:].isspace()
    return range(max(free_from, len(text[:end].rstrip(".!?…"))), end)


def _same_mark(has: str, mark: str, is_opened: bool) -> bool:
    """Three points and an ellipsis are the same; languages differ in where they take `!` for a full stop."""
    if {has, mark} == {".", "!"}:
        return not is_opened or has == "!"
    return has.replace("…", "...") == mark.replace("…", "...")


def _first_letter(
    source: str, target: Target, source_language: str, target_language: str
) -> tuple[int, int, str] | None:
    if source[:1].isupper() and target.text[:1].isupper():
        return None
    wanted = next((letter for letter in source if letter.isalnum()), "")
    place = next((i for i, letter in enumerate(target.text) if letter.isalnum()), None)
    if place is None or any(span.start <= place < span.end for span in target.spans):
        return None
    letter = target.text[place]
    if wanted.islower() and letter.isupper():
        word = _WORD.match(target.text, place)
        if target_language in CAPITAL_NOUNS and not (word and _begins_sentences(word[0], target_language)):
            return None
        if _ALWAYS_CAPITAL.match(target.text, place) or (word and word[0] in _WORD.findall(source)):
            return None  # an abbreviation, or a name
        return place, place + 1, letter.lower()
    says_nothing = source_language in CAPITAL_NOUNS and source[-1:] not in (".", "!", "?")
    if wanted.isupper() and letter.islower() and not says_nothing:
        return place, place + 1, letter.upper()
    return None


def on_the_way(source: str, english: str) -> str:
    """Say by a small `i` that a text began with a small letter: it is to be translated further.

    Args:
        source: a text.
        english: its translation.
    """
    begun = _BEGINS_WITH_I.match(english)
    if begun is None or not _BEGINS_SMALL.match(source):
        return english
    return english[: begun.end(1)] + "i" + english[begun.end() :]


def _quotes(source: str, target: Target) -> list[tuple[int, int, str]]:
    """Take away quotes where the source has none."""
    return [] if _QUOTES.search(source) else _replacing(_QUOTES, target, "")


def _three_points(source: str, target: Target) -> list[tuple[int, int, str]]:
    """Write three points as the source does; what it has itself, as in `Dr..`, may stay."""
    if "..." not in source:
        return []
    return [edit for form in _POINTS if not form.search(source) for edit in _replacing(form, target, "...")]


def _replacing(pattern: re.Pattern[str], target: Target, new: str) -> list[tuple[int, int, str]]:
    """Give the edits that replace what a pattern finds outside of the spans."""
    return [
        (match.start(), match.end(), new)
        for match in pattern.finditer(target.text)
        if not any(span.start <= match.start() < span.end for span in target.spans)
    ]
