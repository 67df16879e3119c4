"""Options of texts: what may be protected, and what is refused."""

import time

import pytest

from server.errors import InvalidOptionError
from server.service.text.options import MAX_PROTECTED, MAX_PROTECTED_CHARS, TextOptions


def spans(options: TextOptions, text: str) -> list[str]:
    return [found.group() for pattern in options.protected_patterns for found in pattern.finditer(text)]


def test_words_and_patterns_are_told_apart() -> None:
    options = TextOptions(protect=("Acme", r"/[A-Z]{2}-\d+/", "/", "//", "a/b", "/(?i)straße/"))
    options.validate()
    assert options.protected_words == ("Acme", "/", "//", "a/b")
    assert spans(options, "Nr. AB-12 in der STRASSE, Straße CD-3") == ["AB-12", "CD-3", "Straße"]


def test_places_are_those_of_characters() -> None:
    (pattern,) = TextOptions(protect=("/x+/",)).protected_patterns
    assert [found.span() for found in pattern.finditer("ä😀xx é x")] == [(2, 4), (7, 8)]


@pytest.mark.parametrize(
    ("protect", "message"),
    [
        (("a",) * (MAX_PROTECTED + 1), "protect has 101 entries; the most is 100"),
        (("a", "b" * (MAX_PROTECTED_CHARS + 1)), "protect: entry 2 has 201 characters; the most is 200"),
        (("a", " "), "protect: entry 2 is empty"),
        (("/(secret/",), "protect: entry 1 is not a pattern in RE2's syntax"),
        ((r"/(?=secret)/",), "protect: entry 1 is not a pattern in RE2's syntax"),
        ((r"/(a)\1/",), "protect: entry 1 is not a pattern in RE2's syntax"),
        (("/((a{100}){100}){100}/",), "protect: entry 1 is not a pattern in RE2's syntax"),
        (("/x*/",), "protect: entry 1 also matches an empty text"),
    ],
)
def test_what_cannot_be_protected_is_refused_without_repeating_it(
    protect: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        TextOptions(protect=protect).validate()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "pattern", ["/(a+)+$/", "/(a|a)*b/", "/(.*)*=/", "/([a-z]+)*\\d/", "/(a?){100}a{100}/"]
)
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    options = TextOptions(protect=(pattern,))
    (compiled,) = options.protected_patterns
    started_s = time.process_time()
    compiled.search("a" * 100_000 + "!")
    assert time.process_time() - started_s < 5  # backtracking would take longer than the universe is old


def test_a_thousand_patterns_are_kept_and_no_more() -> None:
    for number in range(1100):
        assert spans(TextOptions(protect=(f"/n{number}x/",)), f"n{number}x") == [f"n{number}x"]
