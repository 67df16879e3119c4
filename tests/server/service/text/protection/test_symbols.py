"""Signs, quotes and brackets leave the text as tags and come back where they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.protection.symbols import (
    aside,
    before_letter,
    elements_to_tags,
    pairs_to_tags,
    signs_to_tags,
    spaced,
)
from server.service.text.protection.writing import write_segment
from server.service.text.segment import Escape, Segment, Span, Tag

PIECES = st.sampled_from(
    ["word", "a", " ", " ", ", ", ".", "😀", "👩‍👩‍👧", "🇩🇪", "1️⃣", "✅", "→", "★", ":)", ";-)", "<3",
     "^_^", "®", '"',
     "(", ")", "[", "]", "„", "“", "”", "«", "»", "{", "}", "&", "é", "語", "❤️", "👍🏽", "\u00a0"]
)  # fmt: skip


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    text = "".join(draw(st.lists(PIECES, max_size=20)))
    ends = sorted(set(draw(st.lists(st.integers(0, len(text)), max_size=4))))
    spans = tuple(
        Span(start, end, draw(st.sampled_from([None, "{x}"])))
        for start, end in zip(ends[::2], ends[1::2], strict=False)
    )
    free = [at for at in range(len(text) + 1) if not any(span.start < at < span.end for span in spans)]
    places = sorted(draw(st.lists(st.sampled_from(free), max_size=4)))
    tags = tuple(
        Tag(at, draw(st.sampled_from(["<i>", "<br>"])), number, number % 2 == 0)
        for number, at in enumerate(places)
    )
    escape: Escape = draw(st.sampled_from(["none", "html", "attribute"]))
    return Segment(text, spans, tags, escape)


def written(segment: Segment) -> str:
    return write_segment(segment)


def only_tags(segment: Segment) -> list[Tag]:
    return [tag for tag in segment.tags if tag.output in ("<i>", "<br>")]


def without_tags(segment: Segment) -> str:
    text = written(segment)
    return text.replace("<i>", "").replace("<br>", "")


@given(segments())
def test_signs_come_back_where_they_were(segment: Segment) -> None:
    changed = signs_to_tags(segment)
    assert without_tags(changed) == without_tags(segment)
    assert [(tag.output, tag.pair) for tag in only_tags(changed)] == [
        (tag.output, tag.pair) for tag in segment.tags
    ]
    assert [tag.at for tag in changed.tags] == sorted(tag.at for tag in changed.tags)
    assert [changed.text[span.start : span.end] for span in changed.spans] == [
        segment.text[span.start : span.end] for span in segment.spans
    ]


@given(segments())
def test_pairs_come_back_where_they_were(segment: Segment) -> None:
    changed = pairs_to_tags(segment)
    assert without_tags(changed) == without_tags(segment)
    assert [(tag.output, tag.pair) for tag in only_tags(changed)] == [
        (tag.output, tag.pair) for tag in segment.tags
    ]
    added = [tag for tag in changed.tags if tag not in only_tags(changed)]
    pairs = {tag.pair for tag in added}
    assert pairs.isdisjoint(tag.pair for tag in segment.tags)
    assert all([tag.opens for tag in added if tag.pair == pair] == [True, False] for pair in pairs)
    assert [changed.text[span.start : span.end] for span in changed.spans] == [
        segment.text[span.start : span.end] for span in segment.spans
    ]


def test_white_space_of_a_span_stays_in_it() -> None:
    changed = pairs_to_tags(Segment("a ( {x} ) b", (Span(3, 8),)))
    assert (changed.text, changed.text[slice(changed.spans[0].start, changed.spans[0].end)]) == (
        "a  {x}  b",
        " {x} ",
    )


@given(st.text("ab c.,", max_size=20))
def test_a_text_without_signs_is_left_alone(text: str) -> None:
    segment = Segment(text)
    assert signs_to_tags(segment) is segment
    assert pairs_to_tags(segment) is segment


@pytest.mark.parametrize(
    ("text", "left", "signs"),
    [
        ("I 😀 you.", "I you.", ["😀 "]),
        ("Great! 👍🏽", "Great!", [" 👍🏽"]),
        ("✅ Done", "Done", ["✅ "]),
        ("(╯°□°)╯ broken", "broken", ["(╯°□°)╯ "]),
        ("It has 5° (warm) (°C)", "It has 5° (warm) (°C)", []),
        ("We are 👩‍👩‍👧 here", "We are here", ["👩‍👩‍👧 "]),
        ("from 🇩🇪 to 🇫🇷 now", "from to now", ["🇩🇪 ", "🇫🇷 "]),
        ("Nice :) really", "Nice really", [":) "]),
        ("Acme® works", "Acme works", ["®"]),
        ("Two × three ≠ 5 − 1 · 2", "Two three 5 − 1 · 2", ["× ", "≠ "]),
        ("Online :rocket: now :+1:", "Online now", [":rocket: ", " :+1:"]),
        ("Step 1️⃣ first", "Step first", ["1️⃣ "]),
        ("a 😀 😀 b", "a b", ["😀 😀 "]),
        ("&Open (&Print)", "Open (Print)", ["&", "&"]),
        ("Save &As, R&D & co, &c.", "Save As, R&D & co, &c.", ["&"]),
    ],
)
def test_signs_are_taken_whole(text: str, left: str, signs: list[str]) -> None:
    changed = signs_to_tags(Segment(text))
    assert (changed.text, [tag.output for tag in changed.tags]) == (left, signs)


@pytest.mark.parametrize(
    "text",
    [
        "Note: (yes)",
        "at 12:30",
        "a:b",
        "a:b:c",
        "10:20:30",
        "std::x::y",
        "the 1/2 way",
        "key=3",
        "C++",
        "50 * 3",
        "so:",
        "(see 3)",
    ],
)
def test_what_only_looks_like_a_sign_stays(text: str) -> None:
    assert signs_to_tags(Segment(text)).text == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('He (Tom) said "yes".', "He Tom said yes."),
        ("„Ja“, sagte er", "Ja, sagte er"),
        ("« Oui »", "Oui"),
        ("« »", ""),
        ('Ein „Wort" ist', "Ein Wort ist"),
        ("([a])", "a"),
        ("a) first", "a) first"),
        ("‘Don’t,’ she said. (‘em)", "Don’t, she said. ‘em"),
        ("The <media omitted> is gone", "The media omitted is gone"),
        ("x < y and a<b or c> d", "x < y and a<b or c> d"),
        ('5" disk', '5" disk'),
        ("(a]", "(a]"),
        ("»Ja«, sagte er", "Ja, sagte er"),
        ("Home » Chairs", "Home » Chairs"),
        ("Press 'Save as' or ‘Ok’ now", "Press Save as or Ok now"),
        ("No '%s' or '$file'", "No %s or $file"),
        ("in the '80s and '90s, rock 'n' roll", "in the '80s and '90s, rock 'n' roll"),
        ("Tom's dogs' and boys' toys", "Tom's dogs' and boys' toys"),
        ("'Come,' he said, 'in.'", "'Come,' he said, 'in.'"),
    ],
)
def test_pairs_are_quotes_and_brackets_that_close(text: str, left: str) -> None:
    assert pairs_to_tags(Segment(text)).text == left


def test_marks_that_the_model_has_stay() -> None:
    assert pairs_to_tags(Segment('("a")'), '"'.__contains__).text == '"a"'
    assert pairs_to_tags(Segment("The 'save' key"), "'".__contains__).text == "The 'save' key"
    assert pairs_to_tags(Segment("« a » et « b »"), "«»".__contains__).text == "« a » et « b »"


@pytest.mark.parametrize(
    ("at", "output", "expected"), [(5, "&", 0), (13, "&", 7), (7, "&", 7), (6, "*", 6), (14, "&", 14)]
)
def test_a_mnemonic_is_before_a_letter(at: int, output: str, expected: int) -> None:
    assert before_letter(at, Tag(at, output), "Datei, unterx!") == expected


@pytest.mark.parametrize("known", ["«", "»"])
def test_a_pair_of_which_the_model_has_one_mark_leaves(known: str) -> None:
    assert pairs_to_tags(Segment("He said « yes » to it."), known.__contains__).text == "He said yes to it."
    assert pairs_to_tags(Segment("Say « oh yes »"), "«»".__contains__).text == "Say « oh yes »"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('The "old" rules', "The old rules"),
        ("Dit « oui » et „ja“, “si”", "Dit oui et ja, si"),
        ('"a b" and "c d"', '"a b" and "c d"'),
        ('the "EU" (again), article(s)', 'the "EU" (again), article(s)'),
    ],
)
def test_a_word_alone_leaves_its_marks_though_the_model_has_them(text: str, left: str) -> None:
    segment = pairs_to_tags(Segment(text), lambda _: True)
    assert segment.text == left
    assert write_segment(segment) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Use <b>bold</b> <i>text</i>", "Use bold text"),
        ('<p class="x"><b>The dog</b></p>', "The dog"),
        ("a <br> and <b> are </i>", "a <br> and <b> are </i>"),
    ],
)
def test_elements_that_html_speaks_of_are_tags(text: str, left: str) -> None:
    segment = Segment(text, escape="html")
    read = elements_to_tags(segment)
    assert read.text == left
    assert write_segment(read) == write_segment(segment)
    assert elements_to_tags(Segment(text)).text == text
    kept = (Span(0, len(text)),)
    assert elements_to_tags(Segment(text, kept, escape="html")).text == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(laughing) You are funny!", 11),
        (" [Draft] When does it leave?", 9),
        ('(softly) "Come in."', 9),
        ("JOHN: I am not coming.", 6),
        ("DR. O'NEIL: Sit down.", 12),
        ("NEWS: ALL IS WELL", 0),
        ("JOHN: 5", 0),
        ("I said: it is so", 0),
        ("(12) You are", 0),
        ("(the red one) is mine", 0),
        ("You (laughing) Are", 0),
        ("(open", 0),
    ],
)
def test_what_stands_in_brackets_before_a_sentence_is_an_aside(text: str, expected: int) -> None:
    assert aside(text, None) == expected


def test_a_noun_begins_no_sentence_behind_an_aside() -> None:
    assert aside("(kleine) Kinder spielen.", frozenset({"du"})) == 0
    assert aside("(lacht) Du bist lustig!", frozenset({"du"})) == 8


@pytest.mark.parametrize(
    ("tag", "at", "output"),
    [
        (Tag(0, "😀 "), 6, " 😀"),
        (Tag(0, "😀 "), 9, " 😀 "),
        (Tag(0, "<img> "), 3, "<img> "),
        (Tag(0, "<img> "), 6, " <img>"),
        (Tag(0, "</i> ", 1), 3, "</i> "),
        (Tag(0, "</i> ", 1), 6, "</i>"),
        (Tag(0, "  \n"), 3, "  \n"),
        (Tag(0, "\n"), 3, "\n"),
    ],
)
def test_a_sign_has_its_space_where_a_word_is_and_a_line_break_stays(tag: Tag, at: int, output: str) -> None:
    assert spaced(at, tag, "Du da!. @Tom").output == output
