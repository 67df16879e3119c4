"""A translation has the final mark, first letter and quotes of its source; the rest stays as it is."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from server.service.text.output.shape import on_the_way, shape
from server.service.text.segment import Span, Target


def shaped(source: str, target: str, languages: str) -> str:
    return shape(source, Target(target), *languages.split("-")).text


@pytest.mark.parametrize(
    ("languages", "source", "target", "expected"),
    [
        ("en-de", "Red apples", "Rote Äpfel.", "Rote Äpfel"),
        ("en-de", "Save", "Speichern!", "Speichern"),
        ("en-de", "Name:", "Name.", "Name:"),
        ("en-de", "Who is it?", "Wer ist es", "Wer ist es?"),
        ("en-de", "Who is it?", "Wer ist es.", "Wer ist es?"),
        ("en-de", "Wait...", "Warte.", "Warte..."),
        ("en-fr", "Who is it?", "Qui est-ce.", "Qui est-ce\u202f?"),
        ("en-fr", "Name:", "Nom", "Nom\u202f:"),
        ("en-fr", "Name" + 80 * ".", "Nom", "Nom" + 80 * "."),
        ("en-fr", "Name", "Nom" + 80 * ".", "Nom"),
        ("en-de", '"Yes"', '"Ja' + 80 * "." + '"', '"Ja"'),
        ("fr-en", "Qui est-ce ?", "Who is it.", "Who is it?"),
        ("en-es", "Who is it?", "Quién es.", "¿Quién es?"),
        ("en-es", "Who is it", "¿Quién es?", "Quién es"),
        ("en-es", "Run!", "Corre", "¡Corre!"),
        ("en-es", "Yes!", "Sí!", "¡Sí!"),
        ("en-es", "Call panic!", "Llama a panic!", "Llama a panic!"),
        ("en-es", "Is it (really) so?", "(De verdad) es así?", "¿(De verdad) es así?"),
        ("en-es", "“Who?” he said. Who?", "“Quién” dijo, quién?", "“¿Quién” dijo, quién?"),
        ("en-es", "Run!", "¡Corre.", "¡Corre!"),
        ("es-en", "¿Quién es?", "Who is it", "Who is it?"),
        ("en-fr", "Yes", "Oui, « !", "Oui"),
        ("en-fr", "this and", "ceci et ", "ceci et"),
        ("de-en", "von Eva am 2. Mai", "from Eva. 2 May", "from Eva, 2 May"),
        ("fr-en", "Oui, « j’ai fini\u202f! »", 'Yes, "I am done!"', 'Yes, "I am done!"'),
        ("es-en", "Dijo: «No».", 'He said: "No."', 'He said: "No".'),
        ("de-en", 'Heute "Keine Abholung"', 'Today "no pickup."', 'Today "no pickup"'),
    ],
)
def test_the_final_mark_is_the_sources(languages: str, source: str, target: str, expected: str) -> None:
    assert shaped(source, target, languages) == expected


@pytest.mark.parametrize(
    ("languages", "source", "target", "expected"),
    [
        ("en-fr", "red apples", "Pommes rouges", "pommes rouges"),
        ("en-de", "red apples", "Rote Äpfel", "Rote Äpfel"),  # may be a noun
        ("en-de", "which is red", "Das ist rot", "das ist rot"),  # a word that begins sentences is none
        ("en-fr", "Red apples", "pommes rouges", "Pommes rouges"),
        ("de-en", "Äpfel", "apples", "apples"),  # nouns have capitals
        ("fr-en", "je sais", "I know", "I know"),
        ("fr-en", "je suis là", "I'm here", "I'm here"),
        ("fr-en", "les onu", "UNO", "UNO"),
        ("fr-en", "le cas de Tom", "Tom's case", "Tom's case"),
        ("fr-en", "maison", "House", "house"),
        ("de-en", "ein Haus", "A house", "a house"),
        ("en-fr", "any comment", "N'importe quoi", "n'importe quoi"),
        ("de-en", "Zimmer 5 ist frei.", "room 5 is free.", "Room 5 is free."),
    ],
)
def test_the_first_letter_is_as_in_the_source(
    languages: str, source: str, target: str, expected: str
) -> None:
    assert shaped(source, target, languages) == expected


@pytest.mark.parametrize(
    ("languages", "source", "target", "expected"),
    [
        ("en-de", "He says yes.", 'Er sagt "ja".', "Er sagt ja."),
        ("en-fr", "He says yes.", "Il dit « oui ».", "Il dit  oui ."),
        ("en-de", 'He says "yes".', "Er sagt „ja“.", "Er sagt „ja“."),
        ("en-de", "Red apples and pears", "Rote Äpfel. Und Birnen.", "Rote Äpfel, und Birnen"),
        ("en-de", "Apples beside Anna", "Äpfel. Sie. Anna. Birnen.", "Äpfel, Sie, Anna, Birnen"),
        (
            "es-en",
            "Él vio a Tom y durmió",
            "He saw. Tom slept. He left. I too",
            "He saw, Tom slept, he left, I too",
        ),
        ("en-de", "I came, I saw.", "Ich kam. Ich sah.", "Ich kam, ich sah."),
        ("en-de", "He left on May 3, 1987.", "Er ging am 3. Mai. 1987.", "Er ging am 3. Mai, 1987."),
        ("en-es", "From Mon. 8 to Fri. 9.", "De Mon. 8 a Fri. 9.", "De Mon. 8 a Fri. 9."),
        ("es-en", "Soy así, no puedo.", "I'm so. I can't.", "I'm so, I can't."),
        ("en-de", "Mrs. May met Mr. Cook.", "Frau. May traf Herr. Cook.", "Frau May traf Herr Cook."),
        ("en-es", "Mrs. Ortega is here.", "La señora. Ortega está aquí.", "La señora Ortega está aquí."),
        (
            "de-en",
            "Das sind z. B. die Hunde.",
            "Those are. For example the dogs.",
            "Those are, for example the dogs.",
        ),
        ("en-de", "I came. I saw.", "Ich kam. Ich sah.", "Ich kam. Ich sah."),
    ],
)
def test_quotes_and_stops_that_the_source_has_not_go(
    languages: str, source: str, target: str, expected: str
) -> None:
    assert shaped(source, target, languages).replace("  ", " ").replace(" .", ".") == expected.replace(
        "  ", " "
    ).replace(" .", ".")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Well... I know.", "Nun… Ich weiß.", "Nun... Ich weiß."),
        ("Well... I know.", "Nun, .. Ich weiß.", "Nun... Ich weiß."),
        ("Well... I know.", "Nun,.. Ich weiß.", "Nun... Ich weiß."),
        ("Well... I know...", "Nun.. Ich weiß…", "Nun... Ich weiß…"),
        ("Well.... I know.", "Nun.... Ich weiß.", "Nun.... Ich weiß."),
    ],
)
def test_three_points_are_three(source: str, target: str, expected: str) -> None:
    assert shape(source, Target(target), "en", "de").text == expected


@pytest.mark.parametrize(
    ("languages", "source", "target"),
    [
        ("en-de", "Where is Tom?", "Wo ist Tom?"),
        ("en-de", "Don't be late.", "Komm nicht zu spät!"),
        ("de-en", "Komm nicht zu spät!", "Don't be late."),
        ("en-fr", "Where is Tom?", "Où est Tom ?"),
        ("en-fr", "Where is Tom?", "Où est Tom\u202f?"),
        ("en-fr", "Wait!", "Attends\u00a0!"),
        ("en-es", "Where is Tom?", "¿Dónde está Tom?"),
        ("en-es", "I am happy.", "¡Soy feliz!"),
        ("en-es", "And if he comes, what do I do?", "Y si viene, ¿qué hago?"),
        ("en-es", "What do they speak in the U.S.?", "¿Qué se habla en EE. UU.?"),
        ("en-es", "What do they speak in the US?", "¿Qué se habla en E.U.A.?"),
        ("en-de", "Well… I know.", "Nun... ich weiß."),
        ("en-de", "Wait...", "Warte…"),
        ("en-de", "", ""),
        ("en-de", "Hello.", ""),
    ],
)
def test_what_is_well_formed_is_the_same_object(languages: str, source: str, target: str) -> None:
    given_target = Target(target)
    assert shape(source, given_target, *languages.split("-")) is given_target


@pytest.mark.parametrize(
    ("source", "english", "expected"),
    [
        ("estoy cansado", "I'm tired", "i'm tired"),
        ("<p>¿lo <b>sé</b>?", "<p>I <b>know</b>?", "<p>i <b>know</b>?"),
        ("Estoy cansado", "I'm tired", "I'm tired"),
        ("es así", "It is so", "It is so"),
        ("", "", ""),
    ],
)
def test_a_small_letter_stays_known_on_the_way(source: str, english: str, expected: str) -> None:
    assert on_the_way(source, english) == expected


def test_points_that_are_kept_are_not_written_again() -> None:
    target = Target("Firma ......", (Span(6, 12),))
    assert shape("Signature ......", target, "en", "es") is target


LANGUAGES = st.sampled_from(["en", "de", "fr", "es", "pl", ""])
TEXTS = st.lists(
    st.sampled_from(
        ["Word", "word", "É", "12", " ", ". ", "?", "!", "¿", "¡", '"', "«", "»", "{x}", "…", ":", "\u202f"]
    ),
    max_size=9,
).map("".join)  # fmt: skip


@st.composite
def targets(draw: st.DrawFn) -> Target:
    text = draw(TEXTS)
    ends = sorted(set(draw(st.lists(st.integers(0, len(text)), max_size=4))))
    return Target(text, tuple(Span(start, end) for start, end in zip(ends[::2], ends[1::2], strict=False)))


@given(TEXTS.map(str.strip), targets(), LANGUAGES, LANGUAGES)
@example("", Target("Word1212?. Word", (Span(0, 9),)), "en", "de")
def test_spans_keep_their_characters_and_words_are_not_lost(
    source: str, target: Target, source_language: str, target_language: str
) -> None:
    found = shape(source, target, source_language, target_language)
    assert [found.text[span.start : span.end] for span in found.spans] == [
        target.text[span.start : span.end] for span in target.spans
    ]
    letters = [character for character in target.text.lower() if character.isalnum()]
    assert [character for character in found.text.lower() if character.isalnum()] == letters


@pytest.mark.parametrize("mark", [".", "…", "! "])
@pytest.mark.parametrize("end", ["-", "", '  "'])
def test_time_is_linear(mark: str, end: str) -> None:
    def seconds(count: int) -> float:
        text = "Yes" + mark * count + end
        times = []
        for _ in range(3):
            began = time.thread_time()
            shape(text, Target("Ja"), "en", "de")
            times.append(time.thread_time() - began)
        return min(times)

    # Eight times the text in 64 times the time would be quadratic.
    assert seconds(16_000) < 24 * max(seconds(2_000), 1e-3)


def test_the_full_stop_of_a_kept_abbreviation_ends_the_sentence_too() -> None:
    kept = (Span(4, 10),)
    stop = shape("We left at 5 p.m. sharp.", Target("Bis 5 p.m..", kept), "en", "de")
    question = shape("Is it 5 p.m.?", Target("Bis 5 p.m.", kept), "en", "de")
    assert (stop.text, question.text) == ("Bis 5 p.m.", "Bis 5 p.m.?")
