"""Lists of words: the common ones of languages are evidence where a text is too short for its spelling."""

from pathlib import Path


def words(text: str) -> frozenset[str]:
    """Give the words of a text, parted by white space, as a set."""
    return frozenset(text.split())


def _read() -> dict[str, frozenset[str]]:
    files = Path(__file__).parent.glob("words.*.txt")
    return {file.name.split(".")[1]: words(file.read_text(encoding="utf-8")) for file in files}


COMMON_WORDS = _read()
"""Some 4,000 words of each shipped language in small letters, without names.

They are the commonest ones of everyday sentences, and greetings, days, numbers and words of user interfaces.
Words of several languages stand in all of these.
"""


def is_common(word: str, language: str) -> bool:
    """Tell whether a word, with or without capitals, is a common one of a language."""
    return word.lower() in COMMON_WORDS.get(language, ())
