"""Names that a translation lost, or wrote in another way."""

from pathlib import Path

import pytest

from export.bundle import load_manifest
from model.tokenizer import Tokenizer
from server.engine.sequence import Hypothesis, SequenceResult
from server.service.models.loading import read_measured
from server.service.text.model_text import Measured, ModelText
from server.service.text.options import Way
from server.service.text.segment import Segment, Span, Target
from server.service.text.sentences import SentenceTranslator


@pytest.fixture(scope="module")
def tokenizer(repository: Path) -> Tokenizer:
    """That of the shipped English-German model."""
    return Tokenizer.load(repository / "bundles/en-de/source.spm")


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> ModelText:
    """The text side of the shipped English-German model, without lexical tables and lists."""
    return ModelText(tokenizer, 128)


@pytest.fixture(scope="module")
def listing(tokenizer: Tokenizer) -> ModelText:
    """The same with a list of names that are translated."""
    return ModelText(tokenizer, 128, measured=Measured(translated_names=frozenset(["Vienna"])))


def lost(
    model: ModelText, source: str, target: str, language: str = "en", spans: tuple[Span, ...] = ()
) -> list[str]:
    found = model.names.lost(Segment(source, spans), Target(target), language)
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
    listing: ModelText, target: str, expected: list[str]
) -> None:
    assert lost(listing, "I met Kowalski in Vienna.", target) == expected


def test_a_protected_name_is_not_lost(model: ModelText) -> None:
    assert lost(model, "I met Kowalski there.", "Ich traf ihn dort.", spans=(Span(6, 14),)) == []


@pytest.mark.parametrize(
    ("source", "target", "language", "expected"),
    [
        ("Rosalind Achterberg called.", "Die Rosine rief an.", "en", ["Rosalind Achterberg"]),
        ("Achterberg called.", "Die Berge riefen an.", "en", []),  # may be any word
        ("Unfortunately Achterberg called.", "Leider rief er an.", "en", ["Achterberg"]),
        ("Lars Henriksen lebt hier.", "Lars Henrikes lives here.", "de", ["Henriksen"]),
        ("Lars Henriksen lebt hier.", "Lars Henriksen lives here.", "de", []),
        ("Er sieht Toms Photosynthese.", "He sees Tom's garden.", "de", []),  # nothing looks like it
        ("Maria Gonzalez lebt hier.", "Mary gonzalezalez lives here.", "de", ["Gonzalez"]),
        ("I met John Whitaker there.", "Ich traf Johannes Whitaker.", "en", ["John"]),
        ("Maria Henriksen lebt hier.", "Mary Henriksen lives here.", "de", ["Maria"]),
        ("Der Erfinder Henriksen lebt hier.", "The inventor Henriksen.", "de", []),
        ("Das ist Herr Koch.", "This is Mr. Cook.", "de", ["Koch"]),
        ("Das ist Frau Dr. Seidel.", "This is Mr. Shuth.", "de", ["Seidel"]),
        ("Ist Herr Präsident da?", "Is Mr President there?", "de", []),
        ("La señora Paz vive.", "Mrs. Peace lives.", "es", ["Paz"]),
        ("This is Mr. Cook now.", "C'est M. Cuisine.", "en", ["Cook"]),
        ("This is Mr. Whitaker now.", "Это господин Уитакер.", "en", []),  # written in other letters
        ("I met Mr Whitaker there.", "Ich traf Herrn Whitaker.", "en", []),
        ("I met the German Whitaker there.", "Ich traf den deutschen Whitaker.", "en", []),
        ("Select Whitaker there.", "Nimm Whitaker.", "en", []),  # known with a small letter, too
        ("Der Henriksen lebt hier.", "The Henrikes lives here.", "de", []),
        ("Die Microsoft Authenticator-App hilft.", "The Microsoft authenticator app.", "de", []),
    ],
)
def test_full_names_count_where_a_capital_says_nothing(
    listing: ModelText, source: str, target: str, language: str, expected: list[str]
) -> None:
    assert lost(listing, source, target, language) == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("I met Kowalski there.", "Ich traf dort kowalski.", "Ich traf dort Kowalski."),
        ("I met Kowalski there.", "Ich traf dort den kowalskis.", "Ich traf dort den kowalskis."),
        ("I met Kowalski there.", "Siehe x/kowalski und @kowalski.", "Siehe x/kowalski und @kowalski."),
        ("Achterberg called.", "Es rief achterberg.", "Es rief achterberg."),  # begins the sentence
        ("See (NASDAQ) or KETTARA there.", "Siehe (nasdaq), kettara.", "Siehe (NASDAQ), KETTARA."),
        ("It is TERRIBLE there.", "Es ist terrible.", "Es ist terrible."),
        ("Rosalind Achterberg called.", "Rosalind achterberg.", "Rosalind Achterberg."),
        ("Go to Sales there.", "Gehe zu sales.", "Gehe zu sales."),  # a word that the model knows
        ("I MET KOWALSKI THERE.", "Ich traf kowalski.", "Ich traf kowalski."),
    ],
)
def test_names_get_their_capital_back(listing: ModelText, source: str, target: str, expected: str) -> None:
    assert listing.shaped(Segment(source), Target(target), "en", "de").text == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Ich traf Drumashel dort.", "I met drumashel there.", "I met Drumashel there."),
        ("Ich mag Handball dort.", "I like handball there.", "I like handball there."),  # a noun, as most are
        ("Drumashel kam.", "Then drumashel came.", "Then drumashel came."),
    ],
)
def test_german_words_of_many_pieces_are_names(
    listing: ModelText, source: str, target: str, expected: str
) -> None:
    assert listing.shaped(Segment(source), Target(target), "de", "en").text == expected


def test_what_is_protected_keeps_its_letters(listing: ModelText) -> None:
    target = Target("Ich traf kowalski.", (Span(9, 17),))
    assert listing.shaped(Segment("I met Kowalski there."), target, "en", "de") == target


def test_a_name_that_was_translated_is_no_loss(repository: Path) -> None:
    bundle = repository / "bundles/fr-en"
    tokenizer = Tokenizer.load(*load_manifest(bundle).tokenizer.paths(bundle))
    text = load_manifest(bundle).text
    assert text is not None
    measured = Measured(translated_names=frozenset(text.translated_names))
    translator = SentenceTranslator(ModelText(tokenizer, 128, None, measured))
    job = translator.translate(Segment("Tom déteste Noël."), Way("fr", "en"))
    asked = next(job)
    with pytest.raises(StopIteration) as ended:
        for answer in ("Tom hates Christmas.", "Tom hates PH1."):  # the second one keeps the mask of `Noël`
            (ids,) = tokenizer.encode_target_batch([answer])
            hypothesis = Hypothesis(tuple(ids), -0.5)
            result = SequenceResult((hypothesis,), "eos", len(asked[0].ids), len(ids), 0.0, 0.0, 0.0)
            asked = job.send([result])
    assert ended.value.value.texts == ("Tom hates Christmas.",)
    assert ended.value.value.guards == ()


@pytest.fixture(scope="module")
def spanish(repository: Path) -> ModelText:
    """The text side of the shipped Spanish-English model."""
    return shipped(repository / "bundles/es-en")


def shipped(bundle: Path) -> ModelText:
    tokenizer = Tokenizer.load(bundle / "source.spm")
    return ModelText(tokenizer, 128, measured=read_measured(bundle, load_manifest(bundle), tokenizer))


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Luis de Guindos llegó.", "Guindos arrived.", ["Luis de Guindos"]),
        ("Viven en Jerez de la Frontera.", "They live in Jerez of the frontera.", ["Jerez de la Frontera"]),
        ("Viven en Jerez de la Frontera.", "They live in Jerez de la Frontera.", []),
        ("Con Vicente del Bosque y su hijo.", "With Vicente of the Bosque.", ["Vicente del Bosque"]),
        ("Con Valérie d'Astier.", "With Valérie of Astier.", ["Valérie d'Astier"]),
        ("Es la Universidad de Sevilla.", "It is the University of Sevilla.", []),
        ("El Ministerio de Educación calla.", "The Ministry of Education is silent.", []),
        ("Con Felipe de España.", "With Felipe of Spain.", []),
        ("Vivienda de Protección Oficial", "Official protected housing", []),
    ],
)
def test_names_with_particles_stay_whole(
    spanish: ModelText, source: str, target: str, expected: list[str]
) -> None:
    assert lost(spanish, source, target, "es") == expected


@pytest.fixture(scope="module")
def german(repository: Path) -> ModelText:
    """The text side of the shipped German-English model."""
    return shipped(repository / "bundles/de-en")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Er traf Karl von Habsburg.", "He met Karl from Habsburg.", ["Karl von Habsburg"]),
        ("Der Präsident von Kasachstan kam.", "The president of Kazakhstan came.", []),
        ("Frau Müller sieht Toms Photosynthese.", "Mrs. Müller sees Tom's garden.", []),
        ("Er war in Geschäftsdingen erfahren.", "He was experienced in business.", []),
        ("Er wohnt in Hamburg.", "He lives in Hamburg.", []),
        ("Sie arbeitet in den Kaufhausen.", "She works in stores.", []),
        ("Sie kam mit ihrer Tochter Wiebke.", "She came with her daughter.", ["Wiebke"]),
    ],
)
def test_german_full_names(german: ModelText, source: str, target: str, expected: list[str]) -> None:
    assert lost(german, source, target, "de") == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Según R. Montoro, terminarán.", "According to R. Montor, they will end.", ["R. Montoro"]),
        ("Nuestro portero, Unai Pastor, paró.", "Our goalkeeper, Ai Pastor, stopped.", ["Unai Pastor"]),
        ("Es de Quang Hùng Lê.", "It is Quang Hùng Lenv's.", ["Quang Hùng Lê"]),
        ("Llegó Eusebio Ibarrola.", "There came Eusebio Ibarrolalate.", ["Eusebio Ibarrola"]),
        ("Ayer vi a Mamadou Traoré.", "Yesterday I saw Traoré Mamadou.", ["Mamadou Traoré"]),
        ("Las Naciones Unidas callan.", "The United Nations are silent.", []),
        ("El Plan Nacional sigue.", "The National Plan goes on.", []),
        ("El perro se llama Trasto y duerme.", "The dog is called after and sleeps.", ["Trasto"]),
    ],
)
def test_full_names_are_kept_letter_by_letter(
    spanish: ModelText, source: str, target: str, expected: list[str]
) -> None:
    assert lost(spanish, source, target, "es") == expected
