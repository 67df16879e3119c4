"""What is translated and what comes back as it is."""

import pytest

from server.service.text.detection import triage
from server.service.text.detection.scripts import written_in
from server.service.text.detection.triage import (
    is_code,
    is_unpronounceable,
    is_wordless,
    visible_text,
)
from server.service.text.languages import UNDETERMINED


def stated(text: str, source: str, target: str, is_html: bool = False) -> str | None:
    return triage.check(text, source, target, is_html=is_html).source


@pytest.mark.parametrize(
    ("text", "source", "target"),
    [
        ("Der Schlüssel zum Keller hängt neben der Tür.", "en", "de"),
        ("The key of the cellar hangs beside the door.", "de", "en"),
        ("La clé de la cave est à côté de la porte.", "en", "fr"),
        ("La llave del sótano está al lado de la puerta.", "fr", "es"),
        ("I do not know. Ask the neighbour tomorrow.", "fr", "en"),
    ],
)
def test_a_sentence_in_the_target_language_is_left(text: str, source: str, target: str) -> None:
    assert stated(text, source, target) is None
    assert stated(text, target, source) == target


@pytest.mark.parametrize(
    ("text", "source", "target"),
    [
        ("Schadenfreude", "en", "de"),
        ("Bad Homburg", "de", "en"),
        ("Kindergarten, Rucksack, Wanderlust, Zeitgeist", "en", "de"),
        ("The Best of the Beatles: wir hören es heute.", "de", "en"),
        ("He said: Ich bin ein Berliner.", "en", "de"),
        ("Das Meeting mit dem Sales Team ist um zehn.", "de", "en"),
        ("Der Film heißt Gone with the Wind.", "de", "en"),
        ("Please translate this. Der Schlüssel hängt neben der Tür.", "en", "de"),
        ("No problem", "es", "en"),
        ("Mi casa", "en", "es"),
        ("Angela Merkel, Gerhard Schröder, Helmut Kohl", "en", "de"),
    ],
)
def test_names_loanwords_and_mixed_texts_are_translated(text: str, source: str, target: str) -> None:
    assert stated(text, source, target) == source


@pytest.mark.parametrize(
    "text", ["今日はとても暑いです。", "الكتاب على الطاولة", "저는 학생입니다", "Где ключи?", "Πού;"]
)
def test_a_text_in_another_script_is_left(text: str) -> None:
    assert stated(text, "en", "de") is None
    found = triage.detect(text, ["en", "fr"], "de", is_html=False)
    assert (found.source, found.detected.language, found.detected.confidence) == (None, UNDETERMINED, 0)


@pytest.mark.parametrize(
    "text", ["The sign 山 means mountain.", "Ｈｅｌｌｏ", "𝐇𝐞𝐥𝐥𝐨", "ﬁne", "12 µm", "", "😀", "17"]
)
def test_the_script_of_the_source_is_enough(text: str) -> None:
    assert stated(text, "en", "de") == "en"


def test_scripts_are_those_of_the_language() -> None:
    assert written_in("Привет", "ru")
    assert written_in("Zdravo", "sr")
    assert written_in("Здраво", "sr")
    assert not written_in("Hello", "ru")
    assert written_in("Привет", "tlh")  # a code that nothing is known of


@pytest.mark.parametrize(
    "text", ["a8f5f167f44f4964", "QWERTZ-9981-ZZXK", "b)", "(c)", "AB12CD 99FF00", "00042-main", "#1234-fix"]
)
def test_codes_are_left(text: str) -> None:
    assert is_code(text)
    assert stated(text, "en", "de") is None


@pytest.mark.parametrize(
    "text",
    [
        "k",
        "I",
        "A4",
        "1st",
        "24/7",
        "Area 51",
        "MP3 player",
        "",
        "12",
        "à",
        "2 dogs",
        "30-day",
        "24-hour",
        "(20-minute)",
        "19th-century",
        "30-Tage",
        "1990s-era",
        "10,000-square",
        "3.5-inch",
        "10-year-old",
    ],
)
def test_words_with_digits_are_no_codes(text: str) -> None:
    assert not is_code(text)


@pytest.mark.parametrize(("text", "is_noise"), [
    ("xkqj vwzzt plmrr", True), ("hmmmm", True), ("bcdf", True),
    ("asdf jklö asdfasdf", True), ("QWERTZ uiop", True), ("aaaaaa", True),
    ("Wert", False), ("asdf ist da", False), ("power", False), ("aaaah", False),
    ("Mr.", False), ("TV", False), ("rhythm", False), ("Łódź", False), ("xkqj house", False),
    ("12345", False), ("Ελλάς", False), ("Øst", False),
])  # fmt: skip
def test_letters_nobody_can_say_are_noise(text: str, is_noise: bool) -> None:
    assert is_unpronounceable(text) == is_noise


def test_words_without_vowels_are_words_in_other_languages() -> None:
    assert stated("Strč prst skrz krk", "cs", "en") == "cs"
    assert not is_wordless("Strč prst skrz krk", ["cs", "en"])
    assert is_wordless("Strc prst skrz krk", ["de", "en"])


def test_of_html_the_visible_text_is_judged() -> None:
    page = (
        "<style>.the {and: the}</style><!-- the and of the --><p title='of the and'>Der <b>Schl&uuml;ssel</b>"
        " zum Keller h&auml;ngt neben der T&uuml;r.</p><script>if (a < b) {the and of}</script>"
    )
    assert " ".join(visible_text(page).split()) == "Der Schlüssel zum Keller hängt neben der Tür."
    assert stated(page, "en", "de", is_html=True) is None
    assert triage.detect(page, ["de", "fr"], "en", is_html=True).source == "de"


@pytest.mark.parametrize(
    "before",
    [
        "<style>" + ".the {and: the} " * 900 + "</style>",
        "<!--" + " the and" * 900 + "-->",
        "<meta>\n " * 2000,
    ],
)
def test_the_first_visible_characters_of_html_are_judged(before: str) -> None:
    page = f"{before}<p>Der Schlüssel zum Keller hängt neben der Tür.</p>"
    assert triage.detect(page, ["de", "fr"], "en", is_html=True).source == "de"
    assert stated(page, "en", "de", is_html=True) is None


@pytest.mark.parametrize(
    "broken", ["<", "<p", "a < b", "<!-- no end", "<script>no end", "</p></p>", "<script" * 99]
)
def test_broken_html_is_read_to_its_end(broken: str) -> None:
    triage.check(broken, "en", "de", is_html=True)


def test_a_text_in_the_target_language_is_detected_and_left() -> None:
    found = triage.detect("Guten Abend", ["en", "fr"], "de", is_html=False)
    assert (found.source, found.detected.language) == (None, "de")


@pytest.mark.parametrize("text", ["12345", "😀", "", "  ", "a8f5f167f44f4964"])
def test_a_text_without_words_has_no_language(text: str) -> None:
    found = triage.detect(text, ["en", "fr"], "de", is_html=False)
    assert (found.source, found.detected.language, found.detected.confidence) == (None, UNDETERMINED, 0)
