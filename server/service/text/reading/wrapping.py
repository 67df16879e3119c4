"""Which line breaks are inside of a sentence.

Wrapped text goes on in the next line; addresses, menus, poems and lists of words do not. What tells them
apart: final marks, words that need another one, small letters, and whether the next word would have fitted.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from server.service.text.detection.word_lists import words
from server.service.text.reading.abbreviations import abbreviations
from server.service.text.reading.segmentation import sentence_borders

_TRAILING = " \t\"'”’»›)]}*_~`"
# Conjunctions, prepositions and verbs: a line that begins with one in small letters goes on.
_GOES_ON = words(
    "and or but because that which who with for from to in of on at by than as is are was were und oder"
    " aber weil dass mit von für aus zu bei nach ist sind war waren et ou mais que qui de du des avec"
    " pour dans est sont parce y o pero con para por en del porque es son"
)
_SALUTATION = re.compile(
    r"(?:Dear|Hello|Hi|Hey|Good|Lieber?|Hallo|Guten?|Sehr geehrter?|Cher|Chère|Bonjour|Bonsoir|Salut|Madame"
    r"|Monsieur|Hola|Buen[oa]s|Querid[oa]s?|Estimad[oa]s?)\b[^,]{0,60},"
)
_FINAL = ".!?…。！？؟।"
_FIRST_LETTER = re.compile(r"[^\W_]")
_WORD = re.compile(r"[^\W_]+")
_FIRST_WORD = re.compile(r"\S+")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>|\{\\[^{}]{0,100}\}")
_LAST_WORD = re.compile(r"([^\W\d_]{1,12})$")
# Articles, prepositions, conjunctions and the like of en, de, fr, es: no phrase ends in them.
_NEEDS_ANOTHER = words(
    "a an the of to in at for from with by and or but nor as than that which who whose if because my"
    " your his our their its is are was were be been has have had will would can could should must may"
    " might this these very into onto about between der die das den dem des ein eine einen einem einer"
    " eines mein meine meinen meinem meiner dein deine sein seine seinen ihr ihre ihren ihrem unser"
    " unsere unseren kein keine keinen und oder aber denn weil dass ob wenn als wie von vom zu zum zur"
    " im am beim aus auf bei mit nach für durch gegen ohne um über unter zwischen sehr ist sind war"
    " waren hat haben wird werden kann muss le la les l un une des du de ce cet cette ces mon ma mes"
    " ton ta tes son sa ses notre nos votre vos leur leurs et ou mais car que qui dont où à au aux en"
    " dans sur sous par pour avec sans chez est sont très el los las unos unas del al y o e u pero con"
    " sin por para desde hasta sobre entre mi tu su mis tus sus es son muy"
)


def joined_lines(bodies: Sequence[str], language: str, *, in_cue: bool = False) -> list[bool]:
    """Say for each two neighboring lines whether the second one continues the first.

    Args:
        bodies: the lines of a paragraph, without their indentation and marks; none is empty.
        language: ISO 639 code; "" if it is not known.
        in_cue: whether they are a subtitle, which is wrapped wherever it has no final mark.

    Returns:
        One answer fewer than there are lines.
    """
    bodies = [_TAG.sub("", body) if "<" in body or "{" in body else body for body in bodies]
    joined = [False] * (len(bodies) - 1)
    width = max(map(len, bodies))
    start = 0
    for last in range(len(bodies)):
        if last < len(joined) and not _ends_sentence(bodies[last], bodies[last + 1], language):
            continue
        if last > start:
            unit = bodies[start : last + 1]
            joined[start:last] = _joined_unit(unit, width) if not in_cue else [True] * (last - start)
        start = last + 1
    return joined


def _ends_sentence(line: str, following: str, language: str) -> bool:
    core = line.rstrip(_TRAILING)
    mark = core[-1:]
    if is_salutation(core):
        return True
    if mark in (":", ";"):
        return not (_first_letter(following).islower() and (len(core) >= 40 or mark == ";"))
    if not mark or mark not in _FINAL:
        return False
    tail = line[-60:]
    return mark not in ".…" or len(tail) + 1 in sentence_borders(f"{tail} {following[:30]}", language)


def is_salutation(line: str) -> bool:
    """Tell whether a line is how a letter begins: `Dear all,`."""
    return line.endswith(",") and _SALUTATION.fullmatch(line) is not None


def _joined_unit(lines: Sequence[str], width: int) -> list[bool]:
    """Judge lines of which only the last one may have a final mark."""
    closed = lines[-1].rstrip(_TRAILING)[-1:] in _FINAL + ":;"
    pairs = list(pairwise(lines))
    wrapped = any(_goes_on(line, following, closed) for line, following in pairs)
    answers = []
    for line, following in pairs:
        word = _FIRST_WORD.match(following)
        full = len(line) + 1 + len(word[0] if word else "") > width
        if _goes_on(line, following, closed):
            answers.append(True)
        elif _first_letter(following).islower():
            answers.append(wrapped and closed)
        elif _begins_sentence(following):
            answers.append(False)
        elif closed:
            least = (line.count(" ") >= 3 or len(line) >= 20) if len(pairs) == 1 else len(line) >= 60
            answers.append(wrapped or (full and least))
        else:
            answers.append(wrapped and full and len(line) >= 40)
    return answers


def _goes_on(line: str, following: str, closed: bool) -> bool:
    """Whether a line by itself shows that the next one continues it."""
    core = line.rstrip(_TRAILING)
    last = _LAST_WORD.search(core)
    if core.endswith((".", "…")) or (
        last and last[1] in _NEEDS_ANOTHER
    ):  # an abbreviation, for no sentence ends
        return True
    first = _first_letter(following)
    if first.isupper() or first.isdigit() or not first:
        return False
    if not first.islower():  # a script without capitals
        return len(line) >= (12 if closed else 30)
    word = _FIRST_WORD.match(following)
    if word and word[0] in _GOES_ON and (len(line) >= 12 or line.count(" ") >= 2):
        return True
    return len(line) >= 30 or core.endswith(",") or (closed and (len(line) >= 15 or line.count(" ") >= 2))


def _begins_sentence(line: str) -> bool:
    """Whether a line begins with an article, pronoun or the like in a capital."""
    word = _WORD.search(line[:24])
    return bool(word and word[0].lower() in abbreviations("").starters)


def _first_letter(line: str) -> str:
    match = _FIRST_LETTER.search(line[:12])
    return match[0] if match else ""
