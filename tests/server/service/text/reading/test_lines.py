"""What stands at the start of a line: list marks and numbers, not abbreviations."""

import pytest

from server.service.text.reading.plain import read_plain
from server.service.text.segment import Segment


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("Z. B. kann man das machen.", "de"),
        ("D. h. morgen.", "de"),
        ("i. d. R. geht es.", "de"),
        ("P. ej. esto.", "es"),
        ("M. Dupont est arrivé.", "fr"),
    ],
)
def test_a_sentence_may_begin_with_an_abbreviation(line: str, language: str) -> None:
    (block,) = read_plain(line, language=language)
    assert isinstance(block, Segment)
    assert block.text == line


@pytest.mark.parametrize(
    "line", ["a) Erstens", "a. Erstens", "I. Einleitung", "D. None of these", "iv. Ende"]
)
def test_a_letter_is_a_list_number(line: str) -> None:
    assert [block.text for block in read_plain(line, language="de") if isinstance(block, Segment)] == [
        line.split(" ", 1)[1]
    ]
