import pytest

from server.errors import UnsupportedLanguageError
from server.service.text.languages import Detector, Directions, language_name

DIRECTIONS = Directions([("en", "de"), ("en", "pt-BR"), ("fr", "de")])


@pytest.mark.parametrize("asked", ["en", "EN", " en ", "en-GB", "en_US"])
def test_codes_are_found_without_case_and_region(asked: str) -> None:
    assert DIRECTIONS.find(asked, "source") == "en"


def test_a_served_region_is_found_as_such() -> None:
    assert DIRECTIONS.find("pt_br", "target") == "pt-BR"


@pytest.mark.parametrize("asked", ["zz", "", "../../etc/passwd", "e" * 10_000, "de; DROP TABLE"])
def test_unknown_codes_are_refused_without_repeating_them(asked: str) -> None:
    with pytest.raises(UnsupportedLanguageError) as caught:
        DIRECTIONS.find(asked, "source")
    assert str(caught.value) == "source is not a supported language; see GET /languages"


def test_only_served_directions_pass() -> None:
    DIRECTIONS.check("fr", "de")
    with pytest.raises(UnsupportedLanguageError, match="fr to pt-BR"):
        DIRECTIONS.check("fr", "pt-BR")
    with pytest.raises(UnsupportedLanguageError):
        DIRECTIONS.check("de", "en")


def test_every_language_is_listed_once() -> None:
    assert DIRECTIONS.codes == ("en", "fr", "de", "pt-BR")
    assert DIRECTIONS.targets("en") == ("de", "pt-BR")
    assert DIRECTIONS.targets("de") == ()


def test_names_fall_back_to_the_code() -> None:
    assert language_name("de") == "German"
    assert language_name("tlh") == "tlh"


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector()


def test_detection_ranks_the_candidates(detector: Detector) -> None:
    found = detector.rank("Wo ist hier der Bahnhof, bitte?", ["en", "de"])
    assert [guess.language for guess in found] == ["de", "en"]
    assert found[0].confidence > 80


def test_a_text_in_no_candidate_gets_a_low_confidence(detector: Detector) -> None:
    assert detector.rank("これは日本語の文です。", ["en", "de"])[0].confidence < 10


@pytest.mark.parametrize("text", ["", "   ", "123 456", "😀", "\u200b"])
def test_without_letters_the_first_candidate_is_guessed_with_no_confidence(
    detector: Detector, text: str
) -> None:
    found = detector.rank(text, ["en", "de"])
    assert (found[0].language, found[0].confidence) == ("en", 0)


def test_languages_unknown_to_the_model_come_last(detector: Detector) -> None:
    assert [guess.language for guess in detector.rank("hello there", ["x-klingon", "en"])] == [
        "en",
        "x-klingon",
    ]
