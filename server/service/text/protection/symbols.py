"""Signs that are no words: emoji and their short codes, bullets, arrows, stars, smileys.

A model makes words of them. So they become tags, which follow the words beside them, and what the model
reads is the sentence without them.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import replace

from server.service.text.protection.writing import escaped
from server.service.text.segment import Segment, Tag

# Pictures, flags, dingbats, arrows, signs of mathematics (but minus and dots), shapes, musical signs; with
# joiners, skin tones and variation selectors.
_PICTURE = (
    "[×÷\u2190-\u21ff\u2200-\u2211\u2213-\u2218\u221a-\u22c4\u22c6-\u22ff\u2300-\u23ff\u2460-\u27ff\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff©®™]"
)
_JOINED = (
    f"(?:{_PICTURE}|[#*0-9](?=\ufe0f?\u20e3))"
    f"(?:[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\u200d]|{_PICTURE})*"
)
_SMILEY = (
    r"(?<![\w:;=])(?:[:;=]['’]?-?[)(DPpOo/\\|\]\[}{*]|[:;]['’]?-?3)(?!\w)|(?<!\w)<3(?!\w)"
    r"|(?<!\w)\^_?\^(?!\w)|¯\\_\(ツ\)_/¯"
    r"|[^\w\s(]{0,2}\((?=[^()\s]{0,8}[°□◕‿∀▽ʘᴥ益ಠ・])[^()\sA-Za-z]{2,10}\)[^\w\s.,;:!?]{0,3}"
)
_SHORT_CODE = r"(?<![\w:]):[a-z+][a-z0-9_+\-]{1,40}:(?![\w:])"  # of chats: `:rocket:`
_MNEMONIC = r"(?<![^\s(])&(?=[^\W\d_]\w)"  # of menus, before the letter of a key: `&Open`
_SIGN = re.compile(f"{_JOINED}(?: {_JOINED})*|{_SMILEY}|{_SHORT_CODE}|{_MNEMONIC}")
_CODE = re.compile(_SHORT_CODE)
_LAST_WORD = re.compile(r"(?<!\S)[^\W\d_]+\Z")
_SOME = re.compile(
    f"{_PICTURE}|\u20e3|[:;=]['’]?-?[)(DPpOo/\\\\|\\]\\[}}{{*3]|<3|\\^|¯|\\([°ಠ・ʘᴥ]|{_MNEMONIC}"
)
_SEPARATORS = "•·∙‣▪●|¦»›«‹*→⇒>~+="
OPERATORS = "+=~*/>"
"""Signs that part no sentence: `The += operator joins two texts.`, `Bring a passport and / or an ID card.`"""
# Between parts that are translated each on its own.
SEPARATOR = re.compile(rf"(?<!\S)(?:[{_SEPARATORS}]+|/{{1,2}}|\\|-{{2,}}>?)(?!\S)")
# What has none of these has no separator and no direct speech, and most texts have none.
MAY_SEPARATE = re.compile(rf"[{_SEPARATORS}/\\]|--|:\s+[\"“„«»]")
CHOICE = re.compile(r"\s*[(\[]?(?![A-ZÀ-Þ/]+\Z)[^\W\d_]{2,30}(?:/[^\W\d_]{2,30}){1,9}[)\]:]?\s*\Z")
"""Words of which one holds, alone: `Yes/No`, `he/she`. Models spell all but the first. Not `TCP/IP`."""
COLON = re.compile(r"(?<=\w)[ \u00a0\u202f]?:\s+(?=[^\W\d_])")
_SPEECH = re.compile(r"(?<=:)\s+(?=[\"“„«»])")
_LONGEST_SPEECH = 1000


_CLOSING = ".,:;!?…)]}’”»\"'"
_OWN_PAIRS = 1_000_000
"""Added to the numbers of pairs, so that they are none of a neighbor's."""


def signs_to_tags(segment: Segment) -> Segment:
    """Take signs out of the text and make them tags.

    Args:
        segment: a block.

    Returns:
        The block; the same object if it has none. A space on one side of a sign goes with it.
    """
    text = segment.text
    if not _SOME.search(text) and not (":" in text and _CODE.search(text)):
        return segment
    kept = segment.spans
    edits: list[tuple[int, int, str]] = []
    signs: list[Tag] = []
    index = 0
    for match in _SIGN.finditer(text):
        start, end = match.span()
        while index < len(kept) and kept[index].end <= start:
            index += 1
        if index < len(kept) and kept[index].start < end:
            continue
        first = max(edits[-1][1] if edits else 0, kept[index - 1].end if index else 0)
        last = kept[index].start if index < len(kept) else len(text)
        start, end = _with_space(text, start, end, first, last)
        edits.append((start, end, ""))
        signs.append(Tag(start, escaped(text[start:end], segment.escape)))
    if not edits:
        return segment
    # One that begins where a tag stands comes behind it.
    tags = sorted([*segment.tags, *signs], key=lambda tag: tag.at)
    return Segment(text, kept, tuple(tags), segment.escape).edited(edits)


def before_letter(at: int, tag: Tag, text: str) -> int:
    """Give the place of a tag; a mnemonic that came behind a word goes before it: `unter&`, `&unter`."""
    word = _LAST_WORD.search(text, 0, at) if tag.output == "&" else None
    return at if word is None else word.start()


def spaced(at: int, tag: Tag, text: str) -> Tag:
    """Give a sign that came to another place its space on the other side, if that is where a word is.

    Args:
        at: offset of the sign in the translation.
        tag: the sign with the space that it had; elements and line breaks stay as they are.
        text: of the translation.
    """
    sign = tag.output.strip()
    before, behind = text[max(0, at - 1) : at], text[at : at + 1]
    ends = not behind or behind.isspace() or behind in _CLOSING
    if tag.closes and tag.output.endswith(" ") and ends:
        return replace(tag, output=sign)
    if tag.pair >= 0 or sign == tag.output or tag.breaks_line:
        return tag
    left = " " if before and not before.isspace() else ""
    right = "" if ends else " "
    return replace(tag, output=left + sign + right)


def _with_space(text: str, start: int, end: int, first: int, last: int) -> tuple[int, int]:
    """Take in a space beside a sign, within the offsets that no span or other sign has."""
    if end < last and text[end].isspace() and (not start or text[start - 1].isspace()):
        return start, end + 1
    if start > first and text[start - 1].isspace() and (end == len(text) or not text[end].isalnum()):
        return start - 1, end
    return start, end


def items(segment: Segment) -> list[int]:
    """Find where signs begin the items of a list, `✅ Done ❌ Failed`.

    Args:
        segment: a block whose signs are tags.

    Returns:
        Offsets of the items; none unless the block begins with a sign, or its first one was read as a list
        mark, and all its signs stand before capitals or digits.
    """
    text = segment.text
    signs = [tag for tag in segment.tags if tag.pair < 0 and _SIGN.fullmatch(tag.output.strip())]
    places = sorted({tag.at for tag in signs} - {len(text)})
    before = text[: places[0]].strip() if places else ""
    if len(places) > 1 and before[:1].isupper() and len({tag.output.strip() for tag in signs}) == 1:
        places, before = [0, *places], ""
    if (
        len(places) < 2
        or before
        or not all(text[at].isupper() or text[at].isdigit() for at in places)
        or not all(text[at - 1].isspace() for at in places[1:])
    ):
        return []
    is_sentence = text.rstrip()[-1] in FINAL_MARKS and not all("\u20e3" in tag.output for tag in signs)
    return [] if is_sentence else places[1:]


_BRACKETS = {"(": ")", "[": "]", "{": "}", "„": "“", "“": "”", "«": "»", "‹": "›"}
FINAL_MARKS = ".!?…"
QUOTES = '"“”„«»'
MARKS = re.compile(rf"[()\[\]{{}}{QUOTES}]")
"""Brackets and double quotes, of which a translation has as many as its source."""
_OPENING = re.compile(r"""[("\[{„“«‹»'‘]|<[^\W\d_]""")
_ANGLE = re.compile(r"(?<!\S)<[^\W\d_]")  # of `<your name>`, not of `a < b`
_ELEMENT = re.compile(r"<(?P<slash>/?)(?P<name>[a-z][a-z0-9]{0,15})(?:\s[^<>]{0,200})?>")
SINGLE_QUOTED = re.compile(
    r"(?<![\w'’\"“„])'(?:(?=[^\W_])[^'’\n.,;!?()\[\]{}\"“”„«»]{1,40}(?<=\w\w)|[{%$][^\s'’]{1,60})'(?!\w)"
)
"""Names of buttons, and words spoken of: the `'Save'` button, `'{name}'`; neither apostrophes nor speech."""
_WORD_ALONE = re.compile(
    r"(?<!\w)(?:\"(?=\w+\")|“(?=\w+[”“\"])|„(?=\w+[“”])|«(?=\s?\w+\s?»))"
    r"(?![A-ZÀ-Þ]{2})\s?[^\W\d_]{2,40}\s?[\"“”»](?!\w)"
)
"""A word in quotes: models know few words that begin behind a mark."""
_LABEL = re.compile(r"(?<!\S)\(?([a-h]|\d{1,2})\)\s+(?=\S)")
_JOINED_LABELS = re.compile(r"\)\s+(?:and|or|und|oder|et|ou|[yo])\s+\(?\w{1,2}\)")
_LETTER_LABELS, _NUMBER_LABELS = [*"abcdefgh"], [str(number) for number in range(1, 100)]
_ASIDE = re.compile(
    r"\s*(?:[(\[](?=[^()\[\]\n]*[^\W\d_]{2})[^()\[\]\n]{2,60}[)\]]\s+(?=[\"“„«¿¡]?([^\W\d_]+))"
    r"|(?=[A-ZÀ-Þ])[A-ZÀ-Þ .'’\-]{2,30}:\s+(?=[^:\n]*[a-zß-ÿ]))"
)


def direct_speech(text: str) -> list[tuple[int, int]]:
    """Find whole sentences in quotes behind a colon, which are translated each on its own.

    Args:
        text: of a block.

    Returns:
        Start and end of each, quotes and the white space behind them included; disjoint and ascending.
    """
    found: list[tuple[int, int]] = []
    for match in _SPEECH.finditer(text):
        start = match.end()
        closing = "«" if text[start] == "»" else _BRACKETS.get(text[start], text[start])
        end = text.find(closing, start + 1, start + _LONGEST_SPEECH)
        said = text[start + 1 : end].rstrip()
        if end > start and said[-1:] in FINAL_MARKS and said and (not found or found[-1][1] <= start):
            behind = end + 1
            while behind < len(text) and text[behind].isspace():
                behind += 1
            found.append((start, behind))
    return found


def elements_to_tags(segment: Segment) -> Segment:
    """Make tags of elements that HTML speaks of, `&lt;b&gt;bold&lt;/b&gt;`; one without its end is a word.

    Args:
        segment: a block.

    Returns:
        The block; the same object if it has none.
    """
    if segment.escape != "html" or "</" not in segment.text:
        return segment
    begun: dict[str, list[re.Match[str]]] = {}
    pairs: list[tuple[re.Match[str], re.Match[str]]] = []
    for match in _ELEMENT.finditer(segment.text):
        opened = begun.setdefault(match["name"], [])
        if not match["slash"]:
            opened.append(match)
        elif opened:
            pairs.append((opened.pop(), match))
    first = max((tag.pair for tag in segment.tags), default=-1) + _OWN_PAIRS
    marks = [
        (
            match,
            Tag(match.start(), escaped(match[0], segment.escape), first + number, opens=not match["slash"]),
        )
        for number, pair in enumerate(pairs)
        for match in pair
        if not any(
            span.start < one.end() and one.start() < span.end for span in segment.spans for one in pair
        )
    ]
    tags = tuple(sorted((*segment.tags, *(tag for _, tag in marks)), key=lambda tag: tag.at))
    edits = sorted((match.start(), match.end(), "") for match, _ in marks)
    return replace(segment, tags=tags).edited(edits) if marks else segment


def enumerated(text: str) -> list[int]:
    """Find where the labels of a list in one line begin and end: `a) bread b) milk`, also without the first.

    Not those of `He chose b) or c)`.
    """
    labels = [*_LABEL.finditer(text)]
    names = [label[1] for label in labels]
    run = _LETTER_LABELS if names and names[0].isalpha() else _NUMBER_LABELS
    start = run.index(names[0]) if names and names[0] in run[:2] else len(run)
    if len(names) < 2 or names != run[start : start + len(names)] or _JOINED_LABELS.search(text):
        return []
    return [offset for label in labels for offset in label.span()]


def aside(text: str, starters: Collection[str] | None) -> int:
    """Find where a sentence begins behind an aside: in brackets, or a name in capitals with a colon.

    Examples: `(laughing) You are funny!`, `JOHN: You are funny!`.

    Args:
        text: of a block.
        starters: words that begin sentences, if other words have capitals, too.

    Returns:
        Its offset; 0 if there is none.
    """
    match = _ASIDE.match(text) if ":" in text or text.lstrip()[:1] in ("(", "[") else None
    if match is None or (match[1] and not match[1][0].isupper()):
        return 0
    return match.end() if not match[1] or starters is None or match[1].lower() in starters else 0


def pairs_to_tags(segment: Segment, knows: Callable[[str], bool] = lambda _: False) -> Segment:
    """Take quotes and brackets out of the text and make them tags, two for each pair.

    Args:
        segment: a block or sentence.
        knows: whether the model has a character; a pair around several words stays if it has both marks.

    Returns:
        The segment; the same object if it has no pair.
    """
    text, kept = segment.text, segment.spans
    if not _OPENING.search(text):
        return segment
    inside = {i for span in kept for i in range(span.start, span.end)} if kept else set()
    pairs = _pairs(text, inside, knows)
    if not pairs:
        return segment
    first = max((tag.pair for tag in segment.tags), default=-1) + _OWN_PAIRS
    # White space inside of a pair goes with it: `« oui »`.
    white = {place for place, character in enumerate(text) if character.isspace()} - inside
    begins = [(start, start + 1 + (start + 1 in white)) for start, _ in pairs]
    ends = [
        (end - (end - 1 in white and end > begin[1]), end + 1)
        for begin, (_, end) in zip(begins, pairs, strict=True)
    ]
    marks = [
        Tag(cut[0], escaped(text[slice(*cut)], segment.escape), first + n, opens=opens)
        for cuts, opens in ((begins, True), (ends, False))
        for n, cut in enumerate(cuts)
    ]
    # Outer tags of the source stay outside: an opening one before the mark, a closing one behind it.
    tags = sorted([*segment.tags, *marks], key=lambda tag: tag.at)
    return Segment(text, kept, tuple(tags), segment.escape).edited(
        [(*cut, "") for cut in sorted(begins + ends)]
    )


def _pairs(text: str, inside: Collection[int], knows: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Find quotes and brackets that belong together, but for what stands inside of spans or is known."""
    is_reversed = 0 <= text.find("»") < text.find("«")  # as in German books; models hardly know them so
    opened: list[tuple[int, str]] = []
    pairs: list[tuple[int, int]] = []
    for place, character in enumerate(text):
        if place in inside or character.isalnum() or character == " ":
            continue
        if character == "’" and text[place + 1 : place + 2].isalnum():
            continue  # an apostrophe
        if len(opened) > 1 and opened[-1][1] == "’" and character == opened[-2][1]:
            opened.pop()
        if opened and (character == opened[-1][1] or (character == '"' and opened[-1][1] in "“”")):
            pairs.append((opened.pop()[0], place))
        elif character == "‘":
            if not text[place - 1 : place].isalnum():
                opened.append((place, "’"))
        elif character == "<":
            if _ANGLE.match(text, place):
                opened.append((place, ">"))
        elif (closing := _BRACKETS.get(character)) and not (knows(character) and knows(closing)):
            opened.append((place, closing))
        elif character == "»" and is_reversed:
            opened.append((place, "«"))
        elif character == '"' and not knows(character):
            opened.append((place, '"'))
    begun = {start for start, _ in pairs}
    pairs += [
        (match.start(), match.end() - 1)
        for pattern in (SINGLE_QUOTED, _WORD_ALONE)
        for match in pattern.finditer(text)
        if match.start() not in inside
        and match.end() - 1 not in inside
        and match.start() not in begun
        and (pattern is _WORD_ALONE or not (knows(match[0][0]) and knows(match[0][-1])))
    ]
    return pairs
