import numpy as np

from model.augment import CopyAugmenter

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
    assert augmenter().candidates == [0, 1, 2, 3, 4]
    assert [augmenter().has_number(i) for i in range(5)] == [False, False, False, True, True]


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


def test_numbers_keep_their_form_and_words_become_digits() -> None:
    rng = np.random.default_rng(2)
    source, target = augmenter().augment(SOURCES[3], TARGETS[3], rng)
    time, track = source.removeprefix("The train leaves at ").removesuffix(".").split(" on track ")
    assert time[1] == ":"
    assert len(time) == 4
    assert (time + track).replace(":", "").isdigit()
    assert target == f"Der Zug fährt um {time} von Gleis {track}."
    source, target = augmenter().augment(SOURCES[4], TARGETS[4], rng)
    number = source.split()[2]
    assert number.isdigit()
    assert target == f"Sie hat {number} Hunde."


def test_the_generator_decides() -> None:
    def run() -> list[tuple[str, str]]:
        rng = np.random.default_rng(7)
        return [augmenter().augment(s, t, rng) for s, t in zip(SOURCES, TARGETS, strict=True)]

    assert run() == run()
