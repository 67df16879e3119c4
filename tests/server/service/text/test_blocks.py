"""Blocks become sentences and what is copied; joined again they are the block."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.tokenizer import Tokenizer
from server.service.text.blocks import is_plain_sentence, sentences_of
from server.service.text.protection.patterns import compile_protected, find_spans
from server.service.text.protection.writing import write_segment
from server.service.text.reading.html import read_html
from server.service.text.segment import Segment, Span, Tag
from server.service.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def vocabulary(repository: Path) -> Vocabulary:
    """Of the shipped English-German model."""
    return Vocabulary(Tokenizer.load(repository / "bundles/en-de/source.spm"))


def shown(pieces: list[str | Segment]) -> list[str]:
    """Sentences in angle quotes, and what is copied."""
    return [piece if isinstance(piece, str) else f"‹{piece.text}›" for piece in pieces]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello there. How are you?", ["‹Hello there.›", " ", "‹How are you?›"]),
        ("(Hello there.)", ["(", "‹Hello there.›", ")"]),
        ("Elle a dit : « Non ! »", ["‹Elle a dit :›", " ", "« ", "‹Non !›", " »"]),
        ('He said: "Go on." Then he left.', ["‹He said:›", " ", '"', "‹Go on.›", '" ', "‹Then he left.›"]),
        ('The word: "a tree" is short.', ['‹The word: "a tree" is short.›']),
        ('The word: "tree" is short.', ["‹The word: tree is short.›"]),
        ("(softly) Come in.", ["(", "‹softly›", ") ", "‹Come in.›"]),
        ("...and he left.", ["...", "‹and he left.›"]),
        ("… and he left", ["… ", "‹and he left›"]),
        ("Lisez « Le Monde » ici.", ["‹Lisez Le Monde ici.›"]),
        ("The += sign joins texts.", ["‹The sign joins texts.›"]),
        ("d-d-don't go", ["‹don't go›"]),
        ("Er rief: »Ja!« und ging", ["‹Er rief:›", " ", "»", "‹Ja!›", "« ", "‹und ging›"]),
        ("✅ Sent ❌ Lost it", ["✅ ", "‹Sent›", " ", "❌ ", "‹Lost it›"]),
        ("1️⃣ Open. 2️⃣ Read.", ["1️⃣ ", "‹Open.›", " ", "2️⃣ ", "‹Read.›"]),
        ("🌍 We ❤️ Rome.", ["🌍 ", "‹We Rome.›"]),
        ("👋 Hi 😀 you", ["👋 ", "‹Hi you›"]),
        ("Home = Chairs", ["‹Home›", " ", "= ", "‹Chairs›"]),
        ("Home » Chairs", ["‹Home›", " ", "» ", "‹Chairs›"]),
        ("Home / Chairs", ["‹Home›", " ", "/ ", "‹Chairs›"]),
        ("red b) blue c) green", ["‹red›", " ", "b) ", "‹blue›", " ", "c) ", "‹green›"]),
        ("(1) Open (2) Close", ["(1) ", "‹Open›", " ", "(2) ", "‹Close›"]),
        ("He chose b) or c) there", ["‹He chose b or c there›"]),
        ("(red/blue/green)", ["(", "‹red›", "/", "‹blue›", "/", "‹green›", ")"]),
        ("It is on/off.", ["‹It is on off.›"]),
        ("TCP/IP", ["‹TCP IP›"]),
        ("Is it true / false?", ["‹Is it true false?›"]),
        ("Good. >> Come in, Tom.", ["‹Good.›", " ", ">> ", "‹Come in, Tom.›"]),
        ("The value x > y holds here.", ["‹The value x y holds here.›"]),
        ("12:30", ["12:30"]),
        ("b)", ["b)"]),
        ("XIV.", ["XIV."]),
        ("✔ Free ✔ Easy ✔ Good", ["✔ ", "‹Free›", " ", "✔ ", "‹Easy›", " ", "✔ ", "‹Good›"]),
        ("Free ✔ Easy ✔ Good", ["‹Free›", " ", "✔ ", "‹Easy›", " ", "✔ ", "‹Good›"]),
        ("https://a.example/b", ["https://a.example/b"]),
        ("  Go  on. ", ["  ", "‹Go on.›", " "]),
    ],
)
def test_blocks_are_cut_and_rid_of_their_edges(few_signs: Vocabulary, text: str, expected: list[str]) -> None:
    assert "".join(shown(sentences_of(Segment(text), "en", few_signs))) == "".join(expected)


def test_a_model_without_colons_reads_what_stands_before_one_by_itself(no_colon: Vocabulary) -> None:
    assert shown(sentences_of(Segment("Note: go to {x: y} at 12:30."), "en", no_colon)) == [
        "‹Note›",
        ": ",
        "‹go to {x: y} at 12:30.›",
    ]


def test_spans_are_found_and_not_cut(vocabulary: Vocabulary) -> None:
    text = "See https://a.example/Who?Me. Take {x} to Acme Inc. Then go."
    pieces = sentences_of(Segment(text), "en", vocabulary, compile_protected(["Acme Inc."]))
    sentences = [piece for piece in pieces if isinstance(piece, Segment)]
    assert [[one.text[span.start : span.end] for span in one.spans] for one in sentences] == [
        ["https://a.example/Who?Me"],
        ["{x}", "Acme Inc."],
    ]


def test_an_element_within_a_span_is_part_of_it(vocabulary: Vocabulary) -> None:
    text = "Go to www.example.org/x now"
    tags = (Tag(10, "<b>", 0, opens=True), Tag(17, "</b>", 0))
    (sentence,) = sentences_of(Segment(text, (), tags, "html"), "en", vocabulary)
    assert isinstance(sentence, Segment)
    assert sentence.spans == (Span(6, 23, "www.<b>example</b>.org/x"),)
    assert sentence.tags == ()


@pytest.mark.parametrize(
    ("markup", "kept"),
    [
        ("Call {name}<kbd>Ltd</kbd> now.", ["{name}<kbd>Ltd</kbd>"]),
        ("It is in /home/<var>me</var>/my-notes/x now.", ["/home/<var>me</var>/my-notes/x"]),
        ("We bought <b>Red</b> <i>House now</i> today.", ["Red", "House"]),
        ("We bought <b>Red <var>House</var> now</b> today.", ["Red <var>House</var>"]),
        ("It is in /home/<b>us/<var>me</var>/x now</b> or there.", ["/home/", "us/", "<var>me</var>", "/x"]),
        ("Take <var>{name}</var> home.", ["<var>{name}</var>"]),
    ],
)
def test_a_span_that_touches_an_element_stays_one(
    vocabulary: Vocabulary, markup: str, kept: list[str]
) -> None:
    (block,) = read_html(markup, "en")
    assert isinstance(block, Segment)
    (sentence,) = sentences_of(block, "en", vocabulary, compile_protected(["Red House"]))
    assert isinstance(sentence, Segment)
    assert [span.output or sentence.text[span.start : span.end] for span in sentence.spans] == kept
    assert write_segment(sentence) == markup


def test_a_block_that_is_one_sentence_is_not_cut(vocabulary: Vocabulary) -> None:
    pieces = sentences_of(Segment("Hello there. How are you?"), "en", vocabulary, split=False)
    assert shown(pieces) == ["‹Hello there. How are you?›"]


PIECES = st.sampled_from(
    ["Hello ", "there. ", "Who? ", "{x} ", "12:30 ", "😀", "😀 ", "(yes) ", "| ", "日本 ", "a@b.example ",
     "é", "- ", "& ", "<", "Mr. ", "\u00a0", "“ok” ", "%s", "etc."]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map("".join), st.sampled_from(["none", "html"]), st.data())
def test_what_is_no_word_is_written_again(
    vocabulary: Vocabulary, text: str, escape: str, data: st.DataObject
) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    tags = tuple(Tag(at, f"⟨{number}⟩") for number, at in enumerate(places))
    block = Segment(text, (), tags, "html" if escape == "html" else "none")
    written = "".join(
        piece if isinstance(piece, str) else write_segment(piece)
        for piece in sentences_of(block, "en", vocabulary)
    )
    before = write_segment(block)
    always = ("😀", "(", "⟨0⟩", "⟨1⟩", "⟨2⟩", "⟨3⟩")
    # A tag may stand in the middle of a word.
    for sign in always if tags else (*always, "{x}", "12:30", "日本", "a@b.example", "%s", "Hello", "there"):
        assert written.count(sign) == before.count(sign)


MARKUP = st.sampled_from(
    ["{x}", "%s", "a@b.example", "/home/me/x", "Red House", "Red", " House", "me", "/x/y", " ", " and ",
     "<b>", "</b>", "<i>", "</i>", "<br>", "<var>me</var>", "<kbd>{x}</kbd>", "<tt>/x</tt>"]
)  # fmt: skip


@given(st.lists(MARKUP, max_size=14).map("".join))
def test_what_is_protected_is_written_again_whatever_elements_it_touches(
    vocabulary: Vocabulary, markup: str
) -> None:
    protect = compile_protected(["Red House"])
    for block in read_html(markup, "en"):
        if isinstance(block, str):
            continue
        written = ""
        for piece in sentences_of(block, "en", vocabulary, protect):
            if isinstance(piece, Segment):  # whose words are lost in translation
                free = [(match.start(), match.end(), "-") for match in re.finditer(r"\w", piece.text)]
                kept = [range(span.start, span.end) for span in piece.spans]
                lost = piece.edited([one for one in free if not any(one[0] in span for span in kept)])
                piece = write_segment(lost)
            written += piece
        before = write_segment(block)
        assert re.findall("<[^>]*>", written) == re.findall("<[^>]*>", before)
        written, before = (re.sub("<[^>]*>", "", text) for text in (written, before))
        for span in find_spans(before, protect):
            assert written[span.start : span.end] == before[span.start : span.end]


@pytest.mark.parametrize(
    "unit", ["{x} word ", "{x} » ", "a » ", "(a ", '"a" ', "😀 word ", "日本 ", "1,5 kg ", "& ", "Who? "]
)
def test_time_is_linear(vocabulary: Vocabulary, unit: str) -> None:
    def seconds(count: int) -> float:
        text = unit * count
        tags = tuple(Tag(at * len(unit), "<b>") for at in range(count))
        times = []
        for _ in range(2):
            began = time.thread_time()
            sentences_of(Segment(text, (), tags), "en", vocabulary)
            times.append(time.thread_time() - began)
        return min(times)

    # Eight times the text in 64 times the time would be quadratic.
    assert seconds(3200) < 24 * max(seconds(400), 1e-3)


@pytest.mark.parametrize(
    "text",
    ["Run git pull now.", "The bases ATGCCGTTAGACC", "a {x}", "a  b", "he--it", "No,thanks"],
)
def test_what_has_to_be_read_is_no_plain_sentence(text: str) -> None:
    assert not is_plain_sentence(text)
    assert is_plain_sentence("We see the old house, don't we?")
