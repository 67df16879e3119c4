import pytest

from server.errors import UnsupportedLanguageError
from server.service.text.languages import Directions, language_name

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


def test_every_served_language_goes_into_itself() -> None:
    DIRECTIONS.check("de", "de")
    with pytest.raises(UnsupportedLanguageError):
        DIRECTIONS.check("it", "it")


def test_every_language_is_listed_once() -> None:
    assert DIRECTIONS.codes == ("en", "fr", "de", "pt-BR")
    assert DIRECTIONS.targets("en") == ("de", "pt-BR")
    assert DIRECTIONS.targets("de") == ()


def test_names_fall_back_to_the_code() -> None:
    assert language_name("de") == "German"
    assert language_name("tlh") == "tlh"
    assert language_name("deu_Latn") == "German"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("eng_Latn", "eng_Latn"),
        ("eng-latn", "eng_Latn"),
        ("en", "eng_Latn"),
        ("en-GB", "eng_Latn"),
        ("zh", "zho_Hans"),
        ("zho_Hant", "zho_Hant"),
        ("zh-CN", "zho_Hans"),
    ],
)
def test_a_code_with_a_script_is_found_by_its_language(asked: str, code: str) -> None:
    many = Directions([("eng_Latn", "zho_Hans"), ("eng_Latn", "zho_Hant"), ("zho_Hans", "eng_Latn")])
    assert many.find(asked, "source") == code
