"""Writing systems: which ones a language is written in, and which ones a text has."""

import unicodedata

from server.service.text.languages import NAMES, base_language

# As the first words of Unicode's character names. What is not listed is written in Latin letters, if it has
# a name in `server.service.text.languages`; of other codes nothing is claimed.
_SCRIPTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("be", "bg", "ky", "mk", "ru", "uk"), ("CYRILLIC",)),
    **dict.fromkeys(("az", "bs", "kk", "mn", "sr", "uz"), ("CYRILLIC", "LATIN")),
    **dict.fromkeys(("ar", "fa", "ur"), ("ARABIC",)),
    **dict.fromkeys(("hi", "mr", "ne"), ("DEVANAGARI",)),
    "bn": ("BENGALI",), "el": ("GREEK",), "gu": ("GUJARATI",), "he": ("HEBREW",), "hy": ("ARMENIAN",),
    "ja": ("HIRAGANA", "KATAKANA", "CJK", "KATAKANA-HIRAGANA"), "ka": ("GEORGIAN",), "km": ("KHMER",),
    "kn": ("KANNADA",), "ko": ("HANGUL", "CJK"), "lo": ("LAO",), "ml": ("MALAYALAM",), "pa": ("GURMUKHI",),
    "ta": ("TAMIL",), "te": ("TELUGU",), "th": ("THAI",), "zh": ("CJK",),
}  # fmt: skip
_LATIN = ("LATIN",)


def written_in(text: str, code: str) -> bool:
    """Tell whether a text has a letter that a language is written with.

    Args:
        text: any text.
        code: of a language, as bundles write it.

    Returns:
        True, too, for a text without letters and for a language of unknown script.
    """
    language = base_language(code)
    scripts = _SCRIPTS.get(language, _LATIN if language in NAMES else ())
    if not scripts:
        return True
    has_letters = False
    # Compatibility forms first: letters of full width or of mathematical alphabets are letters all the same.
    for character in text if text.isascii() else unicodedata.normalize("NFKC", text):
        if character.isalpha():
            has_letters = True
            if unicodedata.name(character, "").split(" ", 1)[0] in scripts:
                return True
    return not has_letters
