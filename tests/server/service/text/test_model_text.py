"""What the text layer knows of a shipped model: names that may not get lost, and where sentences are cut."""

from pathlib import Path

import pytest

from export.bundle import load_manifest
from export.lexicon import Lexicon
from model.tokenizer import Tokenizer
from server.service.text.model_text import Measured, ModelText
from server.service.text.segment import Segment


@pytest.fixture(scope="module")
def model(repository: Path) -> ModelText:
    """The text side of the shipped English-German model, without lexical tables."""
    return ModelText(Tokenizer.load(repository / "bundles/en-de/source.spm"), 128)


def test_what_accounts_worse_for_its_source_is_told(repository: Path) -> None:
    bundle = repository / "bundles/fr-en"
    tokenizer = Tokenizer.load(*load_manifest(bundle).tokenizer.paths(bundle))
    sizes = tokenizer.source_vocab_size, tokenizer.target_vocab_size
    lexicon = Lexicon.load(bundle / "lexicon.npz", *sizes)
    french = ModelText(tokenizer, 128, measured=Measured(lexicon=lexicon))
    source, right, wrong = "Tom aime les chiens.", "Tom likes dogs.", "Tom likes chiens."
    assert french.accounts_worse(source, wrong, right)
    assert not french.accounts_worse(source, right, wrong)
    assert not ModelText(tokenizer, 128).accounts_worse(source, "Tom.", right)


def test_a_segment_is_cut_where_the_model_is_no_longer_good(model: ModelText) -> None:
    text = "When the old man came home late at night, the dog was sleeping in front of the door."
    assert model.clause_borders(Segment(text), "en") == []
    (border,) = model.clause_borders(Segment(text), "en", 14)
    assert text[border:].startswith("the dog")


def test_what_the_exporter_measured_is_used(repository: Path) -> None:
    tokenizer = Tokenizer.load(repository / "bundles/en-de/source.spm")
    text = " ".join(f"I saw {word}, and I left." for word in ("one", "two", "three", "four", "five", "six"))
    for limits in (Measured(), Measured(comfortable_tokens=12)):
        borders = ModelText(tokenizer, 40, None, limits).clause_borders(Segment(text), "en")
        most = limits.comfortable_tokens or 32
        parts = [text[start:end] for start, end in zip([0, *borders], [*borders, len(text)], strict=True)]
        assert max(len(tokenizer.encode(part)) for part in parts) <= most
    assert ModelText(tokenizer, 400).clause_borders(Segment(text), "en") == []


def test_three_points_are_read_as_one_character(model: ModelText) -> None:
    text = "Well... I know... it."
    assert model.forms(text, as_it_stands=False) == [("Well… I know… it.", False)]
    assert model.forms(text, as_it_stands=True) == [(text, False)]
    assert model.forms("So....  Wait...", as_it_stands=False) == [("So....  Wait...", False)]
