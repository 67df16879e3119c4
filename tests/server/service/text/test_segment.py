"""Offsets stay right through cuts and edits."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.segment import Segment, Span, Tag, Target, is_usual


def test_a_cut_gives_each_tag_to_the_characters_that_it_belongs_to() -> None:
    text = "One. Two."
    tags = (
        Tag(0, "<b>", 0, opens=True),
        Tag(5, "</b>", 0),
        Tag(5, "<br>"),
        Tag(5, "<i>", 1, opens=True),
        Tag(9, "</i>", 1),
    )
    first, second = Segment(text, (Span(5, 8),), tags).cut([5])
    assert (first.text, [tag.output for tag in first.tags], first.spans) == ("One. ", ["<b>", "</b>"], ())
    assert (second.text, [tag.output for tag in second.tags]) == ("Two.", ["<br>", "<i>", "</i>"])
    assert second.spans == (Span(0, 3),)


def test_an_element_that_opens_and_closes_at_a_border_is_not_turned_around() -> None:
    tags = (Tag(2, "<b>", 0, opens=True), Tag(2, "</b>", 0))
    first, second = Segment("a b ", (), tags).cut([2])
    assert [tag.output for tag in (*first.tags, *second.tags)] == ["<b>", "</b>"]


def test_edits_move_spans_and_tags() -> None:
    segment = Segment("a\u00adb  {x} c", (Span(5, 8),), (Tag(1, "<i>", 0, True), Tag(9, "</i>", 0)))
    edited = segment.edited([(1, 2, ""), (3, 5, " ")])
    assert edited.text == "ab {x} c"
    assert edited.text[edited.spans[0].start : edited.spans[0].end] == "{x}"
    assert [tag.at for tag in edited.tags] == [1, 7]


def test_edits_move_the_spans_of_a_translation() -> None:
    target = Target("a {x} b.", (Span(2, 5),)).edited([(0, 1, "long"), (7, 8, "")])
    assert (target.text, target.spans) == ("long {x} b", (Span(5, 8),))
    target = Target("{x}", (Span(0, 3),)).edited([(0, 0, "¿"), (3, 3, "?")])
    assert (target.text, target.spans) == ("¿{x}?", (Span(1, 4),))


@pytest.mark.parametrize(
    "text", ["Good morning.", "It's here, isn't it?", "Kommt ihr, Anna-Lena", "À l’école!"]
)
def test_words_commas_and_a_final_mark_are_usual(text: str) -> None:
    assert is_usual(text)
    unusual = (f"({text})", f"{text[:-1]} 5", f'"{text}"', f"{text}!!", f"{text}\ufffd", f"{text}. {text}")
    assert not any(map(is_usual, unusual))


def test_looking_for_what_is_usual_takes_linear_time() -> None:
    started_s = time.thread_time()
    assert not is_usual("ab, cd-ef " * 20_000 + "(")
    assert time.thread_time() - started_s < 1


@given(st.text(max_size=40), st.data())
def test_parts_joined_are_the_segment(text: str, data: st.DataObject) -> None:
    offsets = st.integers(1, max(1, len(text) - 1))
    borders = sorted(set(data.draw(st.lists(offsets, max_size=6)))) if len(text) > 1 else []
    at = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    kinds = [data.draw(st.sampled_from([(-1, False), (0, True), (0, False)])) for _ in at]
    tags = tuple(
        Tag(a, str(i), pair, opens) for i, (a, (pair, opens)) in enumerate(zip(at, kinds, strict=True))
    )
    parts = Segment(text, (), tags).cut(borders)
    assert "".join(part.text for part in parts) == text
    starts = [0, *borders]
    joined = [
        (start + tag.at, tag.output) for start, part in zip(starts, parts, strict=True) for tag in part.tags
    ]
    assert joined == [(tag.at, tag.output) for tag in tags]


def test_a_line_break_may_stand_behind_blanks() -> None:
    assert [
        Tag(0, output).breaks_line for output in ("\n> ", "  \r\n", "\u2028", "\\N", "<br>", " ", "")
    ] == [
        *[True] * 4,
        *[False] * 3,
    ]
