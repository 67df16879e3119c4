"""Word links on a language whose words translate one to one, in another order."""

import numpy as np
import pytest

from model.augmentation.lexicon import WordLexicon, words_of

NOUNS = {"cat": "Katze", "dog": "Hund", "bird": "Vogel", "house": "Haus", "tree": "Baum", "lake": "See"}
COLORS = {"red": "rouge", "big": "grand", "old": "vieux", "new": "neuf"}


@pytest.fixture(scope="module")
def lexicon() -> WordLexicon:
    rng = np.random.default_rng(0)
    sources, targets = [], []
    for _ in range(400):
        one, two = (list(NOUNS)[i] for i in rng.integers(len(NOUNS), size=2))
        color = list(COLORS)[int(rng.integers(len(COLORS)))]
        sources.append(f"The {color} {one} sees the {two}.")
        targets.append(f"Die {NOUNS[one]} {COLORS[color]} sieht die {NOUNS[two]}.")
    return WordLexicon.learn(sources, targets)


def test_words_and_marks_have_their_places() -> None:
    text = "Don't open C-3, (now)!"
    words = words_of(text)
    assert [word.text for word in words] == ["Don't", "open", "C-3", ",", "(", "now", ")", "!"]
    assert all(text[word.start : word.end] == word.text for word in words)


def test_words_are_linked_across_a_change_of_order(lexicon: WordLexicon) -> None:
    source = ["The", "red", "cat", "sees", "the", "dog", "."]
    target = ["Die", "Katze", "rouge", "sieht", "die", "Hund", "."]
    assert {(1, 2), (2, 1), (5, 5), (6, 6)} <= set(lexicon.links(source, target))


def test_unknown_words_are_linked_to_themselves_only(lexicon: WordLexicon) -> None:
    links = lexicon.links(["Quorvex", "sees", "Blimtal"], ["Zanturo", "sieht", "Quorvex"])
    assert (0, 2) in links
    assert all(i != 2 for i, _ in links)
    assert lexicon.links([], ["a"]) == lexicon.links(["a"], []) == []


def test_each_word_is_linked_once(lexicon: WordLexicon) -> None:
    links = lexicon.links(["cat"] * 4 + ["dog"] * 3, ["Katze"] * 2 + ["Hund"] * 5)
    assert len({i for i, _ in links}) == len({j for _, j in links}) == len(links) > 0
