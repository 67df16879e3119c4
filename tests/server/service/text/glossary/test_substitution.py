"""With a shipped model's word tables: terms that are there are left, others take the place of their words."""

from pathlib import Path

import pytest

from benchmarks.text.glossary import read_aligner
from server.service.text.glossary.entries import Glossary, make_entry
from server.service.text.glossary.substitution import Substituted, TermSubstitution, term_links
from server.service.text.protection.alignment import WordAligner
from server.service.text.segment import Segment, Span, Target


@pytest.fixture(scope="module")
def aligner(repository: Path) -> WordAligner:
    return read_aligner(repository / "bundles" / "en-de")


def substitute(
    aligner: WordAligner, source: str, target: Target | str, *entries: tuple[str, ...], language: str = "de"
) -> Substituted:
    segment = Segment(source)
    matches = Glossary([make_entry(one[0], one[1], one[2:]) for one in entries]).find(segment)
    substitution = TermSubstitution(segment, aligner, language)
    return substitution.substitute(Target(target) if isinstance(target, str) else target, matches)


def test_words_are_replaced_where_they_stand_for_a_term(aligner: WordAligner) -> None:
    source, target = "The dog sees the cat in the garden.", "Der Hund sieht die Katze im Garten."
    found = substitute(aligner, source, target, ("dog", "Kläffer"), ("cat", "Mieze"))
    assert found.target.text == "Der Kläffer sieht die Mieze im Garten."
    assert [match.entry.source for match in found.written] == ["dog", "cat"]
    assert not found.missing


def test_what_is_there_is_left_in_any_accepted_form(aligner: WordAligner) -> None:
    source, target = "The dogs sleep.", "Die Hunde schlafen."
    for entry in (("dogs", "Hunde"), ("dogs", "Hund", "Hunde"), ("dogs", "hunde")):
        found = substitute(aligner, source, target, entry)
        assert (found.target.text, found.missing, found.written) == (target, (), ())


def test_each_place_needs_its_own(aligner: WordAligner) -> None:
    source, target = "The dog and the dog.", "Der Kläffer und der Hund."
    found = substitute(aligner, source, target, ("dog", "Kläffer"))
    assert found.target.text == "Der Kläffer und der Kläffer."


def test_the_translation_of_another_word_does_not_count(aligner: WordAligner) -> None:
    source, target = "The table and the door.", "Der Tisch und die Tür."
    found = substitute(aligner, source, target, ("door", "Tisch"))
    assert found.target.text == "Der Tisch und die Tisch."


def test_several_words_become_one_and_one_several(aligner: WordAligner) -> None:
    found = substitute(
        aligner, "The train station is new.", "Der Bahnhof ist neu.", ("train station", "Haltepunkt")
    )
    assert found.target.text == "Der Haltepunkt ist neu."
    found = substitute(aligner, "I like dogs.", "Ich mag Hunde.", ("dogs", "alte Kläffer"))
    assert found.missing, "a small letter says that it is another kind of word"
    found = substitute(aligner, "I like dogs.", "Ich mag Hunde.", ("dogs", "Kläffer aller Art"))
    assert found.target.text == "Ich mag Kläffer aller Art."


def test_capitals_of_the_place_are_kept(aligner: WordAligner) -> None:
    found = substitute(aligner, "Dogs are nice.", "Hunde sind nett.", ("dogs", "vierbeiner"))
    assert found.target.text == "Vierbeiner sind nett."
    found = substitute(aligner, "He is swimming.", "Er schwimmt.", ("swimming", "Schwimmer"))
    assert found.missing, "a noun does not take the place of a verb"
    found = substitute(aligner, "DOGS ARE NICE.", "HUNDE SIND NETT.", ("dogs", "Kläffer"))
    assert found.missing, "words in capitals are not in the tables"


def test_what_the_client_begins_with_is_kept(aligner: WordAligner) -> None:
    segment, target = Segment("The dog sees a dog."), Target("Der Hund sieht einen Hund.")
    matches = Glossary([make_entry("dog", "Kläffer")]).find(segment)
    found = TermSubstitution(segment, aligner, "de", "Der Hund").substitute(target, matches)
    assert found.target.text == "Der Hund sieht einen Kläffer."
    assert list(found.missing) == matches[:1]


def test_words_apart_are_not_replaced(aligner: WordAligner) -> None:
    found = substitute(
        aligner, "He called her up yesterday.", "Er rief sie gestern an.", ("called", "kontaktierte")
    )
    assert found.target.text in ("Er kontaktierte sie gestern an.", "Er rief sie gestern an.")
    source, target = "I gave up smoking.", "Ich gab das Rauchen auf."
    found = substitute(aligner, source, target, ("gave up", "beendete"))
    assert (found.target.text == target) == bool(found.missing)


def test_spans_stay_where_they_are(aligner: WordAligner) -> None:
    target = Target("Der Hund von {x} schläft.", (Span(13, 16, "{x}"),))
    segment = Segment("The dog of {x} sleeps.", (Span(11, 14, "{x}"),))
    matches = Glossary([make_entry("dog", "Wachhund")]).find(segment)
    found = TermSubstitution(segment, aligner, "de").substitute(target, matches)
    assert found.target == Target("Der Wachhund von {x} schläft.", (Span(17, 20, "{x}"),))


def test_an_article_that_another_term_wrote_or_a_span_holds_is_left(repository: Path) -> None:
    aligner = read_aligner(repository / "bundles" / "de-en")
    source, target = "Ich esse eine Orange.", "I eat an orange."
    found = substitute(aligner, source, target, ("eine", "one"), ("Orange", "pear"), language="en")
    assert found.target.text == "I eat one pear."
    found = substitute(aligner, source, target, ("Orange", "pear"), language="en")
    assert found.target.text == "I eat a pear."
    segment = Segment("Wir nehmen eine Orange.", (Span(11, 15, "eine"),))
    matches = Glossary([make_entry("Orange", "pear")]).find(segment)
    spans = (Span(8, 10, "eine"),)
    held = TermSubstitution(segment, aligner, "en").substitute(Target("We take an orange.", spans), matches)
    assert held.target == Target("We take an pear.", spans)


def test_terms_take_the_place_of_their_masks(aligner: WordAligner) -> None:
    segment = Segment("Dogs see {x}.", (Span(9, 12, "{x}"),))
    (match,) = Glossary([make_entry("dogs", "vierbeiner")]).find(segment)
    target = Target("Dogs sehen {x}.", (Span(0, 4, "\0term 0"), Span(11, 14, "{x}")))
    found = TermSubstitution(segment, aligner, "de").unmasked(target, {"\0term 0": match})
    assert found == Target("Vierbeiner sehen {x}.", (Span(17, 20, "{x}"),))


def test_tags_find_the_words_of_terms(aligner: WordAligner) -> None:
    segment = Segment("The dog sleeps in the garden.")
    matches = Glossary([make_entry("garden", "Xyz Abc")]).find(segment)
    words = (["The", "dog", "sleeps", "in", "the", "garden"], ["In", "Xyz", "Abc", "schläft", "der", "Hund"])
    links = term_links(aligner.links, segment, matches)
    assert {(5, 1), (5, 2)} <= set(links(*words))


@pytest.mark.parametrize(
    ("target", "term", "written"),
    [
        ("This is a dog.", "animal", "This is an animal."),
        ("A dog.", "animal", "An animal."),
        ("This is an animal.", "dog", "This is a dog."),
        ("This is an animal.", "owl", "This is an owl."),
    ],
)
def test_an_english_article_goes_with_the_term(
    repository: Path, target: str, term: str, written: str
) -> None:
    into_english = read_aligner(repository / "bundles" / "de-en")
    source, old = ("Das ist ein Hund.", "Hund") if "dog" in target else ("Das ist ein Tier.", "Tier")
    found = substitute(into_english, source, target, (old, term), language="en")
    assert found.target.text == written
