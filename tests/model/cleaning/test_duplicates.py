"""Near duplicates against their definition, the Jaccard index of word bigrams."""

import itertools

import numpy as np

from model.cleaning.duplicates import near_duplicates, signature

WORDS = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(400)]


def likeness(one: list[str], two: list[str]) -> float:
    sets = [set(itertools.pairwise(words)) for words in (one, two)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_like_pairs_are_found_and_unlike_ones_are_not() -> None:
    rng = np.random.default_rng(3)
    found = {True: [], False: []}
    for _ in range(300):
        one = [WORDS[i] for i in rng.integers(400, size=40)]
        two = list(one)
        for place in rng.choice(40, size=int(rng.choice([1, 16])), replace=False):
            two[place] = WORDS[int(rng.integers(400))]
        same = [" ".join(words) for words in (one, two)]
        marks = near_duplicates(np.stack([signature(text, text) for text in same]), 0.8)
        assert marks[0] == -1
        value = likeness(one, two)
        if value > 0.88 or value < 0.5:
            found[value > 0.88].append(marks[1] == 0)
    assert np.mean(found[True]) > 0.75
    assert np.mean(found[False]) < 0.01


def test_digits_make_no_difference_and_short_pairs_are_left_alone() -> None:
    text = "The limit of this queue is {} messages a second"
    signatures = [signature(text.format(number), text.format(number)) for number in (10, 2000)]
    assert near_duplicates(np.stack(signatures), 1.0).tolist() == [-1, 0]
    assert near_duplicates(np.stack([signature("Save all now", "x")] * 2), 0.5).tolist() == [-1, -1]
