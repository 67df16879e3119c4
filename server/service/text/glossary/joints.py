"""What stands before a word and depends on its first sound: `l'` and `le`, `a` and `an`."""

import re

_VOWELS = "aeiouyàâäåáéèêëíîïóôöúùûüœæ"
# Words whose first sound is not of the kind of their first letter: `user`, `URL`; `hour`, `8-bit`, `HTML`.
_ENGLISH_CONSONANT = re.compile(
    r"(?i:y|eu|ewe|uni(?![mn]|dent)|u[st][aeiou]|ubiq|uk[ru]|ura[ln]|uri[nc]|on(?:e|ce)\b|u\b)|U[A-Z]{1,3}\b"
)
_ENGLISH_VOWEL = re.compile(
    r"(?i:hour|honou?r|honest|heir)|8|1[18](?!\d)|[FHLMNRSX][B-DF-HJ-NP-TV-XZ\d]*(?![\w'’])"
)
_EITHER = re.compile(r"[FHLMNRSX][A-Z\d]+\b")
"""Capitals that may be read as a word or letter by letter: `NATO`, `NGO`."""

# French words with an h that elide, as `l'homme`; others, among them most loanwords, do not: `le hub`.
_FRENCH_MUTE = re.compile(
    r"h(?:ab[eiî]|acienda|agio|al(?:eine|lu|o[gp]|t[èé]r)|ameç|arm(?:a|o)|aruspi|ebdo|ect|égém|él(?!er\b)"
    r"|ém|épat|ér(?:éd|ési|éti|it|oï)|erb|erm|ésit|étér|eur(?!t)|exa|ibern|ilar|indou|ippo|irond|ist|iv"
    r"|om(?!e\b|ard)|onn[eê]|onor|op|ôp|orl|orm|oro|orr|ort|os(?:p|ti)|ôt|uil|uiss|uît|um(?!er\b)|yd|yg|ym"
    r"|yp(?!e\b)|yst)",
    re.IGNORECASE,
)
_FRENCH_CONSONANT = re.compile(r"y(?!eux)[aeiouéèêâ]|onz|oui", re.IGNORECASE)
_ELIDED = re.compile(r"(?<!\w)(l|d|qu|j|n|s|m|t|c)(?:['’]|(?<=c)et )$", re.IGNORECASE)
_FULL = re.compile(r"(?<!\w)(le|la|de|que|je|ne|se|me|te|ce|du|au) $", re.IGNORECASE)
_BEFORE_VOWEL = {"ce": "cet ", "du": "de l'", "au": "à l'"}
_ARTICLE = re.compile(r"(?:(?<!\w)a|(?:\A|[.!?:]\s)[\"'“‘(]?A)(n?) $")  # `Plan A orange` has none


def joint(before: str, new: str, language: str) -> tuple[int, str] | None:
    """Fit what stands before a word to another word.

    Args:
        before: text up to the word.
        new: what takes its place.
        language: of the text.

    Returns:
        How many characters of `before` are replaced, and by what; None if only another article would fit,
        which depends on more than sounds: `l'` before a consonant may be `le` or `la`.
    """
    is_vowel = new[:1].lower() in _VOWELS
    if language == "en" and (match := _ARTICLE.search(before)):
        is_vowel = bool(_ENGLISH_VOWEL.match(new)) or (is_vowel and not _ENGLISH_CONSONANT.match(new))
        if bool(match[1]) != is_vowel and (_ENGLISH_VOWEL.match(new) or not _EITHER.match(new)):
            return len(match[1]) + 1, "n " if is_vowel else " "
    if language == "fr":
        is_vowel = bool(_FRENCH_MUTE.match(new)) or (is_vowel and not _FRENCH_CONSONANT.match(new))
        if not is_vowel and (match := _ELIDED.search(before)):
            word = match[1]
            return None if word.lower() == "l" else (len(match[0]), f"{word}e ")
        if is_vowel and (match := _FULL.search(before)):
            word = match[1]
            joined = _BEFORE_VOWEL.get(word.lower(), f"{word[:-1]}'")
            return len(match[0]), joined[0].upper() + joined[1:] if word[0].isupper() else joined
    return 0, ""
