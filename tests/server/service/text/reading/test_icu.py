"""Messages keep their syntax and arguments; each branch is a block."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.reading.icu import read_icu
from server.service.text.reading.plain import read_plain
from server.service.text.segment import Segment

TEXTS = st.text(st.sampled_from("ab 'é#\n*_<>"), max_size=6)
ARGUMENTS = st.sampled_from(["{x}", "{ y }", "{0}", "{d, date, short}", "'{q}'", "''"])
SELECTORS = st.sampled_from(["one", "other", "=0", "few"])


def messages(depth: int) -> st.SearchStrategy[str]:
    parts = [TEXTS.map(lambda text: text.replace("'", "").replace("<", "")), ARGUMENTS]
    if depth:
        branches = st.lists(st.tuples(SELECTORS, messages(depth - 1)), min_size=1, max_size=3)
        kinds = st.sampled_from(["plural", "select", "selectordinal"])
        parts.append(
            st.tuples(kinds, branches).map(
                lambda drawn: f"{{n, {drawn[0]}, " + " ".join(f"{s} {{{m}}}" for s, m in drawn[1]) + "}"
            )
        )
    return st.lists(st.one_of(parts), max_size=4).map("".join)


def read(text: str) -> list[str | Segment] | None:
    return read_icu(text, count().__next__)


def shown(parts: list[str | Segment] | None) -> list[str]:
    """Blocks with their spans in brackets."""
    found = []
    for part in parts or []:
        if isinstance(part, Segment):
            text = part.text
            for span in reversed(part.spans):
                text = f"{text[: span.start]}[{text[span.start : span.end]}]{text[span.end :]}"
            found.append(text)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "You have {n, plural, =0 {no letters} one {# letter} other {# letters}} in your box.",
            ["You have", "no letters", "[#] letter", "[#] letters", "in your box."],
        ),
        ("{g, select, female {She won.} other {They won.}}", ["She won.", "They won."]),
        (
            "{host} sold {num, plural, one {a house} other {# houses}} on {when, date, short}.",
            ["[{host}] sold", "a house", "[#] houses", "on [{when, date, short}]."],
        ),
        (
            "{a, select, x {{n, plural, offset:1 one {You and # man} other {# men of {b}}}} other {# it's}}",
            ["You and [#] man", "[#] men of [{b}]", "# it's"],
        ),
        (
            "{n, plural, one {a '{'quoted'}' #} other {don''t '#'}}",
            ["a ['{']quoted['}'] [#]", "don't ['#']"],
        ),
        ("{n, selectordinal, one {#st} other {#th}} floor", ["[#]st", "[#]th", "floor"]),
        ("{n, plural, one {<b>#</b> cat} other {**#** cats}}", ["[#] cat", "[#] cats"]),
        ("{n, plural, one {#} other {}}", []),
    ],
)
def test_branches_are_blocks(text: str, expected: list[str]) -> None:
    assert shown(read(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Hello {name}, you have {n, number} letters.",
        "{n, plural, one {# cat} other {# cats}",
        "{n, plural, }",
        "{n, plural, one # other}",
        "{n, plural, one {a}}} b",
        "{n, plural, one {a} other {b}} }",
        "{n, date, {x}} {m, plural, other {a}}",
        "{" * 50 + "n, plural, one {a}",
        "{n,plural,one{" * 30 + "a" + "}}" * 30,
        "function f() { return {a, b, c}; }",
    ],
)
def test_what_does_not_parse_is_no_message(text: str) -> None:
    assert read(text) is None


@given(messages(2))
def test_joined_it_is_the_message(text: str) -> None:
    parts = read(text)
    if parts is None:
        return
    joined = ""
    for part in parts:
        if isinstance(part, str):
            joined += part
            continue
        position = 0
        events = [(tag.at, 0, tag.at, tag.output) for tag in part.tags]
        events += [(s.start, 1, s.end, s.output or part.text[s.start : s.end]) for s in part.spans]
        for start, _, end, output in sorted(events, key=lambda event: event[:2]):
            joined += part.text[position:start]
            joined = joined.removesuffix(" ") if output.lstrip(" \t")[:1] == "\n" else joined
            joined += output
            position = end
        joined += part.text[position:]
    assert joined.replace("''", "'") == text.replace("''", "'")  # which the blocks write doubled


def test_white_space_behind_a_quote_that_is_not_closed_comes_back_once() -> None:
    quoted = "'{count, plural, one {# file} other {# files}}"
    [segment, rest] = read_plain(f"Type {quoted} \n")
    assert isinstance(segment, Segment)
    assert (segment.text, rest) == (f"Type {quoted}", " \n")
    assert [segment.text[span.start : span.end] for span in segment.spans] == [quoted]


def test_a_message_over_several_lines_and_one_behind_a_key() -> None:
    text = "{n, plural,\n  one {\n    # letter\n  }\n  other {# letters}\n}\n"
    assert shown(read_plain(text)) == ["[#] letter", "[#] letters"]
    assert shown(read_plain("a.b={n, plural, one {# cat} other {# cats}}\nc=Hi")) == [
        "[#] cat",
        "[#] cats",
        "Hi",
    ]


def test_doubled_apostrophes_of_messages_are_apostrophes() -> None:
    [segment] = read_plain("It''s {name}''s turn; you can''t.")
    assert isinstance(segment, Segment)
    assert (segment.text, segment.escape) == ("It's {name}'s turn; you can't.", "message")
    _, segment, _ = read_plain("{n, plural, other {It''s # file}}")
    assert isinstance(segment, Segment)
    assert (segment.text, segment.escape) == ("It's # file", "message")
    [segment] = read_plain("It''s ''quoted'' and no message.")
    assert isinstance(segment, Segment) and segment.escape == "none"
