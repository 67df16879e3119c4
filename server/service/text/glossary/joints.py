"""What stands before a word and depends on its first letter: `l'` and `le`, `a` and `an`."""

import re

_VOWELS = "aeiouyàâäéèêëîïôöùûüœæ"
_ELIDED = re.compile(r"(?<!\w)(l|d|qu|j|n|s|m|t|c)['’]$", re.IGNORECASE)
_FULL = re.compile(r"(?<!\w)(le|la|de|que|je|ne|se|me|te|ce) $", re.IGNORECASE)
_ARTICLE = re.compile(r"(?<!\w)(an?) $", re.IGNORECASE)


def joint(before: str, old: str, new: str, language: str) -> tuple[int, str] | None:
    """Fit what stands before a word to another word.

    Args:
        before: text up to the word.
        old: the word.
        new: what takes its place.
        language: of the text.

    Returns:
        How many characters of `before` are replaced, and by what; None if only another article would fit,
        which depends on more than letters: `l'` before a consonant may be `le` or `la`.
    """
    vowels = [word[:1].lower() in _VOWELS for word in (old, new)]
    if vowels[0] == vowels[1]:
        return 0, ""
    if language == "en" and (match := _ARTICLE.search(before)):
        article = match[1][0] + ("n" if vowels[1] else "")
        return len(match[0]), f"{article} "
    if language == "fr":
        if match := _ELIDED.search(before):
            word = match[1]
            return None if word.lower() == "l" else (len(match[0]), f"{word}e ")
        if vowels[1] and new[:1].lower() != "y" and (match := _FULL.search(before)):
            return len(match[0]), f"{match[1][:-1]}'"
    return 0, ""
