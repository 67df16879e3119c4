import re

import numpy as np

from model.augmentation.copying import CopyAugmenter
from model.augmentation.drawing import PairAugmenter
from model.recipe import Augment

SOURCES = [
    "Tom saw the lake.",
    "I met Tom in Boston.",
    "That is Tom's hat.",
    "The train leaves at 7:45 on track 12.",
    "She has three dogs.",
    "Hand me the hand brush.",
    "We like it here.",
]
TARGETS = [
    "Tom sah den See.",
    "Ich traf Tom in Boston.",
    "Das ist Toms Hut.",
    "Der Zug fährt um 7:45 von Gleis 12.",
    "Sie hat drei Hunde.",
    "Gib mir die Hand.",
    "Uns gefällt es hier.",
]


def augmenter() -> CopyAugmenter:
    return CopyAugmenter(SOURCES, TARGETS, {"three": "drei"})


def test_finds_pairs_that_share_a_name_or_number() -> None:
    # "Hand" also occurs in lower case on the source side: a word, not a name.
    shared = [augmenter().shares(*pair) for pair in zip(SOURCES, TARGETS, strict=True)]
    assert shared == ["name", "name", "name", "number", "number", "", ""]


def test_both_sides_get_the_same_new_word() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        source, target = augmenter().augment(SOURCES[0], TARGETS[0], rng)
        name = source.removesuffix(" saw the lake.")
        assert name
        assert target == f"{name} sah den See."
        assert augmenter().augment(SOURCES[6], TARGETS[6], rng) == (SOURCES[6], TARGETS[6])


def test_the_genitive_keeps_its_ending() -> None:
    source, target = augmenter().augment(SOURCES[2], TARGETS[2], np.random.default_rng(1))
    name = source.removeprefix("That is ").removesuffix("'s hat.")
    assert name != "Tom"
    assert target == f"Das ist {name}s Hut."


def test_numbers_with_separators_keep_their_form() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        source, target = augmenter().augment(SOURCES[3], TARGETS[3], rng)
        time, track = source.removeprefix("The train leaves at ").removesuffix(".").split(" on track ", 1)
        assert re.fullmatch(r"\d:\d\d", time)
        assert target == f"Der Zug fährt um {time} von Gleis {track}."


def test_number_words_become_numbers_of_every_shape() -> None:
    rng, swap, seen = np.random.default_rng(3), augmenter(), []
    for _ in range(1000):
        source, target = swap.augment(SOURCES[4], TARGETS[4], rng)
        seen.append(source.removeprefix("She has ").removesuffix(" dogs."))
        assert target == f"Sie hat {seen[-1]} Hunde."
    shapes = {
        "plain": r"[1-9]\d*",
        "long": r"\d{8}",
        "repeating": r"\d*(\d)\1\1\d*",
        "leading zero": r"0\d+",
        "decimal": r"\d+\.\d\d",
        "time": r"\d+:[0-5]\d",
        "telephone": r"0\d{2,4} \d{4,8}",
        "grouped": r"\d\d( \d\d)+",
        "code": r"[A-Z]{1,3}[- ]?\d+",
    }
    counts = {name: sum(bool(re.fullmatch(form, n)) for n in seen) for name, form in shapes.items()}
    assert min(counts.values()) >= 10, counts
    assert counts["plain"] > 400


def test_names_come_in_every_shape() -> None:
    rng, swap, seen = np.random.default_rng(4), augmenter(), []
    for _ in range(2000):
        source, target = swap.augment(SOURCES[2], TARGETS[2], rng)
        seen.append(source.removeprefix("That is ").removesuffix("'s hat."))
        assert target == f"Das ist {seen[-1]}s Hut."
    shapes = {
        "single": r"[A-Z][a-z]+",
        "two": r"\w+ \w+",
        "word as a family name": r"\w+ Hand",
        "of two words": r"\w+ Handhand",
        "hyphenated": r"\w+( \w+)?-[^\W\d]+",
        "accented": r".*[^\x00-\x7f].*",
        "of the corpus": r"Boston (Tom|Boston)|Tom (Tom|Boston)",
        "code": r"[A-Z]{1,3}[- ]?\d{1,4}",
    }
    counts = {name: sum(bool(re.fullmatch(form, n)) for n in seen) for name, form in shapes.items()}
    assert min(counts.values()) >= 20, counts
    assert counts["single"] > 600


def test_what_was_put_in_is_not_swapped_again() -> None:
    sources, targets = (
        ["Tom met Anna on track 12.", "Anna met Tom."],
        ["Tom traf Anna auf Gleis 12.", "Anna traf Tom."],
    )
    swap, rng = CopyAugmenter(sources, targets), np.random.default_rng(5)
    for _ in range(500):
        source, target = swap.augment(sources[0], targets[0], rng)
        assert source.replace(" met ", " traf ").replace(" on track ", " auf Gleis ") == target


def test_the_generator_decides() -> None:
    def run() -> list[tuple[str, str]]:
        rng = np.random.default_rng(7)
        return [augmenter().augment(s, t, rng) for s, t in zip(SOURCES, TARGETS, strict=True)]

    assert run() == run()


def draw(augment: Augment, number_words: dict[str, str] | None = None) -> list[tuple[str, str]]:
    augmenter = PairAugmenter(SOURCES, TARGETS, augment, number_words)
    return augmenter.draw([*zip(SOURCES, TARGETS, strict=True)], np.random.default_rng(6))


def test_number_words_are_translated_to_the_same_digits() -> None:
    drawn = draw(Augment(number_share=1), {"three": "drei"})
    assert len(drawn) == 2
    assert all(re.search(r"\d", source) and re.search(r"\d", target) for source, target in drawn)
    assert len(draw(Augment(number_share=1))) == 1


def test_copies_are_variants_of_pairs_with_a_number() -> None:
    def rows(copies: int) -> list[str]:
        return [source for source, _ in draw(Augment(copy_share=0, number_share=1, copies=copies))]

    assert len(rows(1)) == 1
    new = rows(6)
    assert len(set(new)) == 6
    assert all(re.fullmatch(r"The train leaves at \d:\d\d on track .*\.", row) for row in new)
    assert rows(6) == rows(6)


def test_name_copies_are_variants_of_pairs_with_a_name_alone() -> None:
    once = draw(Augment(copy_share=1))
    many = draw(Augment(copy_share=1, number_share=0, name_copies=5))
    assert 0 < len(once) < len(many) <= 5 * len(once)
    assert len({source for source, _ in many}) == len(many)
    assert not [source for source, _ in many if "track" in source]  # that pair has a number


def test_noise_damages_sources_and_leaves_targets_alone() -> None:
    drawn = draw(Augment(copy_share=0, number_share=0, noise_share=1))
    assert [target for _, target in drawn] == TARGETS
    assert sum(new != old for (new, _), old in zip(drawn, SOURCES, strict=True)) > len(SOURCES) / 2
