"""Each check fires on its fault and on nothing that a good translation has."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.lexicon import Lexicon, Table
from server.service.text.output.checks import (
    REASONS,
    Checked,
    Checks,
    Thresholds,
    is_copied,
    is_loop,
    marks_agree,
    numbers_agree,
)
from server.service.text.segment import Segment, Target

UNKNOWN = ("x-one", "x-other")


def checked(
    source: str,
    target: str,
    was_cut: bool = False,
    target_tokens: int | None = None,
    languages: tuple[str, str] = UNKNOWN,
) -> Checked:
    """One token a word and the end of the sentence."""
    words = source.split()
    count = len(target.split()) if target_tokens is None else target_tokens
    return Checked(source, target, range(len(words)), range(count), len(words) + 1, was_cut, languages)


def alarms(*args: Any, **named: Any) -> list[str]:
    return Checks(Thresholds(), None).alarms(checked(*args, **named))


SOURCE = "The old man went home with his dog at night."


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("Der alte Mann ging nachts mit seinem Hund nach Hause.", []),
        ("Der alte Mann ging nach Hause, nach Hause, nach Hause, nach Hause.", ["loop"]),
        ("Der.", ["truncated"]),
        ("", ["truncated"]),
        (" ".join(f"Wort{n}" for n in range(60)), ["overlong"]),
        (SOURCE, ["copied"]),
        ("Der alte Mann ging nachts mit \ufffd Hund nach Hause.", ["invalid"]),
        ("Der alte Mann ging nachts mit \x02 Hund nach Hause.", ["invalid"]),
        ("Der alte Mann ging\tnachts mit seinem\nHund nach Hause.", []),
    ],
)
def test_each_fault_has_its_reason(target: str, expected: list[str]) -> None:
    assert alarms(SOURCE, target) == expected


def test_what_the_length_limit_has_cut_is_a_loop() -> None:
    assert alarms(SOURCE, "Der alte Mann ging mit seinem Hund", was_cut=True) == ["loop"]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [("Yes.", "Ja.", []), ("Yes.", " ", ["truncated"]), ("Go on!", "Mach bitte so weiter!", [])],
)
def test_short_sentences_have_wide_limits(source: str, target: str, expected: list[str]) -> None:
    assert alarms(source, target) == expected
    assert alarms(source, "x", target_tokens=40) == ["overlong"]


@pytest.mark.parametrize(
    ("languages", "target", "expected"),
    [
        (("en", "de"), "We found the key behind the old door.", ["language"]),
        (("en", "de"), "Wir fanden den Schlüssel hinter der alten Tür.", []),
        (("en", "de"), "Der Film heißt The Key Behind The Door.", []),
        (("en", "de"), "Windows Server Update Services", []),
        (("de", "en"), "Wir fanden den Schlüssel hinter der alten Tür.", ["language"]),
        (("eng_Latn", "ita_Latn"), "We found the key behind the old door.", ["language"]),
        (("eng_Latn", "ita_Latn"), "Abbiamo trovato la chiave dietro la vecchia porta.", []),
    ],
)
def test_what_stayed_in_the_source_language_is_noticed(
    languages: tuple[str, str], target: str, expected: list[str]
) -> None:
    assert alarms("I hid this thing at home on Monday.", target, languages=languages) == expected


def test_thresholds_are_those_of_the_bundle() -> None:
    strict = Checks(Thresholds(from_tokens=3, shortest=0.9, longest=1.1), None)
    assert strict.alarms(checked("one two three four", "eins zwei")) == ["truncated"]
    assert strict.alarms(checked("one two three four", "eins zwei drei vier")) == ["truncated"]  # 4 of 5
    assert strict.alarms(checked("one two three four", "eins zwei drei vier ja")) == []
    assert strict.alarms(checked("one two three four", "eins zwei drei vier ja nein")) == ["overlong"]


def lexicon() -> Lexicon:
    """Each of ten pieces becomes the one of its own number."""
    table = Table.from_cells(np.arange(10), np.arange(10), np.full(10, 0.9), 10)
    return Lexicon(table, table)


def test_a_translation_of_something_else_is_detached() -> None:
    checks = Checks(Thresholds(from_tokens=3, coverage=-1.0), lexicon())

    def found(target_ids: Sequence[int]) -> list[str]:
        return checks.alarms(Checked("a b c d e", "v w x y z", range(5), target_ids, 6, False, UNKNOWN))

    assert found([4, 3, 2, 1, 0]) == []
    assert found([9, 8, 7, 6, 5]) == ["detached"]
    assert checks.coverage(checked("a b c", "a b c")) > checks.coverage(checked("a b c", "a"))
    assert Checks(Thresholds(), None).coverage(checked("a", "b")) == 0.0


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("I like it.", "Ja ja ja ja ja ja ja ja ja."),
        ("I like it.", "Es ist so, es ist so, es ist so, es ist so."),
        ("I like it.", "Mmmmmmmmmmmmmmmmmmmmmmmmmmmm"),
        ("I like it.", "Hahahahahahahahahahahahaha"),
        ("I like it.", "Das ist gut, das ist gut, und das ist gut."),
        ("I like it.", "Gut - - - - - - - - -"),
        ("I like it.", "Gut. . . . . . . . . . . ."),
        ("I like it.", "Der Prozesssss."),
        ("I like it.", "Die Entlahhphphphphphung ist da."),
        ("You can say if it was won.", "Sie geben es an, ob Sie geben es an war."),
    ],
)
def test_loops(source: str, target: str) -> None:
    assert is_loop(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("No, no, no, no, no, no, no!", "Nein, nein, nein, nein, nein, nein, nein!"),
        ("Ha ha ha ha ha ha ha.", "Ha ha ha ha ha ha ha."),
        ("The man and the dog and the cat.", "Der Mann und der Hund und die Katze und der Rest."),
        ("I know that he knows that I know.", "Ich weiß, dass er weiß, dass ich weiß."),
        ("Wait...", "Warte..."),
        ("Well?!", "Na?!?!"),
        ("One million.", "1 000 000"),
        ("If I can, I can do so.", "Wenn ich es kann, dann tu ich es, wenn ich es kann."),
        ("The Schifffahrt", "Die Schifffahrt"),
        ("", ""),
    ],
)
def test_no_loops(source: str, target: str) -> None:
    assert not is_loop(source, target)


@given(st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=12), st.integers(6, 20))
def test_whatever_is_said_six_times_too_often_is_a_loop(words: list[str], times: int) -> None:
    assert is_loop("something else altogether", " ".join(["x", *words * (times + 1)]))


@given(st.text(max_size=60))
def test_a_text_is_no_loop_of_itself(text: str) -> None:
    assert not is_loop(text, text)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (SOURCE, SOURCE, True),
        (SOURCE, SOURCE.lower(), True),
        (SOURCE, "the old man WENT home with his dog at night", True),
        (SOURCE, "Der alte Mann ging nach Hause.", False),
        ("Tom Jackson, Mary Smith, John Miller", "Tom Jackson, Mary Smith, John Miller", False),
        ("PH1 PH2 XX3 Q7 of B1", "PH1 PH2 XX3 Q7 of B1", False),
        ("Yes, it is.", "Yes, it is.", False),  # too short to tell
        ("Un animal normal est un animal naturel", "A normal animal is a natural animal", False),
    ],
)
def test_copies(source: str, target: str, expected: bool) -> None:
    assert is_copied(source, target) is expected


@pytest.mark.parametrize(
    ("languages", "source", "target"),
    [
        ("en-de", "I have 3 dogs.", "Ich habe 3 Hunde."),
        ("en-de", "I have 3 dogs.", "Ich habe drei Hunde."),
        ("en-de", "I have three dogs.", "Ich habe 3 Hunde."),
        ("en-de", "1,234.50 and 1,000,000", "1.234,50 und 1.000.000"),
        ("en-fr", "10,000 people", "10\u202f000 personnes"),
        ("en-de", "at 07:05", "um 7:05"),
        ("de-en", "Ich habe einen Hund und 1 Katze.", "I have 1 dog and a cat."),
        ("en-es", "I have one dog.", "Tengo 1 perro."),
        ("en-pl", "I have no dogs.", "Nie mam psów."),
        ("en-de", "She is 30.", "Sie ist dreißig."),
        ("fr-en", "Il a quarante livres.", "He has 40 books."),
        ("en-es", "twenty employees", "20 empleados"),
        ("en-de", "about 2,000 books", "ungefähr zweitausend Bücher"),
        ("de-en", "einhundertfünfzig Diplomaten", "150 diplomats"),
        ("fr-en", "deux mille dollars", "$2,000"),
        ("fr-en", "le 4 juillet", "the Fourth of July"),
        ("en-de", "the 7:00 train", "der 7-Uhr-Zug"),
        ("en-de", "at 9 o'clock tonight", "um 21 Uhr"),
        ("fr-en", "à 14:30 cet après-midi", "at 2:30 this afternoon"),
        ("es-en", "para las dos y media", "by 2:30"),
        ("es-en", "desde las 10 a las 18 horas", "from 10 a.m. to 6 p.m."),
        ("fr-en", "à 17 h 45", "at 5:45"),
    ],
)
def test_numbers_agree(languages: str, source: str, target: str) -> None:
    first, second = languages.split("-")
    assert numbers_agree(Segment(source), Target(target), (first, second))


@pytest.mark.parametrize(
    ("languages", "source", "target"),
    [
        ("en-de", "I have 3 dogs.", "Ich habe 4 Hunde."),
        ("en-de", "I have 3 dogs.", "Ich habe Hunde."),
        ("en-de", "I have dogs.", "Ich habe 12 Hunde."),
        ("en-de", "I have 3 dogs.", "Ich habe 3 3 Hunde."),
        ("en-de", "It costs 1,234.", "Es kostet 1 und 1.234."),
        ("en-de", "It costs 150.", "Es kostet 15."),
        ("en-fr", "It costs 1,250.00 euros.", "Cela coûte 1,250,00 euros."),  # no number in any language
        ("en-pl", "I have 3 dogs.", "Mam psy."),
        ("en-de", "I have 9 dogs.", "Ich habe 21 Hunde."),  # no hours
        ("en-de", "at 7:30", "um 8:30 Uhr"),
        ("en-de", "about 2,000 books", "ungefähr dreitausend Bücher"),
        ("en-de", "9" * 5000, "9" * 4999),
    ],
)
def test_numbers_disagree(languages: str, source: str, target: str) -> None:
    first, second = languages.split("-")
    assert not numbers_agree(Segment(source), Target(target), (first, second))


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ('He said "yes" (twice).', "Er sagte „ja“ (zweimal).", True),
        ('He said "yes".', "Il a dit « oui ».", True),
        ("He said (yes).", "Er sagte ja.", False),
        ("He said (yes).", "Er sagte (ja.", False),
        ("He said yes.", 'Er sagte "ja".', False),
        ('He said "yes".', 'Er sagte "ja.', False),
        ("It's Tom's.", "Es ist Tom's.", True),
        ("The 'Save' button", "Die Schaltfläche Speichern", False),
        ("The 'Save' button", "Die Schaltfläche 'Speichern", False),
        ("The 'Save' button", "Le bouton 'Enregistrer l'image'", True),
        ("The ‘Save’ button", "Die Schaltfläche 'Speichern'", True),
        ("The boys' and dogs' toys", "Die Spielzeuge", True),
        ("", "", True),
        ("He said «yes».", "Er sagte «ja”.", False),
        ('He said "yes".', 'Il dit « oui".', False),
        ("He said “yes”.", "Er sagte „ja“.", True),
    ],
)
def test_marks(source: str, target: str, expected: bool) -> None:
    assert marks_agree(Segment(source), Target(target)) is expected


@given(st.text(max_size=40), st.sampled_from(["en", "de", "fr", "es", "pl"]))
def test_a_text_agrees_with_itself(text: str, language: str) -> None:
    assert numbers_agree(Segment(text), Target(text), (language, language))
    assert marks_agree(Segment(text), Target(text))


@given(st.text(max_size=60), st.text(max_size=60), st.booleans())
def test_reasons_are_known_and_the_most_serious_is_first(source: str, target: str, was_cut: bool) -> None:
    found = alarms(source, target, was_cut)
    assert found == sorted(set(found), key=REASONS.index)
