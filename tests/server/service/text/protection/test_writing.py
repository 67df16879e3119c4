"""Spans and tags come where they are put, and text is escaped once."""

import pytest

from server.service.text.protection.writing import escaped, write
from server.service.text.segment import Escape, Span, Tag


@pytest.mark.parametrize(
    ("escape", "expected"),
    [
        ("none", "<\"&'\u00a0>"),
        ("html", "&lt;\"&amp;'&nbsp;&gt;"),
        ("attribute", "&lt;&quot;&amp;&#x27;&nbsp;&gt;"),
    ],
)
def test_text_is_escaped_once(escape: Escape, expected: str) -> None:
    assert escaped("<\"&'\u00a0>", escape) == expected
    assert write("<\"&'\u00a0>", (), (), escape) == expected


@pytest.mark.parametrize(
    ("escape", "text", "expected"),
    [
        ("message", "l'aube de {0} n'a '{'rien'}'", "l''aube de {0} n''a '{'rien'}'"),
        ("message", "l'{0,date,'le' d}", "l''{0,date,'le' d}"),
        ("icu", "l'aube de l'# et l'{0}", "l'aube de l''# et l''{0}"),
        ("icu", "'{'l'aube'}' des chiens'", "'{'l'aube'}' des chiens''"),
    ],
)
def test_apostrophes_of_messages_are_doubled(escape: Escape, text: str, expected: str) -> None:
    assert escaped(text, escape) == expected


def test_tags_and_spans_are_written_at_their_places() -> None:
    spans = (Span(2, 5, "<x/>"), Span(6, 7))
    tags = [
        (0, Tag(0, "<b>")),
        (2, Tag(2, "<i>")),
        (4, Tag(4, "</i>")),
        (6, Tag(6, "\n")),
        (7, Tag(7, "</b>")),
    ]
    assert write("a {x} &", spans, tags, "html") == "<b>a <i><x/></i>\n&amp;</b>"


def test_a_part_is_written_with_the_tags_at_its_ends() -> None:
    spans = (Span(0, 1, "A"), Span(2, 3, "B"), Span(4, 5, "C"))
    tags = [(0, Tag(0, "<b>")), (5, Tag(5, "</b>"))]
    assert write("a b c", spans, tags, "none", 1, 4) == "<b> B </b>"
    assert write("a b c", (*spans, Span(5, 5, "D")), (), "none", 2) == "B CD"
