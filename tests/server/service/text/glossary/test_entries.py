"""Terms are found on the borders of words, the longest first, in the case that their entry asks for."""

import time

import pytest

from server.service.text.glossary.entries import (
    MAX_FORMS,
    MAX_TERM_CHARS,
    Glossary,
    is_written_as,
    make_entry,
    occurrences,
)
from server.service.text.segment import Segment, Span, Target


def found(text: str, *sources: str, spans: tuple[Span, ...] = ()) -> list[str]:
    glossary = Glossary([make_entry(source, "x") for source in sources])
    segment = Segment(text, spans)
    return [text[match.start : match.end] for match in glossary.find(segment)]


def test_a_term_is_no_part_of_a_longer_word() -> None:
    assert found("The cat saw a catalog, a wildcat and a cat.", "cat") == ["cat", "cat"]
    assert found("A cat-like animal.", "cat") == []
    assert found("Concatenate", "cat") == []


def test_the_longest_term_is_taken() -> None:
    text = "The ice cream van sells ice and cream."
    assert found(text, "ice", "ice cream", "ice cream van", "cream") == ["ice cream van", "ice", "cream"]
    assert found(text, "ice cream", "cream van sells") == ["ice cream"]


def test_the_other_words_of_a_longer_term_may_be_terms_themselves() -> None:
    assert found("ice cold cream", "ice cream", "cold cream") == ["cold cream"]


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("Boards and a BOARD on the board", "board", ["BOARD", "board"]),
        ("An apple from Apple and APPLE", "Apple", ["Apple", "APPLE"]),
        ("us and the US", "US", ["US"]),
        ("Straße oder STRASSE", "straße", ["Straße", "STRASSE"]),
    ],
)
def test_capitals_count_where_the_entry_has_some(text: str, source: str, expected: list[str]) -> None:
    assert found(text, source) == expected


def test_of_two_entries_that_differ_in_case_the_one_with_capitals_is_nearer() -> None:
    glossary = Glossary([make_entry("polish", "a"), make_entry("Polish", "b")])
    targets = [match.entry.target for match in glossary.find(Segment("Polish the Polish shoes, polish!"))]
    assert targets == ["b", "b", "a"]


def test_genitives_elided_articles_and_signs_do_not_hide_a_term() -> None:
    assert found("The dog's bed, the dog’s bowl", "dog") == ["dog", "dog"]
    assert found("J'ai bu l'eau.", "eau") == ["eau"]
    assert found("I write C++ and .NET here.", "C++", ".NET") == ["C++", ".NET"]
    assert found("Tom's dogs", "Tom") == ["Tom"]


def test_a_character_is_a_word_where_none_are_parted() -> None:
    assert found("我喝水。", "水") == ["水"]
    assert found("请重启服务器。", "服务器") == ["服务器"]
    assert occurrences("サーバー", Target("サーバーを再起動してください。")) == [(0, 4)]


@pytest.mark.parametrize("term", ["driver's license", "driver’s license", "Driver's License"])
@pytest.mark.parametrize("apostrophe", ["'", "’"])
def test_straight_and_curved_apostrophes_are_the_same(term: str, apostrophe: str) -> None:
    text = f"My Driver{apostrophe}s License."
    assert found(text, term) == [f"Driver{apostrophe}s License"]
    assert occurrences(term, Target(text)) == [(3, 19)]


def test_french_pronouns_do_not_hide_a_verb_and_other_hyphens_make_one_word() -> None:
    glossary = Glossary([make_entry(one, "x") for one in ("joues", "va", "passe", "rendez-vous", "rendez")])
    text = "Joues-tu ? Où va-t-il ? Un passe-temps, un rendez-vous."
    found = [text[match.start : match.end] for match in glossary.find(Segment(text), "fr")]
    assert found == ["Joues", "va", "rendez-vous"]
    assert [match.entry.source for match in glossary.find(Segment("a joues-tu rendez-vous"), "en")] == [
        "rendez-vous"
    ]


def test_nothing_is_found_in_spans() -> None:
    text = "See cat.example and cat"
    assert found(text, "cat", spans=(Span(4, 15),)) == ["cat"]
    assert found("big {x} cat", "big cat", spans=(Span(4, 7),)) == []


def test_where_a_term_stands_in_a_translation() -> None:
    target = Target("Die Katze sieht die Katzen und die katze.", (Span(35, 40),))
    assert occurrences("Katze", target) == [(4, 9)]
    assert occurrences("Hund", target) == []


def test_a_term_in_capitals_fits_any_term() -> None:
    assert is_written_as("KATZE", "Katze")
    assert not is_written_as("katze", "Katze")
    assert is_written_as("Katze", "katze")


def test_an_entry_is_cleaned() -> None:
    entry = make_entry(" ice \u00a0 cream ", "cafe\u0301", ["", "café", "cafés", "cafés"])
    assert (entry.source, entry.target, entry.forms) == ("ice cream", "café", ("cafés",))
    assert entry.accepted == ("café", "cafés")
    entry = make_entry("می\u200cخواهم", "I want")
    assert entry.source == "می\u200cخواهم"
    for written in ("من می\u200cخواهم بروم", "من میخواهم بروم"):  # as it comes, and as the server reads it
        assert [match.entry for match in Glossary([entry]).find(Segment(written))] == [entry]


@pytest.mark.parametrize(
    ("source", "target", "forms", "complaint"),
    [
        ("", "x", [], "source has no letter"),
        ("x", "--", [], "target has no letter"),
        ("x" * (MAX_TERM_CHARS + 1), "x", [], "source has 201 characters"),
        ("x", "x" * (MAX_TERM_CHARS + 1), [], "target has 201 characters"),
        ("x", "y", ["z" * (MAX_TERM_CHARS + 1)], "form has 201 characters"),
        ("x", "y\0z", [], "target has a control character"),
        ("a " * 30, "y", [], "more than 20 words"),
        ("x", "y", [f"y{n}" for n in range(MAX_FORMS + 1)], "21 forms"),
    ],
)
def test_what_is_no_entry_is_refused(source: str, target: str, forms: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make_entry(source, target, forms)


def test_terms_that_begin_alike_do_not_take_quadratic_time() -> None:
    glossary = Glossary([make_entry("a " * length + "b", "x") for length in range(1, 20)])
    started_s = time.process_time()
    assert glossary.find(Segment("a " * 250_000)) == []
    assert time.process_time() - started_s < 20
