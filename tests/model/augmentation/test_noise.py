"""Damaged sources: what may change, what may not, and how often it happens."""

import re
from collections import Counter

import numpy as np
import pytest

from model.augmentation.noise import damage, without_accents

SENTENCE = "I can't find my keys, Anna, and it's 17:45 in room B-12."


def damaged(text: str, count: int = 400) -> list[str]:
    rng = np.random.default_rng(5)
    return [damage(text, rng) for _ in range(count)]


def test_same_seed_same_damage() -> None:
    assert damaged(SENTENCE, 30) == damaged(SENTENCE, 30)
    assert len(set(damaged(SENTENCE, 30))) > 20


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        (lambda text: text == text.lower(), 0.20, 0.45),
        (lambda text: text == text.upper(), 0.02, 0.12),
        (lambda text: "'" not in text, 0.35, 0.65),
        (lambda text: not text.endswith("."), 0.25, 0.55),
        (lambda text: "," not in text, 0.15, 0.45),
        (lambda text: text == SENTENCE, 0.01, 0.25),
    ],
)
def test_every_kind_happens_and_none_always(kind: object, least: float, most: float) -> None:
    share = sum(map(kind, damaged(SENTENCE))) / 400  # type: ignore[call-overload]
    assert least < share < most


def test_words_and_digits_stay_in_place() -> None:
    for text in damaged(SENTENCE):
        assert len(text.split()) == len(SENTENCE.split())
        assert re.findall(r"\d", text) == list("174512")


def test_a_typo_changes_one_letter_and_never_the_first() -> None:
    changed = [text for text in damaged("keyboards", 300) if text.lower() != "keyboards"]
    assert changed
    for text in changed:
        assert text[0].lower() == "k"
        assert abs(len(text) - 9) <= 1
        lost = Counter("keyboards") - Counter(text.lower())
        assert lost.total() <= 1


@pytest.mark.parametrize("text", ["", "?", "...", "7", "a", "日本語", "Ω"])
def test_what_has_nothing_to_damage_survives(text: str) -> None:
    for found in damaged(text, 50):
        assert found.lower() in {text.lower(), text.lower().rstrip(".!?")}
        assert bool(found) == bool(text)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("¿Dónde está el baño?", "¿Donde esta el bano?"),
        ("Où êtes-vous, François ?", "Ou etes-vous, Francois ?"),
        ("Über Łódź", "Uber Łodz"),  # Ł is no accented L to Unicode
        ("हिन्दी 日本語 ガ", "हिन्दी 日本語 ガ"),
    ],
)
def test_only_latin_accents_go(text: str, plain: str) -> None:
    assert without_accents(text) == plain


def test_accents_are_dropped_now_and_then() -> None:
    lost = sum("ó" not in text.lower() for text in damaged("Dónde está", 400))
    assert 60 < lost < 160
