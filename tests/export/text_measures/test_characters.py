"""Characters that have a piece of their own and yet do not come out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from export.bundle import load_manifest
from export.text_measures.characters import lost_characters
from export.text_measures.dev_translator import DevTranslator

TEXTS = [
    "The old man is reading a book.",
    "We have to go home now.",
    "She bought a new car yesterday.",
    "I do not know what to say.",
    "Where did you find the key?",
    "My sister works in a bank.",
    "They will be here in a minute.",
    "He has never been to Boston.",
]


def test_what_the_shipped_model_cannot_write_is_found(repository: Path) -> None:
    bundle = repository / "bundles/en-de"
    translator = DevTranslator.of_bundle(bundle, load_manifest(bundle))
    outputs = translator.translate(TEXTS, "texts")
    lost = lost_characters(translator, TEXTS, outputs)
    assert set("ÇŠ¶").issubset(lost)
    assert "ä" not in lost
    assert not any(one.isascii() and one.isalnum() for one in lost)
    assert lost_characters(translator, ["No."], ["Nein."]) == ""  # no sentence to put them in
    assert "Ç" not in lost_characters(translator, [*TEXTS, "ç" * 5], outputs)  # usual in the language


class Transliterator:
    """A perfect model of a source in Cyrillic letters, which writes none of them."""

    _LATIN = str.maketrans({"ъ": "", "щ": "shch", "о": "o", "б": "b", "э": "e", "ё": "yo"})

    def __init__(self) -> None:
        self.tokenizer = self

    def source_pieces(self) -> list[str]:
        return ["<unk>", "▁", *"ъщоёбэ", "§", "#", "Ç", "ω"]

    def translate(self, texts: Sequence[str], what: str) -> list[str]:
        return [text.translate(self._LATIN).translate(str.maketrans("Çω", "CX", "§")) for text in texts]


def test_letters_that_the_target_is_not_written_in_are_not_lost() -> None:
    model = Transliterator()
    texts = ["он был очень добр ко мне", "мы идём домой вместе с ними"]
    outputs = [*["he was very kind to me", "we are going home with them"] * 30, "Ёлка"]
    assert lost_characters(cast(Any, model), texts, outputs) == "§Çω"
