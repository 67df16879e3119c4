"""Characters that have a piece of their own and yet do not come out."""

from pathlib import Path

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
    lost = lost_characters(translator, TEXTS)
    assert set("ÇŠ¶").issubset(lost)
    assert "ä" not in lost
    assert not any(one.isascii() and one.isalnum() for one in lost)
    assert lost_characters(translator, ["No."]) == ""  # no sentence to put them in
    assert "Ç" not in lost_characters(translator, [*TEXTS, "ç" * 5])  # usual in the language
