"""Translation probabilities against the textbook's loops, and what happens with odd corpora."""

import itertools
import random
from collections import defaultdict

import pytest

from model.data import word_alignment
from model.data.word_alignment import ITERATIONS, learn_translations

SOURCES = [[1, 2], [1, 3], [2, 3, 3], [4], [1, 2, 4], [5, 1]]
TARGETS = [[11, 12], [11, 13], [12, 13], [14, 14], [11, 12, 14], [15, 11]]


def by_hand(sources: list[list[int]], targets: list[list[int]], nothing: int) -> dict[tuple[int, int], float]:
    """IBM model 1 as in the textbook."""
    pairs = [([*source, nothing], target) for source, target in zip(sources, targets, strict=True)]
    chances = {key: 1.0 for source, target in pairs for key in itertools.product(source, target)}
    for _ in range(ITERATIONS):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        for source, target in pairs:
            for t in target:
                total = sum(chances[s, t] for s in source)
                for s in source:
                    counts[s, t] += chances[s, t] / total
        totals: dict[int, float] = defaultdict(float)
        for (s, _), count in counts.items():
            totals[s] += count
        chances = {(s, t): count / totals[s] for (s, t), count in counts.items()}
    return chances


@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_probabilities_are_those_of_the_textbook(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_alignment, "_BLOCK_CELLS", block)
    found = learn_translations(SOURCES, TARGETS, 6, 16)
    ours = {
        (s, t): p
        for s, t, p in zip(
            found.sources.tolist(), found.targets.tolist(), found.probabilities.tolist(), strict=True
        )
    }
    theirs = {key: p for key, p in by_hand(SOURCES, TARGETS, 6).items() if key[0] != 6}
    assert ours == pytest.approx(theirs, rel=1e-12)
    assert list(ours) == sorted(ours)


def test_words_that_go_together_find_each_other() -> None:
    draw = random.Random(1)
    sources = [[draw.randrange(30) for _ in range(draw.randrange(1, 9))] for _ in range(600)]
    targets = [draw.sample([30 + piece for piece in source], len(source)) for source in sources]
    found = learn_translations(sources, targets, 30, 60)
    best: dict[int, tuple[float, int]] = {}
    for s, t, p in zip(
        found.sources.tolist(), found.targets.tolist(), found.probabilities.tolist(), strict=True
    ):
        best[s] = max(best.get(s, (0.0, -1)), (p, t))
    assert {s: t for s, (_, t) in best.items()} == {s: 30 + s for s in range(30)}
    assert min(p for p, _ in best.values()) > 0.8


def test_a_large_corpus_is_sampled_the_same_way_every_time() -> None:
    sources, targets = [[i % 5] * 3 for i in range(100)], [[i % 5] * 2 for i in range(100)]
    few = [learn_translations(sources, targets, 5, 5, max_cells=80) for _ in range(2)]
    assert (few[0].probabilities == few[1].probabilities).all()
    assert (
        1 < len(few[0].sources) < len(learn_translations(sources, targets, 5, 5, max_cells=800).sources) + 1
    )


def test_pairs_that_say_nothing_are_left_out() -> None:
    long = [1] * (word_alignment.MAX_SENTENCE_PIECES + 1)
    found = learn_translations([[1], [], [2], long], [[3], [4], [], [5]], 3, 6)
    assert (found.sources.tolist(), found.targets.tolist()) == ([1], [3])
    with pytest.raises(ValueError, match="no sentence pair"):
        learn_translations([[]], [[1]], 2, 2)
