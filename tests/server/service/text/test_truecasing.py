"""Capitals: what becomes of words in them, and of the translation."""

import re
import time
from pathlib import Path

import pytest

from model.tokenizer import Tokenizer
from server.service.text.truecasing import Truecaser

SHIPPED = Path(__file__).parents[4] / "bundles" / "en-de" / "source.spm"


@pytest.fixture(scope="module")
def truecaser() -> Truecaser:
    return Truecaser(Tokenizer.load(SHIPPED))


@pytest.mark.parametrize(
    ("capitals", "plain"),
    [
        ("WHERE IS THE TRAIN STATION?", "Where is the train station?"),
        ("I CAN'T FIND MY KEYS, TOM!", "I can't find my keys, Tom!"),
        ("DER HUND SCHLÄFT.", "Der Hund schläft."),
        ('"ARE YOU IN BOSTON?"', '"Are you in Boston?"'),
        ("MEET ME AT 17:45 IN ROOM B-12.", "Meet me at 17:45 in room B-12."),
        ("NO WAY", "No way"),
    ],
)
def test_a_sentence_in_capitals_gets_the_case_of_its_words(
    truecaser: Truecaser, capitals: str, plain: str
) -> None:
    assert truecaser.restore(capitals) == (plain, True)


@pytest.mark.parametrize(
    ("label", "known"),
    [
        ("Vegetables", "vegetables"),
        ("Save", "save"),
        ("Paris", "Paris"),  # a name alone
        ("Wednesday", "Wednesday"),  # never in small letters
        ("Schule", "Schule"),
        ("Vegetables!", "Vegetables!"),  # a sentence
        ("Vegetables:", "vegetables"),
        ("Vegetables :", "vegetables"),
        ("Paris:", "Paris:"),
        ("Red Vegetables", "Red Vegetables"),
        ("A", "A"),
    ],
)
def test_a_label_gets_the_form_that_is_known_within_sentences(
    truecaser: Truecaser, label: str, known: str
) -> None:
    assert truecaser.within_sentences(label) == known


def test_a_label_in_capitals_does_too(truecaser: Truecaser) -> None:
    assert truecaser.restore("VEGETABLES") == ("vegetables", True)


@pytest.mark.parametrize(
    ("emphasised", "plain"),
    [
        ("HELLO, how are you?", "Hello, how are you?"),
        ("Do that NEVER again.", "Do that never again."),
        ("I said MARY, not TOM!", "I said Mary, not TOM!"),
        ("NATO and IKEA read JSON and HTML.", "NATO and IKEA read JSON and HTML."),
        ("In BOSTON it is TERRIBLE!", "In Boston it is terrible!"),
        ("Set DRAGOMAN_PORT to B-12.", "Set DRAGOMAN_PORT to B-12."),
        ("tHe CaT iS bLaCk", "The cat is black"),
        ("i dOn'T kNoW wHeRe ToM liVeS!", "I don't know where Tom lives!"),
        ("gOOD mORNING", "Good morning"),
        ("i dON'T kNOW!", "I don't know!"),
        ("WhErE Is ThE kEy? 12:30", "Where is the key? 12:30"),
    ],
)
def test_odd_case_is_undone_where_words_are_known(truecaser: Truecaser, emphasised: str, plain: str) -> None:
    assert truecaser.restore(emphasised) == (plain, False)


@pytest.mark.parametrize(
    "text",
    [
        *("", "USA", "IT", "B-12", "...", "1234", "Tom is here.", "日本語", "McDonald's", "x", "ß"),
        *(
            "My iPhone and my iPad",
            "eBay, iPhone, YouTube and PayPal",
            "JavaScript",
            "tHe CaT",
            "mRNA tRNA",
            "iPHONE",
        ),
        *("GitHub GitLab JavaScript TypeScript", "getUserName setUserName isOpen"),
        "Die LehrerInnen und SchülerInnen mögen BallSpiele.",
    ],
)
def test_what_has_no_capitals_to_undo_stays(truecaser: Truecaser, text: str) -> None:
    assert truecaser.restore(text) == (text, False)


def test_what_comes_out_has_the_same_letters(truecaser: Truecaser) -> None:
    for text in ("ÇA VA, FRANÇOIS?", "ΠΟΥ ΕΊΝΑΙ ΑΥΤΌ;", "ГДЕ ОН?", "Ǆ ABCD", "ŁÓDŹ IS A CITY"):
        plain, capitals = truecaser.restore(text)
        assert capitals
        assert plain.upper() == text


@pytest.mark.parametrize("text", ["LOUD {a-}!", "LOUD {-}!", "loud {aB}1"])
def test_time_is_linear(truecaser: Truecaser, text: str) -> None:
    def seconds(count: int) -> float:
        sentence = re.sub(r"{(.+)}", lambda match: match[1] * count, text)
        times = []
        for _ in range(3):
            began = time.thread_time()
            truecaser.restore(sentence)
            times.append(time.thread_time() - began)
        return min(times)

    # Eight times the text in 64 times the time would be quadratic.
    assert seconds(16_000) < 24 * max(seconds(2_000), 1e-3)
