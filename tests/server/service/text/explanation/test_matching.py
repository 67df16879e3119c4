"""Characters of one text in another that was rewritten here and there."""

import time

from hypothesis import given
from hypothesis import strategies as st

from server.service.text.explanation.matching import Matching

WORDS = st.lists(st.text("abcdefgh", min_size=4, max_size=9), min_size=1, max_size=30, unique=True)


def place(text: str, other: str, part: str) -> str | None:
    start = other.index(part)
    found = Matching(text, other).range(start, start + len(part))
    return None if found is None else text[slice(*found)]


def test_rewritten_texts_are_matched_around_the_differences() -> None:
    assert place("one two", "one two", "two") == "two"
    assert place("a  wide\t space here", "a wide space here", "space") == "space"
    assert place("what soooooo good", "what soo good", "good") == "good"
    assert place('<img alt="a long value that goes on and on"> end', '<img alt="kurz"> end', "end") == "end"
    assert place("Hi {name}, I have 12 km.", "Hi Xavier1, I have Xavier2.", "have") == "have"
    assert place("one two", "one 2wo", "2") is None
    assert place("", "word", "word") is None


@given(WORDS, st.data())
def test_words_are_found_whatever_stands_between_them(words: list[str], data: st.DataObject) -> None:
    """Other white space, and marks that only one side has."""
    gaps = st.sampled_from([" ", "  ", "\n\t ", " \u200b", " <b> "])
    text = "".join(word + data.draw(gaps) for word in words)
    other = "".join(f"{word} " for word in words)
    matching, at = Matching(text, other), 0
    for word in words:
        found = matching.range(at, at + len(word))
        assert found is not None
        assert text[slice(*found)] == word
        at += len(word) + 1


@given(st.text(max_size=80), st.text(max_size=80))
def test_what_is_matched_is_equal_and_in_order(text: str, other: str) -> None:
    matching, last = Matching(text, other), 0
    for at, character in enumerate(other):
        found = matching.range(at, at + 1)
        if found is not None:
            assert text[slice(*found)] == character
            assert found[0] >= last
            last = found[1]


def test_a_megabyte_without_anything_in_common_takes_no_time() -> None:
    """Two megabytes that agree nowhere, and two that differ everywhere; seconds for a broken bound."""
    started = time.process_time()
    assert Matching("ab" * 500_000, "cd" * 500_000).range(0, 9) is None
    assert Matching("abcd-" * 200_000, "abcd+" * 200_000).range(0, 4) == (0, 4)
    assert time.process_time() - started < 20
