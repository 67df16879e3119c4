"""Damage is what its name says, and what it costs is counted of the sentences that it changes."""

import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest

from model.evaluation.damage import KINDS, comparable
from model.evaluation.robustness import robustness

TEXT = 'He said: "You are late because the small train didn\'t come to the modern café".'


def damaged(kind: str, text: str = TEXT, seed: int = 3) -> str:
    return KINDS[kind](text, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("kind", "undone"),
    [
        ("lower case", str.lower),
        ("lost spaces", lambda text: text.replace(" ", "")),
        ("added spaces", lambda text: text.replace(" ", "")),
        ("zero width", lambda text: text.replace("\u200b", "").replace("\u00ad", "")),
        ("no-break spaces", lambda text: text.replace("\u00a0", " ")),
        ("decomposed", lambda text: unicodedata.normalize("NFC", text)),
        ("curly quotes", lambda text: text.translate(str.maketrans("“”’", '""\''))),
        ("look-alikes", lambda text: text.translate(str.maketrans("асеорхуАСЕНКМОРТХ", "aceopxyACEHKMOPTX"))),
        ("repeated marks", lambda text: text.replace("...", ".")),
        ("no accents", lambda text: text.replace("é", "e")),
    ],
)
def test_damage_can_be_undone(kind: str, undone: object) -> None:
    assert callable(undone)
    assert damaged(kind) != TEXT
    assert undone(damaged(kind)) == undone(TEXT)


def test_the_other_kinds_change_something() -> None:
    assert {kind for kind in KINDS if damaged(kind) == TEXT} == set()
    assert "u r late bc" in damaged("chat", "Well, you are late because of me.").replace("Well, ", "")
    assert any(3 * letter in damaged("drawn out") for letter in "aeiou")


def test_damage_is_the_same_for_a_seed_and_leaves_empty_texts() -> None:
    for kind in KINDS:
        assert damaged(kind) == damaged(kind)
        assert damaged(kind, "")[:1].strip() in ("", "😀", "😂", "❤", "🎉", "👍")


def test_scores_are_of_changed_sentences_and_each_text_is_translated_once() -> None:
    sources = ["a long sentence without accents", "una canción", "una canción"]
    asked: list[str] = []

    def translate(lines: Sequence[str]) -> list[str]:
        asked.extend(lines)
        return ["something else" if line == "una cancion" else line for line in lines]

    found = robustness(translate, sources, sources, sources)
    assert len(asked) == len(set(asked))
    assert not set(asked) & set(sources)
    accents = found["no accents"]
    assert accents["changed_sentences"] == 2
    assert accents["ratio"] < 0.3
    assert accents["consistency"] < 30
    assert accents["chrf"] > 50, "the whole test set has a sentence without accents"
    assert "chat" not in found
    spaces = found["no-break spaces"]
    assert (spaces["changed_sentences"], spaces["bleu_lost"]) == (3, pytest.approx(100 - spaces["bleu"]))


def test_what_a_translation_takes_over_from_its_source_is_not_compared() -> None:
    for kind in ("hasty", "emoji", "capitals"):
        assert comparable("DAS IST ES 😀", kind) == comparable("Das 🎉 ist es.", kind) == "das ist es"
    assert comparable("Das ist es.", "typos") == "Das ist es."
