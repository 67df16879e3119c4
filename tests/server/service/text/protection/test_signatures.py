"""The name below a letter's last line is kept; labels and sentences are not taken for one."""

import pytest

from server.service.text.protection.signatures import keep_signatures
from server.service.text.reading.html import read_html
from server.service.text.reading.plain import read_plain
from server.service.text.segment import Segment


def kept(text: str, *, is_html: bool = False, language: str = "en") -> list[str]:
    """The texts of blocks that are spans as a whole."""
    blocks = read_html(text, language) if is_html else read_plain(text, language=language)
    blocks = keep_signatures(blocks, language)
    return [
        block.text
        for block in blocks
        if isinstance(block, Segment)
        and [(span.start, span.end) for span in block.spans] == [(0, len(block.text))]
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I will call you.\n\nBest regards,\nNoemí", "Noemí"),
        ("Mañana no hay clase.\r\n\r\nUn saludo,\r\nNoemí\r\n", "Noemí"),
        ("Bis dann.\n\nMit freundlichen Grüßen,\nEva Lund-Meyer", "Eva Lund-Meyer"),
        ("Nous arrivons.\n\nBien à vous,\n\nÉlodie R.", "Élodie R."),
        ("Thanks,\nMaya\nHead of sales", "Maya"),
        ("I need it today.\n\nThanks\nEva", "Eva"),
    ],
)
def test_a_name_below_a_closing_is_kept(text: str, name: str) -> None:
    assert kept(text) == [name]


def test_in_html_too() -> None:
    assert kept("<p>I need it.</p><p>Thanks<br>Eva</p>", is_html=True) == ["Eva"]
    assert kept("<p>I need it.</p><p>Thanks,</p><p><i>Eva</i></p>", is_html=True) == ["Eva"]


@pytest.mark.parametrize(
    "text",
    [
        "Thanks\nSorry",
        "Thank you\nNext\nPrevious",
        "Best regards,\nYour team",
        "Thanks,\nThe Editors",
        "Best regards,\nCustomer Service",
        "Thanks,\nsee you tomorrow",
        "Apples,\nPears",
        "Dear Eva,\nThanks",
        "I love all that you did for us in those years,\nEva",
        "Best wishes,\nHappy New Year",
        "Thank you,\nGod Bless",
        "Many thanks,\nDear John",
    ],
)
def test_other_lines_are_translated(text: str) -> None:
    assert kept(text) == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Merci,\nBonne Journée", "fr"),
        ("Danke,\nSchönes Wochenende", "de"),
        ("Gracias,\nBuenas Noches", "es"),
    ],
)
def test_a_greeting_of_usual_words_is_translated(text: str, language: str) -> None:
    assert kept(text, language=language) == []
