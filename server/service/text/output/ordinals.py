"""Ordinals in digits: what came out as it was, `3rd`, gets the form of the other language."""

import re
from collections.abc import Callable

_NUMBER = r"(?<![\w.,])(\d{1,4})"
_FORMS = {
    language: re.compile(rf"{_NUMBER}(?:{endings})(?!\w)(\.?)( [^\W\d_]+)?")
    for language, endings in {"en": "st|nd|rd|th", "es": r"\.?[ºª]", "fr": "er|re|e|è?me"}.items()
}


def localized(text: str, source: str, source_language: str, language: str) -> str:
    """Rewrite ordinals of the source's language that stand in a translation.

    Args:
        text: of the translation.
        source: the sentence.
        source_language: its language.
        language: of the translation.

    Returns:
        The text, with the right endings of English ones (`3th`). Those of names (`5th Avenue`) stay, and
        those of languages that are not known.
    """
    if language == "en":
        text = _FORMS["en"].sub(lambda match: _english(int(match[1])) + match[2] + (match[3] or ""), text)
    form, write = _FORMS.get(source_language), _WRITERS.get(language)
    if form is None or write is None or source_language == language or not form.search(source):
        return text

    def written(match: re.Match[str]) -> str:
        word = match[3] or ""
        if word[1:2].isupper() and match[0] in source:
            return match[0]
        new = write(int(match[1]))
        return new + ("" if new.endswith(".") else match[2]) + word

    return form.sub(written, text)


def _english(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


_WRITERS: dict[str, Callable[[int], str]] = {
    "de": "{}.".format,
    "en": _english,
    "es": "{}.º".format,
    "fr": lambda number: f"{number}{'er' if number == 1 else 'e'}",
}
