"""Joined pairs: both sides alike, names keep their capitals, nothing is lost."""

import numpy as np
import pytest

from model.augmentation.drawing import PairAugmenter
from model.augmentation.joining import Joiner
from model.recipe import Augment

SOURCES = ["Hello!", "How are you?", "Tom sleeps.", "I know how it is.", "Cats are nice."]
TARGETS = ["Hallo!", "Wie geht es dir?", "Tom schläft.", "Ich weiß, wie es ist.", "Katzen sind schön."]


def joined(first: int, second: int, count: int = 60) -> set[tuple[str, str]]:
    joiner, rng = Joiner(SOURCES, TARGETS), np.random.default_rng(3)
    pairs = list(zip(SOURCES, TARGETS, strict=True))
    return {joiner.join(pairs[first], pairs[second], rng) for _ in range(count)}


@pytest.mark.parametrize(
    ("first", "second", "clause"),
    [
        (0, 1, ("Hello, how are you?", "Hallo, wie geht es dir?")),
        (0, 2, ("Hello, Tom sleeps.", "Hallo, Tom schläft.")),  # a name
        (2, 3, ("Tom sleeps, I know how it is.", "Tom schläft, Ich weiß, wie es ist.")),  # never seen small
    ],
)
def test_two_sentences_or_two_clauses(first: int, second: int, clause: tuple[str, str]) -> None:
    plain = (f"{SOURCES[first]} {SOURCES[second]}", f"{TARGETS[first]} {TARGETS[second]}")
    assert joined(first, second) == {plain, clause}


def test_after_a_question_a_new_sentence_begins() -> None:
    assert joined(1, 2) == {("How are you? Tom sleeps.", "Wie geht es dir? Tom schläft.")}


def test_a_share_of_all_pairs_is_joined() -> None:
    pairs = [*zip(SOURCES * 40, TARGETS * 40, strict=True)]
    augmenter = PairAugmenter(SOURCES, TARGETS, Augment(join_share=0.25))
    drawn = augmenter.draw(pairs, np.random.default_rng(1))
    assert 30 < len(drawn) < 70
    for source, _ in drawn:
        assert sum(line.rstrip(".!?").lower() in source.lower() for line in SOURCES) >= 1
    assert drawn == augmenter.draw(pairs, np.random.default_rng(1))
    assert drawn != augmenter.draw(pairs, np.random.default_rng(2))
