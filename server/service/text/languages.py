"""Languages: which directions are served, and how they are called."""

from collections.abc import Iterable
from dataclasses import dataclass

from server.errors import UnsupportedLanguageError

AUTO = "auto"
UNDETERMINED = "und"
"""ISO 639-2's code for the language of a text that has none, or one that is not served."""

NAMES = {
    "af": "Afrikaans", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian",
    "bn": "Bengali", "bs": "Bosnian", "ca": "Catalan", "cs": "Czech", "cy": "Welsh", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian",
    "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician",
    "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian",
    "kk": "Kazakh", "km": "Khmer", "kn": "Kannada", "ko": "Korean", "ky": "Kyrgyz", "la": "Latin",
    "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "ml": "Malayalam",
    "mn": "Mongolian", "mr": "Marathi", "ms": "Malay", "mt": "Maltese", "nb": "Norwegian Bokmål",
    "ne": "Nepali", "nl": "Dutch", "no": "Norwegian", "pa": "Punjabi", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian",
    "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog",
    "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
"""English names, as clients show them in a menu. A code that is not here is shown as it is."""

# ISO 639-3, as models of many languages call theirs (`deu_Latn`).
_OF_THREE_LETTERS = {
    "afr": "af", "arb": "ar", "ara": "ar", "azj": "az", "aze": "az", "bel": "be", "bul": "bg",
    "ben": "bn", "bos": "bs", "cat": "ca", "ces": "cs", "cym": "cy", "dan": "da", "deu": "de",
    "ell": "el", "eng": "en", "epo": "eo", "spa": "es", "est": "et", "ekk": "et", "eus": "eu",
    "pes": "fa", "fas": "fa", "fin": "fi", "fra": "fr", "gle": "ga", "glg": "gl", "guj": "gu",
    "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu", "hye": "hy", "ind": "id", "isl": "is",
    "ita": "it", "jpn": "ja", "kat": "ka", "kaz": "kk", "khk": "mn", "khm": "km", "kan": "kn",
    "kor": "ko", "kir": "ky", "lat": "la", "lao": "lo", "lit": "lt", "lav": "lv", "lvs": "lv",
    "mkd": "mk", "mal": "ml", "mon": "mn", "mar": "mr", "msa": "ms", "zsm": "ms", "mlt": "mt",
    "nob": "nb", "npi": "ne", "nep": "ne", "nld": "nl", "nor": "no", "pan": "pa", "pol": "pl",
    "por": "pt", "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl", "sqi": "sq", "als": "sq",
    "srp": "sr", "swe": "sv", "swa": "sw", "swh": "sw", "tam": "ta", "tel": "te", "tha": "th",
    "tgl": "tl", "tur": "tr", "ukr": "uk", "urd": "ur", "uzb": "uz", "uzn": "uz", "vie": "vi",
    "zho": "zh",
}  # fmt: skip


def base_language(code: str) -> str:
    """Say which language a code means, without region and script.

    Args:
        code: as bundles write it: `de`, `pt-BR`, `zh_CN`, `deu_Latn`.

    Returns:
        ISO 639-1's code of a language that is known here, else the code's first part in small letters.
    """
    language = code.replace("_", "-").split("-")[0].casefold()
    return _OF_THREE_LETTERS.get(language, language)


def language_name(code: str) -> str:
    """Say a language's English name.

    Args:
        code: an ISO 639 code.

    Returns:
        The name, or the code if it has none here.
    """
    return NAMES.get(code) or NAMES.get(_OF_THREE_LETTERS.get(code.split("_")[0], ""), code)


@dataclass(frozen=True, slots=True)
class Detection:
    """A guess of the language of a text.

    Attributes:
        language: the code.
        confidence: 0 to 100.
    """

    language: str
    confidence: int


class Directions:
    """The directions a bundle translates. Thread-safe.

    Codes are compared without case, and a regional code falls back to its language: `en-GB` and `en_GB` mean
    `en` if only that is served.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Index the pairs.

        Args:
            pairs: (source, target) codes.
        """
        self._targets: dict[str, list[str]] = {}
        for source, target in pairs:
            self._targets.setdefault(source, []).append(target)
        codes = [*self._targets, *(target for targets in self._targets.values() for target in targets)]
        self.codes = tuple(dict.fromkeys(codes))

    @property
    def sources(self) -> tuple[str, ...]:
        """Codes that can be translated from."""
        return tuple(self._targets)

    def targets(self, source: str) -> tuple[str, ...]:
        """Codes that `source` can be translated to."""
        return tuple(self._targets.get(source, ()))

    def find(self, asked: str, field: str) -> str:
        """Find the served code that a client means.

        Args:
            asked: the code as the client wrote it.
            field: name of the field it came in, for the message.

        Raises:
            UnsupportedLanguageError: no direction has this language.
        """
        wanted = asked.strip().replace("_", "-").casefold()
        served = {code.replace("_", "-").casefold(): code for code in self.codes}
        # `en` and `en-GB` also mean a code with a script (`eng_Latn`), if no other has their language.
        plain = base_language(wanted)
        code = served.get(wanted) or served.get(wanted.split("-")[0])
        code = code or next((code for code in self.codes if base_language(code) == plain), None)
        if code is None:
            raise UnsupportedLanguageError(f"{field} is not a supported language; see GET /languages")
        return code

    def check(self, source: str, target: str) -> None:
        """Check that a direction is served; every served language goes into itself, unchanged.

        Raises:
            UnsupportedLanguageError: it is not.
        """
        if target not in self._targets.get(source, ()) and not (source == target and source in self.codes):
            raise UnsupportedLanguageError(
                f"{source} to {target} is not a supported direction; see GET /languages"
            )
