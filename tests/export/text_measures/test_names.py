"""Names that have another form in the other language, learnt from a text and its translation."""

from pathlib import Path

import pytest

from export.text_measures.names import translated_names
from model.tokenizer import Tokenizer
from model.vocabulary.learning import train_sentencepiece

PAIRS = [
    ("I live in Vienna.", "Ich lebe in Wien."),
    ("He went to Vienna.", "Er ging nach Wien."),
    ("Yesterday Vienna was cold.", "Gestern war es in Wien kalt."),
    ("I know Kowalski.", "Ich kenne Kowalski."),
    ("Ask Kowalski, not Novak.", "Frag Kowalski, nicht Novak."),
    ("This is Kowalski.", "Das ist Kowalski."),
    ("It is in Lisbon.", "Es ist in Lissabon."),
    ("The VAT is high.", "Die MwSt ist hoch."),
    ("Pay the VAT now.", "Zahl die MwSt jetzt."),
    ("The VAT, again.", "Wieder die MwSt."),
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    file = tmp_path_factory.mktemp("names") / "source.spm"
    lines = [line for pair in PAIRS for line in pair]
    train_sentencepiece(lines, file, vocab_size=330, kind="bpe", character_coverage=1.0)
    return Tokenizer.load(Path(file))


def test_a_name_is_translated_if_it_mostly_does_not_stand_in_the_translation(tokenizer: Tokenizer) -> None:
    found = translated_names([one for one, _ in PAIRS], [two for _, two in PAIRS], tokenizer)
    assert "Vienna" in found
    assert "VAT" in found
    assert "Kowalski" not in found  # copied
    assert "Lisbon" not in found  # seen once: that says nothing
    assert "Yesterday" not in found  # begins a sentence
