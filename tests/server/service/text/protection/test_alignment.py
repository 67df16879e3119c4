"""Word links: on a lexicon learnt here, on the shipped one by hand-checked sentences, and without any."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.bundle import load_manifest
from export.lexicon import Lexicon
from export.text_measures.learn_lexicon import learn_lexicon
from model.tokenizer import Tokenizer
from model.vocabulary.learning import train_sentencepiece
from server.service.text.protection.alignment import MAX_PAIRS, WordAligner
from tests.support import factories

CHECKED = """
the red car is very fast | das rote Auto ist sehr schnell
0-0 1-1 2-2 3-3 4-4 5-5
I have bought a new car last week | Ich habe letzte Woche ein neues Auto gekauft
0-0 1-1 6-2 7-3 3-4 4-5 5-6 2-7
I do not like it | Ich mag es nicht
0-0 3-1 4-2 2-3
my brother wants to learn German | mein Bruder will Deutsch lernen
0-0 1-1 2-2 5-3 4-4
she gave him the book yesterday | sie hat ihm gestern das Buch gegeben
0-0 1-1 2-2 5-3 3-4 4-5 1-6
Tom said that he would come tomorrow | Tom sagte dass er morgen kommen würde
0-0 1-1 2-2 3-3 6-4 5-5 4-6
there are many people in the city | es gibt viele Leute in der Stadt
0-0 1-1 2-2 3-3 4-4 5-5 6-6
PH1 has sent you 25 messages today | PH1 hat dir heute 25 Nachrichten geschickt
0-0 1-1 3-2 6-3 4-4 5-5 2-6
we have never been to Paris before | wir sind noch nie in Paris gewesen
0-0 1-1 2-3 4-4 5-5 3-6
open the door and close the window please | bitte öffne die Tür und schließe das Fenster
7-0 0-1 1-2 2-3 3-4 4-5 5-6 6-7
the doctor asked the nurse to help her | der Arzt bat die Krankenschwester ihr zu helfen
0-0 1-1 2-2 3-3 4-4 7-5 5-6 6-7
if it rains tomorrow we will stay at home | wenn es morgen regnet bleiben wir zu Hause
0-0 1-1 3-2 2-3 6-4 4-5 7-6 8-7
I do not know where he lives | ich weiß nicht wo er wohnt
0-0 3-1 2-2 4-3 5-4 6-5
"""  # the links are what a person would draw, verbs of two words with both of them


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


@pytest.fixture(scope="module")
def shipped(repository: Path) -> WordAligner:
    bundle = repository / "bundles/en-de"
    tokenizer = Tokenizer.load(*load_manifest(bundle).tokenizer.paths(bundle))
    sizes = tokenizer.source_vocab_size, tokenizer.target_vocab_size
    return WordAligner(Lexicon.load(bundle / "lexicon.npz", *sizes), tokenizer)


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


def test_the_shipped_lexicon_links_nearly_as_a_person_does(shipped: WordAligner) -> None:
    right = found_links = wanted_links = linked = words = 0
    lines = CHECKED.strip().splitlines()
    for texts, links in zip(lines[::2], lines[1::2], strict=True):
        source, target = texts.split(" | ")
        wanted = {tuple(map(int, link.split("-"))) for link in links.split()}
        found = set(shipped.links(source.split(), target.split()))
        right += len(found & wanted)
        found_links += len(found)
        wanted_links += len(wanted)
        linked += len({j for _, j in found})
        words += len(target.split())
    assert right / found_links > 0.9
    assert right / wanted_links > 0.9
    assert linked / words > 0.97


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
