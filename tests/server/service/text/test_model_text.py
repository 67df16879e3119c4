"""What the text layer knows of a shipped model: names that may not get lost, and where sentences are cut."""

from pathlib import Path

import pytest

from export.bundle import load_manifest
from export.lexicon import Lexicon
from model.tokenizer import Tokenizer
from server.service.text.model_text import Measured, ModelText
from server.service.text.segment import Segment, Span, Target


@pytest.fixture(scope="module")
def model(repository: Path) -> ModelText:
    """The text side of the shipped English-German model, without lexical tables."""
    return ModelText(Tokenizer.load(repository / "bundles/en-de/source.spm"), 128)


def lost(
    model: ModelText, source: str, target: str, language: str = "en", spans: tuple[Span, ...] = ()
) -> list[str]:
    found = model.lost_names(Segment(source, spans), Target(target), language)
    return [source[span.start : span.end] for span in found]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("I met Kowalski and Xiaowei there.", "Ich traf dort Leute.", ["Kowalski", "Xiaowei"]),
        ("I met Kowalski and Xiaowei there.", "Ich traf Xiaowei und Kowalski.", []),
        ("He works for NATO and UNESCO now.", "Er arbeitet jetzt für alle.", ["NATO", "UNESCO"]),
        ("The EU summit was long.", "Der Gipfel war lang.", ["EU"]),
        ("I read Jean-Baptiste Poquelin today.", "Ich las heute.", ["Jean-Baptiste", "Poquelin"]),
        ("They went to Constantinople.", "Sie gingen nach Constantinopel.", []),
        ("These are Kowalski's cats.", "Das sind die Katzen von Kowalski.", []),
        ("The EU summit was long.", "Der eu Gipfel.", ["EU"]),
        ("It has no UUID yet.", "Es hat keine UUIDs.", []),
        ("NATO and the UN are here.", "OTAN et ONU sont là.", []),
        ("Please ask Ms. Abernathy or Dr. Kowalski.", "Frage Ms. Abernathie.", ["Abernathy", "Kowalski"]),
        ("JavaScript runs on iOS, useState does not.", "Es läuft.", ["JavaScript", "iOS", "useState"]),
    ],
)
def test_names_that_a_translation_has_not(
    model: ModelText, source: str, target: str, expected: list[str]
) -> None:
    assert lost(model, source, target) == expected


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ("Slippery roads are bad.", "en"),  # begins the sentence
        ('The sign said "Slippery when wet."', "en"),
        ("¿Vendrías conmigo? ¡Levantate!", "es"),
        ("Hola, ¿Quédense?", "es"),
        ("Ich habe Durst und Heimweh.", "de"),  # nouns have capitals
        ("I come here every Fourth of July.", "en"),  # known without its capital
        ("It was OK, and I saw it on TV.", "en"),  # has other words elsewhere
        ("IT WAS SLIPPERY KOWALSKI.", "en"),
        ("If I knew, I'd tell you that I’ll go and I've been.", "en"),
        ("no names in here", "en"),
    ],
)
def test_a_capital_alone_makes_no_name(model: ModelText, source: str, language: str) -> None:
    assert lost(model, source, "Ganz etwas anderes.", language) == []


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


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("Ich traf Kowalski in Wien.", []),
        ("Das ist Kowalskis Haus in Wien.", []),  # with an ending
        ("Ich traf Kowalsik in Wien.", ["Kowalski"]),
        ("Ich traf ihn.", ["Kowalski"]),
    ],
)
def test_the_exporter_says_which_names_are_translated(
    repository: Path, target: str, expected: list[str]
) -> None:
    tokenizer = Tokenizer.load(repository / "bundles/en-de/source.spm")
    model = ModelText(tokenizer, 128, measured=Measured(translated_names=frozenset(["Vienna"])))
    assert lost(model, "I met Kowalski in Vienna.", target) == expected


def test_a_protected_name_is_not_lost(model: ModelText) -> None:
    assert lost(model, "I met Kowalski there.", "Ich traf ihn dort.", spans=(Span(6, 14),)) == []


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
