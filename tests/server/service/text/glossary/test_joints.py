"""What depends on a word's first sound follows it."""

import pytest

from server.service.text.glossary.joints import joint


@pytest.mark.parametrize(
    ("before", "new", "language", "expected"),
    [
        ("I saw a ", "eagle", "en", "I saw an "),
        ("An ", "dog", "en", "A "),
        ("I saw a ", "cat", "en", "I saw a "),
        ("It is an ", "LED lamp", "en", "It is an "),
        ("It is a ", "NATO base", "en", "It is a "),
        ("It is a ", "L'Oréal cream", "en", "It is a "),
        ("It is an ", "Ångström", "en", "It is an "),
        ("Plan A ", "orange", "en", "Plan A "),
        ("Wow! A ", "orange", "en", "Wow! An "),
        ("THIS IS AN ", "APPLE", "en", "THIS IS AN "),
        ("la ", "école", "fr", "l'"),
        ("C'est que ", "elle", "fr", "C'est qu'"),
        ("un verre d'", "vin", "fr", "un verre de "),
        ("le ", "yack", "fr", "le "),
        ("une ", "école", "fr", "une "),
        ("una ", "escuela", "es", "una "),
    ],
)
def test_it_fits(before: str, new: str, language: str, expected: str) -> None:
    found = joint(before, new, language)
    assert found is not None
    assert before[: len(before) - found[0]] + found[1] == expected


@pytest.mark.parametrize(
    ("article", "words"),
    [
        ("a", "user unit union European one-way UFO URL yacht ukulele house Honolulu 110"),
        ("an", "umbrella uninstaller usher onion hour honour heir honest HTML MP3 X-ray 8-bit 11-year"),
    ],
)
def test_the_english_article_is_that_of_the_sound(article: str, words: str) -> None:
    for word in words.split():
        for before in ("a ", "an "):
            found = joint(f"It is {before}", word, "en")
            assert found is not None
            assert before[: len(before) - found[0]] + found[1] == f"{article} ", word


@pytest.mark.parametrize(
    ("words", "full", "elided"),
    [
        (
            "homme héroïne hôtel huile huître habitant halogène haltérophile hypothèse hôpital humain yeux",
            None,
            ("l'", "d'", "de l'", "À l'", "cet "),
        ),
        (
            "héros haricot hibou hasard haut huit onze yaourt Yémen hub hotspot hype husky HD helpdesk",
            ("le ", "de ", "du ", "Au ", "ce "),
            None,
        ),
    ],
)
def test_french_words_with_an_h_that_is_mute_elide(
    words: str, full: tuple[str, ...] | None, elided: tuple[str, ...] | None
) -> None:
    for word in words.split():
        for number, before in enumerate(("le ", "de ", "du ", "Au ", "ce ")):
            found = joint(before, word, "fr")
            assert found is not None
            assert before[: len(before) - found[0]] + found[1] == (full or elided or ())[number], word
        assert joint("d'", word, "fr") == ((0, "") if elided else (2, "de ")), word
        assert joint("cet ", word, "fr") == ((0, "") if elided else (4, "ce ")), word


def test_an_article_that_lost_its_gender_is_nobodys_guess() -> None:
    assert joint("de l'", "vin", "fr") is None
    assert joint("l'", "héros", "fr") is None
