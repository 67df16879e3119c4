"""Which texts come back unchanged: without words, in another script, or in the target language already."""

import html
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from server.service.text.detection.detector import WORDS, probabilities, rank
from server.service.text.detection.scripts import written_in
from server.service.text.detection.word_lists import COMMON_WORDS
from server.service.text.languages import UNDETERMINED, Detection, base_language

# Judged on the first visible characters only, so that a long text costs no more than a page.
_SAMPLE_CHARS = 4000
_TAG = re.compile(r"<!--|<(/?)([A-Za-z][\w-]*+)[^<>]*+>|<[!?/][^<>]*+>")
_WHITE = re.compile(r"\s+")
_VERBATIM = frozenset({"script", "style", "code", "pre", "math", "svg", "kbd", "samp", "tt", "template"})
_VOWELS = frozenset("aeiouy")
_ROWS = ("qwertyuiop", "qwertzuiopü", "azertyuiop", "asdfghjklöä", "qsdfghjklm", "zxcvbnm", "yxcvbnm")
_RUNS = {row[i:j] for row in _ROWS for i in range(len(row)) for j in range(i + 4, len(row) + 1)} - {"wert"}
_MASHED = re.compile(f"(?:{'|'.join(sorted(_RUNS, key=len, reverse=True))})+|([a-z])\\1{{2,}}")
"""Runs of four neighboring keys and more, `asdf`, or one key alone, `aaa`; the German `Wert` is a word."""
# `(24-hour)`, `10,000-square`; not `00042-main`, `#1234-fix`.
_NUMBERED_WORD = re.compile(
    r"[\"'(\[“‘]*(?:[1-9]\d{0,2}(?:[.,]\d+)*|(?:1\d|20)\d\d)(?:st|nd|rd|th|s)?(?:-[A-Za-z][a-z]+)+\W*"
)
_SENTENCE_END = re.compile(r"[.!?…:;\n]+")
# Below these a stated source is believed: names, titles and loanwords are often words of the target language.
_FEWEST_WORDS = 4
_FEWEST_WORDS_OF_A_SENTENCE = 2
_SURE = 0.98
_MANY_COMMON = 0.25


@dataclass(frozen=True, slots=True)
class Finding:
    """What a text is.

    Attributes:
        source: language to translate it from; None if it comes back unchanged.
        detected: the guess that `auto` stands for; None if the source was stated.
    """

    source: str | None
    detected: Detection | None = None


def detect(text: str, candidates: Iterable[str], target: str, *, is_html: bool) -> Finding:
    """Find the language of a text.

    Args:
        text: one of a request.
        candidates: languages that can be translated to `target`.
        target: language to translate to.
        is_html: whether the text is HTML, of which what a reader sees is judged.

    Returns:
        The likeliest of the candidates and the target, which leaves the text unchanged;
        `UNDETERMINED` for a text of none of them.
    """
    seen = visible_text(text) if is_html else text[:_SAMPLE_CHARS]
    languages = tuple(dict.fromkeys((*candidates, target)))
    if is_of_none(seen, languages):
        return Finding(None, Detection(UNDETERMINED, 0))
    best = rank(seen, languages)[0]
    return Finding(None if best.language == target else best.language, best)


def check(text: str, source: str, target: str, *, is_html: bool) -> Finding:
    """Look whether a text whose language the client states is to be translated at all.

    Args:
        text: one of a request.
        source: the language that the client states.
        target: language to translate to.
        is_html: whether the text is HTML.

    Returns:
        The stated source, or None if the text is clearly not in it.
    """
    seen = visible_text(text) if is_html else text[:_SAMPLE_CHARS]
    unchanged = (
        is_code(seen)
        or not written_in(seen, source)
        or (source in COMMON_WORDS and is_unpronounceable(seen))
        or is_surely_in(seen, target, rather_than=source)
    )
    return Finding(None if unchanged else source)


def is_surely_in(text: str, language: str, *, rather_than: str) -> bool:
    """Tell whether all sentences of a text are surely in one language, and none in another.

    Args:
        text: of any length; of fewer than four words nothing is sure.
        language: that the text may be in.
        rather_than: that it should be in.
    """
    words = WORDS.findall(text.lower())
    if len(words) < _FEWEST_WORDS:
        return False
    ours, others = COMMON_WORDS.get(base_language(language)), COMMON_WORDS.get(base_language(rather_than))
    if ours is not None and others is not None:  # sets first: they cost a twentieth of the model
        in_ours = sum(word in ours for word in words)
        if in_ours <= sum(word in others for word in words) or in_ours < _MANY_COMMON * len(words):
            return False
    if probabilities(text, (language, rather_than))[language] < _SURE:
        return False
    for sentence in _SENTENCE_END.split(text):
        if len(WORDS.findall(sentence)) >= _FEWEST_WORDS_OF_A_SENTENCE:
            found = probabilities(sentence, (language, rather_than))
            if found[rather_than] >= found[language]:
                return False
    return True


def is_of_none(text: str, languages: Collection[str]) -> bool:
    """Tell whether a text is in none of some languages: it has no words, or letters of none of them."""
    return is_wordless(text, languages) or not any(written_in(text, language) for language in languages)


def is_wordless(text: str, languages: Iterable[str]) -> bool:
    """Tell whether a text has no word: no letters, a code, or letters nobody can say.

    Args:
        text: any text.
        languages: that it may be in.
    """
    if not any(map(str.isalpha, text)) or is_code(text):
        return True
    return all(language in COMMON_WORDS for language in languages) and is_unpronounceable(text)


def is_code(text: str) -> bool:
    """Tell whether a text is an identifier or a mark: hash sums, part numbers, `b)`.

    Args:
        text: any text.

    Returns:
        False, too, for a text without letters.
    """
    letters = sum(map(str.isalpha, text))
    if letters <= 1:
        return letters == 1 and len(text.strip()) > 1 and text.isascii() and not any(map(str.isdigit, text))
    tokens = [token for token in text.split() if any(map(str.isalpha, token))]
    return all(map(_is_identifier, tokens))


def is_unpronounceable(text: str) -> bool:
    """Tell whether all words of a text have no vowel or are keys that were mashed, and one of them is long.

    Args:
        text: in the Latin alphabet; the rule does not hold for Slavic languages or Welsh.

    Returns:
        False, too, for a text without letters or with one of another alphabet.
    """
    words = WORDS.findall(text.lower())
    if not any(len(word) >= 4 for word in words):
        return False
    plain = unicodedata.normalize("NFKD", "".join(word for word in words if not _MASHED.fullmatch(word)))
    return not any(character in _VOWELS or character > "\u036f" or character == "ø" for character in plain)


def visible_text(markup: str) -> str:
    """Say what a reader sees first of HTML, roughly: for judging it, not for showing it. Takes linear time.

    Args:
        markup: HTML, also broken one.

    Returns:
        Text without tags, comments, and what elements hold that are not prose, with single spaces and breaks.
    """
    parts: list[str] = []
    length = 0
    for part in _visible_parts(markup):
        parts.append(part)
        length += sum(map(len, part.split()))
        if length >= _SAMPLE_CHARS:
            break
    text = _WHITE.sub(lambda run: "\n" if "\n" in run[0] else " ", "".join(parts))
    return html.unescape(text)[:_SAMPLE_CHARS]


def _visible_parts(markup: str) -> Iterator[str]:
    at, inside = 0, ""
    while tag := _TAG.search(markup, at):
        if not inside:
            yield markup[at : tag.start()]
        at = tag.end()
        if tag[0] == "<!--":
            end = markup.find("-->", at)
            at = len(markup) if end < 0 else end + 3
            continue
        name = (tag[2] or "").lower()
        if not inside and name in _VERBATIM and not tag[1] and not tag[0].endswith("/>"):
            inside = name
        elif inside and name == inside and tag[1]:
            inside = ""
        yield " "
    if not inside:
        yield markup[at:]


def _is_identifier(token: str) -> bool:
    digits = sum(map(str.isdigit, token))
    is_word = "/" in token or "@" in token or _NUMBERED_WORD.fullmatch(token) is not None
    return token.isascii() and digits >= 2 and len(token) >= 6 and not is_word
