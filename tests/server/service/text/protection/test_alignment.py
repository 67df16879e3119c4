"""Word links: on a lexicon learnt here, and without any."""

from __future__ import annotations

import itertools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.text_measures.learn_lexicon import learn_lexicon
from model.tokenizer import Tokenizer
from model.vocabulary.learning import train_sentencepiece
from server.service.text.protection.alignment import MAX_PAIRS, WordAligner
from tests import factories


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Knows the words of the factory's language as a whole, and spells all others."""
    file, text = tmp_path_factory.mktemp("tokenizer") / "source.spm", factories.parallel_text(400)
    train_sentencepiece(itertools.chain(*text), file, vocab_size=500, kind="bpe")
    return Tokenizer.load(file)


@pytest.fixture(scope="module")
def learnt(tokenizer: Tokenizer) -> WordAligner:
    sources, targets = factories.parallel_text(400, seed=3)
    ids = tokenizer.encode_batch(sources), tokenizer.encode_target_batch(targets)
    return WordAligner(learn_lexicon(tokenizer, *ids, 8), tokenizer)


def pairs(aligner: WordAligner, source: str, target: str) -> list[tuple[str, str]]:
    words = source.split(), target.split()
    return [(words[0][i], words[1][j]) for i, j in aligner.links(*words)]


def test_words_that_change_places_are_linked(learnt: WordAligner) -> None:
    assert pairs(learnt, "the old cat sees a red lamp", "eine rote Lampe sieht die alte Katze") == [
        ("the", "die"),
        ("old", "alte"),
        ("cat", "Katze"),
        ("sees", "sieht"),
        ("a", "eine"),
        ("red", "rote"),
        ("lamp", "Lampe"),
    ]


def test_every_target_word_finds_one(learnt: WordAligner) -> None:
    found = pairs(learnt, "the cat looks for a bird", "die Katze sucht eine Amsel")
    assert [word for _, word in sorted(found, key=lambda pair: pair[1])] == [
        "Amsel",
        "Katze",
        "die",
        "eine",
        "sucht",
    ]
    assert {one for one, other in found if other == "sucht"} <= {"looks", "for"}
    assert [word for _, word in pairs(learnt, "the cat", "die die Katze")] == ["die", "die", "Katze"]


def test_masks_numbers_and_names_find_each_other(learnt: WordAligner) -> None:
    found = pairs(learnt, "PH2 finds 25 of PH1 and Xavier", "Xavier und PH1 findet PH2 25")
    assert {("PH2", "PH2"), ("PH1", "PH1"), ("25", "25"), ("Xavier", "Xavier")} <= set(found)


def test_equal_words_that_are_there_twice_keep_their_order(tokenizer: Tokenizer) -> None:
    aligner = WordAligner(None, tokenizer)
    assert aligner.links(["Tom", "und", "Tom"], ["Tom", "and", "Tom"]) == [(0, 0), (1, 1), (2, 2)]


def test_without_a_lexicon_the_diagonal_remains(tokenizer: Tokenizer) -> None:
    aligner = WordAligner(None, tokenizer)
    words = [f"w{'a' * i}" for i in range(6)]
    assert aligner.links(words, [word.upper() for word in words]) == [(i, i) for i in range(6)]
    assert aligner.links(["x", "PH1", "y"], ["PH1", "z"])[-1] != (1, 1)
    assert (1, 0) in aligner.links(["x", "PH1", "y"], ["PH1", "z"])
    assert {j for _, j in aligner.links(["x"], ["a", "b", "c"])} == {0, 1, 2}


WORDS = st.lists(
    st.text(max_size=8) | st.sampled_from(["the", "cat", "Katze", "PH1", "", " ", "\u200b"]), max_size=9
)


@given(source=WORDS, target=WORDS, lexical=st.booleans())
def test_any_words_give_links_within_bounds(
    learnt: WordAligner, tokenizer: Tokenizer, source: list[str], target: list[str], lexical: bool
) -> None:
    aligner = learnt if lexical else WordAligner(None, tokenizer)
    found = aligner.links(source, target)
    assert found == sorted(set(found))
    assert all(0 <= i < len(source) and 0 <= j < len(target) for i, j in found)
    assert len({j for _, j in found}) == len(found)  # a target word has one source word
    if not lexical and source:
        assert len(found) == len(target)


def test_what_is_too_long_is_linked_along_the_diagonal(learnt: WordAligner) -> None:
    count = int(MAX_PAIRS**0.5) + 1
    found = learnt.links(["cat"] * count, ["Katze"] * (2 * count))
    assert found == [(j // 2, j) for j in range(2 * count)]
    assert learnt.links(["x" * 1_000_000], ["Katze"]) in ([], [(0, 0)])


def test_threads_may_share_one(learnt: WordAligner) -> None:
    sources, targets = factories.parallel_text(60, seed=9)
    texts = [(a.split(), b.split()) for a, b in zip(sources, targets, strict=True)]
    expected = [learnt.links(*text) for text in texts]
    found: list[list[list[tuple[int, int]]]] = []
    threads = [
        threading.Thread(target=lambda: found.append([learnt.links(*text) for text in texts]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4
    assert any(itertools.chain.from_iterable(expected))
