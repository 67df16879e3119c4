"""Masks: where they go, and what counts as copied."""

from __future__ import annotations

import pytest

from export.bundle import Mask
from export.text_measures.masks import MIN_NAMES, find_places, is_copied

MASK = Mask(template="PH{n}", copied=1, both_copied=1, agreement=100)


@pytest.mark.parametrize(
    ("output", "copied"),
    [
        ("PH1 trinkt.", True),
        ("Er kennt PH1.", True),
        ("(PH1)", True),
        ("Er trinkt.", False),
        ("PH1 und PH1 trinken.", False),
        ("PH11 trinkt.", False),
        ("XPH1 trinkt.", False),
        ("PH1 und PH12", False),
        ("PH 1 trinkt.", False),
    ],
)
def test_a_mask_is_copied_once_and_as_a_word(output: str, copied: bool) -> None:
    assert is_copied(output, "PH1") is copied


def test_masks_go_in_the_place_of_names() -> None:
    texts = ["Tom sees Mary again.", "I know Tom.", "He sings.", "No."]
    outputs = ["Tom sieht Mary wieder.", "Ich kenne Tom.", "Er singt.", "Nein."]
    places = find_places(texts, outputs)
    assert [(place.word, place.second) for place in places] == [
        ("Tom", "again"),
        ("Tom", "know"),
        ("sings", None),
    ]
    assert places[0].masked(MASK) == "PH1 sees Mary again."
    assert places[0].masked_twice(MASK) == "PH1 sees Mary PH2."
    assert places[0].output == outputs[0]


def test_with_many_names_nothing_else_is_replaced() -> None:
    texts = ["He sings loudly.", *["Tom sings."] * MIN_NAMES]
    outputs = ["Er singt laut.", *["Tom singt."] * MIN_NAMES]
    assert {place.word for place in find_places(texts, outputs)} == {"Tom"}


def test_a_word_that_stands_twice_is_not_replaced() -> None:
    assert find_places(["Tom, Tomas and Tom: no."], ["Tom, Tomas und Tom: nein."])[0].word == "Tomas"
    assert find_places(["", "42", "me"], ["", "42", "mich"]) == []
