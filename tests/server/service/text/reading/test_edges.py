"""What is taken off both ends of a sentence and its core are the sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.protection.writing import write_segment
from server.service.text.reading.edges import frame
from server.service.text.segment import Escape, Segment, Span, Tag

PIECES = st.sampled_from(
    ["word", "a", " ", " ", "- ", "* ", "• ", "> ", "(", ")", "[", "]", '"', "„", "“", "«", "»", "&",
     "<", "é", "\n", "."]
)  # fmt: skip


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """Any text, with spans and tags: whole elements, halves of some, and marks that stand alone."""
    text = "".join(draw(st.lists(PIECES, max_size=14)))
    ends = sorted(set(draw(st.lists(st.integers(0, len(text)), max_size=4))))
    spans = tuple(
        Span(start, end, draw(st.sampled_from([None, "{x}"])))
        for start, end in zip(ends[::2], ends[1::2], strict=False)
    )
    free = [at for at in range(len(text) + 1) if not any(span.start < at < span.end for span in spans)]
    places = sorted(draw(st.lists(st.sampled_from(free), max_size=6)))
    tags: list[Tag] = []
    opened: list[int] = []
    for number, at in enumerate(places):
        kind = draw(st.sampled_from(["opens", "closes", "alone"]))
        if kind == "closes" and opened:
            tags.append(Tag(at, f"</b{opened[-1]}>", opened.pop()))
        elif kind == "opens":
            opened.append(number)
            tags.append(Tag(at, f"<b{number}>", number, opens=True))
        else:
            tags.append(Tag(at, "<br>"))
    escape: Escape = draw(st.sampled_from(["none", "html", "attribute"]))
    return Segment(text, spans, tuple(tags), escape)


@given(segments())
def test_the_three_parts_written_are_the_segment(segment: Segment) -> None:
    framed = frame(segment)
    core = framed.core
    inner = write_segment(core) if core.text else ""
    parts, whole = framed.before + inner + framed.behind, write_segment(segment)
    if not any(tag.pair >= 0 for tag in core.tags):
        assert parts == whole
    # What is left in the core goes without the white space at its ends.
    spaces = str.maketrans("", "", " \n")
    assert parts.translate(spaces) == whole.translate(spaces)
    assert len(parts) == len(whole)


@given(segments())
def test_the_core_has_words_at_its_ends_and_whole_elements(segment: Segment) -> None:
    core = frame(segment).core
    covered = {at for span in core.spans for at in range(span.start, span.end)}
    for place in {0, len(core.text) - 1} - covered if core.text else ():
        assert not core.text[place].isspace()
    assert all(0 <= tag.at <= len(core.text) for tag in core.tags)
    given_pairs = [tag.pair for tag in segment.tags if tag.pair >= 0]
    kept_pairs = [tag.pair for tag in core.tags if tag.pair >= 0]
    assert all(kept_pairs.count(pair) == given_pairs.count(pair) for pair in set(kept_pairs))
    assert frame(core).core == core  # nothing is left to take off


@pytest.mark.parametrize(
    ("text", "before", "core", "behind"),
    [
        ("  Hello there. ", "  ", "Hello there.", " "),
        ("(Hello there.)", "(", "Hello there.", ")"),
        ("„Hallo.“", "„", "Hallo.", "“"),
        ("- one thing", "- ", "one thing", ""),
        ("- (a) or (b)", "- ", "(a) or (b)", ""),
        ("*word* here", "", "*word* here", ""),
        (" \n ", " \n ", "", ""),
        ("", "", "", ""),
        ('"Yes" and "no"', "", '"Yes" and "no"', ""),
        ("((a))", "", "((a))", ""),
    ],
)
def test_white_space_bullets_and_marks_around_all_of_it_go(
    text: str, before: str, core: str, behind: str
) -> None:
    framed = frame(Segment(text))
    assert (framed.before, framed.core.text, framed.behind) == (before, core, behind)


def test_tags_around_all_of_it_go() -> None:
    tags = (Tag(0, "<b>", 0, opens=True), Tag(1, "<i>", 1, opens=True), Tag(4, "</i>", 1), Tag(8, "</b>", 0))
    framed = frame(Segment(" red car", (), tags, "html"))
    assert (framed.before, framed.behind) == ("<b> ", "</b>")
    assert [(tag.at, tag.output) for tag in framed.core.tags] == [(0, "<i>"), (3, "</i>")]


def test_a_span_at_an_end_stays() -> None:
    framed = frame(Segment("( {x} is ) ", (Span(0, 1), Span(2, 5))))
    assert (framed.before, framed.core.text, framed.behind) == ("", "( {x} is )", " ")
