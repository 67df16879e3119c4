"""Ordinals that a translation has as its source has them get the form of its language."""

import pytest

from server.service.text.output.ordinals import localized


@pytest.mark.parametrize(
    ("languages", "source", "text", "expected"),
    [
        ("en-de", "The 2nd and 3rd floors.", "Die 2nd und 3rd Etage.", "Die 2. und 3. Etage."),
        ("en-de", "It is on the 22nd.", "Es ist am 22nd.", "Es ist am 22."),
        ("en-fr", "The 1st and 2nd.", "Le 1st et 2nd.", "Le 1er et 2e."),
        ("en-es", "On the 3rd floor.", "En el 3rd piso.", "En el 3.º piso."),
        ("fr-en", "Le 1er, 2e, 3ème et 11e.", "The 1er, 2e, 3ème and 11e.", "The 1st, 2nd, 3rd and 11th."),
        ("fr-en", "La 3ème et la 12e.", "The 3th and 12nd.", "The 3rd and 12th."),
        ("es-en", "El 3.º B y la 4ª.", "The 3.º B and 4ª.", "The 3.º B and 4th."),
        ("en-de", "On 5th Avenue.", "Auf der 5th Avenue.", "Auf der 5th Avenue."),
        ("en-de", "It has 3.", "80er und 3rd.", "80er und 3rd."),
        ("de-en", "Der 3. Mai", "3. May", "3. May"),
        ("en-pl", "The 2nd.", "2nd.", "2nd."),
    ],
)
def test_ordinals_get_the_form_of_the_language(languages: str, source: str, text: str, expected: str) -> None:
    assert localized(text, source, *languages.split("-")) == expected
