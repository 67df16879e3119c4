"""What a shipped model can read: the rest becomes what it has of the kind, a span or a tag."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.tokenizer import Tokenizer
from server.service.text.protection.writing import write_segment
from server.service.text.segment import Segment, Span, Tag
from server.service.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def vocabulary(repository: Path) -> Vocabulary:
    """Of the shipped English-German model."""
    return Vocabulary(Tokenizer.load(repository / "bundles/en-de/source.spm"))


def test_known_and_unknown_characters(vocabulary: Vocabulary, few_signs: Vocabulary) -> None:
    assert all(map(few_signs.knows, "aZ09,.!?'\""))
    assert not any(map(few_signs.knows, "語дα😀•→€"))
    assert all(map(vocabulary.knows, "aZ09,.!?'\"•→€{}%<>#@&°…“„«—"))
    assert not any(map(vocabulary.knows, "語дα😀"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("“quoted” – it’s fine", '"quoted" - it\'s fine'),
        ("The garden – my place — is big.", "The garden, my place, is big."),
        ("My place - it is big - is here.", "My place, it is big, is here."),
        ("My place - my garden", "My place - my garden"),
        ("He came; she went.", "He came, she went."),
        ("from 3 - 5 and well-known.", "from 3 - 5 and well-known."),
        ("été", "été"),  # bytes, which copy a name
        ("salt & pepper", "salt and pepper"),
        ("5 × 3", "5 x 3"),
        ("I donʼt know", "I don't know"),
        ("usual words, only these.", "usual words, only these."),
    ],
)
def test_signs_of_a_kind_stand_for_each_other(few_signs: Vocabulary, text: str, expected: str) -> None:
    read = few_signs.readable(Segment(text), "en")
    assert (read.text, read.spans, read.tags) == (expected, (), ())


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("日本 is nice", ["日本"]),
        ("in Łódź today", ["Łódź"]),
        ("from Москва to Wien", ["Москва"]),
        ("R&D works", ["R&D"]),
        ("αβγδ and more", ["αβγδ"]),
        ("the soup ต้มยำ is hot", ["ต้มยำ"]),  # a mark between its letters
    ],
)
def test_words_that_it_can_not_spell_are_spans(few_signs: Vocabulary, text: str, kept: list[str]) -> None:
    read = few_signs.readable(Segment(text), "en")
    assert read.text == text
    assert [text[span.start : span.end] for span in read.spans] == kept


def test_characters_that_the_model_cannot_write_are_as_good_as_unknown(repository: Path) -> None:
    tokenizer = Tokenizer.load(repository / "bundles/en-de/source.spm")
    for lost in ("", "ÇŠ•"):
        read = Vocabulary(tokenizer, lost).readable(Segment("Çelik drives a Škoda • today"), "en")
        assert [read.text[span.start : span.end] for span in read.spans] == (
            ["Çelik", "Škoda"] if lost else []
        )
        assert [tag.output for tag in read.tags] == (["• "] if lost else [])


def test_other_signs_are_tags(few_signs: Vocabulary) -> None:
    read = few_signs.readable(Segment("Tom|Ann • Bob"), "en")
    assert read.text == "Tom Ann Bob"
    assert [tag.output for tag in read.tags] == ["|", "• "]


PIECES = st.sampled_from(
    ["word", " ", " ", "日本", "é", "Ł", "&", " & ", "•", "|", "“", "”", "<", "x", "😀", "…", "«", "д", "1"]
)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    text = "".join(draw(st.lists(PIECES, max_size=14)))
    ends = sorted(set(draw(st.lists(st.integers(0, len(text)), max_size=4))))
    spans = tuple(Span(start, end, "⟦x⟧") for start, end in zip(ends[::2], ends[1::2], strict=False))
    free = [at for at in range(len(text) + 1) if not any(span.start < at < span.end for span in spans)]
    tags = tuple(
        Tag(at, f"⟨{n}⟩") for n, at in enumerate(sorted(draw(st.lists(st.sampled_from(free), max_size=3))))
    )
    return Segment(text, spans, tags, draw(st.sampled_from(["none", "html"])))


@given(segments())
def test_nothing_is_lost_and_all_is_readable(vocabulary: Vocabulary, segment: Segment) -> None:
    read = vocabulary.readable(segment, "en")
    places = [0, *(offset for span in read.spans for offset in (span.start, span.end)), len(read.text)]
    assert places == sorted(places)
    own = [span for span in read.spans if span.output is not None]
    assert [read.text[span.start : span.end] for span in own] == [
        segment.text[span.start : span.end] for span in segment.spans
    ]
    covered = {at for span in read.spans for at in range(span.start, span.end)}
    assert all(
        vocabulary.knows(one) or one.isspace() or one == "é"
        for at, one in enumerate(read.text)
        if at not in covered
    )
    written = write_segment(read)
    for sign in ("日本", "Ł", "•", "|", "😀", "д", "⟦x⟧", "⟨0⟩", "⟨1⟩", "⟨2⟩"):
        assert written.count(sign) == write_segment(segment).count(sign)


@pytest.mark.parametrize("text", ["qwrtz", "xkcdq jklm", "sdfghjkl qwertz", "Привет"])
def test_gibberish(vocabulary: Vocabulary, text: str) -> None:
    assert vocabulary.is_gibberish(text)


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "Guten Tag",
        "Kowalski",
        "strengths",
        "It is.",
        "I am OK",
        "",
        "12",
        "We met Siobhan in Kubernetes.",
    ],
)
def test_no_gibberish(vocabulary: Vocabulary, text: str) -> None:
    assert not vocabulary.is_gibberish(text)


@given(st.text("abcxyz", min_size=1, max_size=12))
def test_pieces_are_those_of_the_tokenizer(vocabulary: Vocabulary, word: str) -> None:
    assert 1 <= vocabulary.count_pieces(word) == vocabulary.count_pieces(word) <= len(word) + 1


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Then Nguyễn Thị Hạnh joined.", ["Nguyễn Thị Hạnh"]),
        ("Then Thảo Trần, the new one, came.", ["Thảo Trần"]),
        ("He likes phở very much.", ["phở"]),
    ],
)
def test_letters_with_two_marks_are_kept_and_names_whole(
    vocabulary: Vocabulary, text: str, kept: list[str]
) -> None:
    read = vocabulary.readable(Segment(text), "en")
    assert [read.text[span.start : span.end] for span in read.spans] == kept
