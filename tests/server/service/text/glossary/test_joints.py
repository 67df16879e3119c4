"""What depends on a word's first letter follows it."""

import pytest

from server.service.text.glossary.joints import joint


@pytest.mark.parametrize(
    ("before", "old", "new", "language", "expected"),
    [
        ("I saw a ", "dog", "eagle", "en", "I saw an "),
        ("An ", "eagle", "dog", "en", "A "),
        ("I saw a ", "dog", "cat", "en", "I saw a "),
        ("la ", "maison", "école", "fr", "l'"),
        ("C'est que ", "tu", "elle", "fr", "C'est qu'"),
        ("un verre d'", "eau", "vin", "fr", "un verre de "),
        ("le ", "chien", "yack", "fr", "le "),
        ("une ", "maison", "école", "fr", "une "),
        ("una ", "casa", "escuela", "es", "una "),
    ],
)
def test_it_fits(before: str, old: str, new: str, language: str, expected: str) -> None:
    found = joint(before, old, new, language)
    assert found is not None
    assert before[: len(before) - found[0]] + found[1] == expected


def test_an_article_that_lost_its_gender_is_nobodys_guess() -> None:
    assert joint("de l'", "eau", "vin", "fr") is None
