"""What stands before a word and depends on its first sound: `l'` and `le`, `a` and `an`."""

import re

_VOWELS = "aeiouyàâäéèêëîïôöùûüœæ"
# Words whose first sound is not of the kind of their first letter: `user`, `URL`; `hour`, `8-bit`, `HTML`.
_ENGLISH_CONSONANT = re.compile(
    r"(?i:y|eu|ewe|uni(?![mn]|dent)|u[st][aeiou]|ubiq|uk[ru]|ura[ln]|uri[nc]|on(?:e|ce)\b|u\b)|U[A-Z]{1,4}\b"
)
_ENGLISH_VOWEL = re.compile(r"(?i:hour|honou?r|honest|heir)|8|1[18](?!\d)|[FHLMNRSX][B-DF-HJ-NP-TV-XZ\d]*\b")
# Most words with an h elide, as `l'homme` and `l'héroïne`; these do not, as `le héros`, `le yack`, `le onze`.
_FRENCH_CONSONANT = re.compile(
    r"h(?:éros\b|ériss|éron|iérarch|ibou|iss|ideu|ippi|it\b|ernie|eurt|être|uit(?!r)|u[ért]|ubl|uche|ugue"
    r"|o(?:u|ll|mard|ng|nt|rs|tte|bb|ck|ch|qu|ld)|[aâ](?!b|leine|llu|lt[èé]|meç|rmon))|y(?!eux)[aeiou]|onz|oui",
    re.IGNORECASE,
)
_ELIDED = re.compile(r"(?<!\w)(l|d|qu|j|n|s|m|t|c)(?:['’]|(?<=c)et )$", re.IGNORECASE)
_FULL = re.compile(r"(?<!\w)(le|la|de|que|je|ne|se|me|te|ce|du|au) $", re.IGNORECASE)
_BEFORE_VOWEL = {"ce": "cet ", "du": "de l'", "au": "à l'"}
_ARTICLE = re.compile(r"(?<!\w)(an?) $", re.IGNORECASE)


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
        article = match[1][0] + ("n" if is_vowel else "")
        return len(match[0]), f"{article} "
    if language == "fr":
        is_vowel = (is_vowel or new[:1] in "hH") and not _FRENCH_CONSONANT.match(new)
        if not is_vowel and (match := _ELIDED.search(before)):
            word = match[1]
            return None if word.lower() == "l" else (len(match[0]), f"{word}e ")
        if is_vowel and (match := _FULL.search(before)):
            word = match[1]
            joined = _BEFORE_VOWEL.get(word.lower(), f"{word[:-1]}'")
            return len(match[0]), joined[0].upper() + joined[1:] if word[0].isupper() else joined
    return 0, ""
