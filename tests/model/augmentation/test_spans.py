"""Masks, literals and tags stand on both sides, for words that translate each other, or by them."""

import re

import numpy as np
import pytest

from model.augmentation.lexicon import WordLexicon
from model.augmentation.literals import literal, masks
from model.augmentation.spans import SpanAugmenter, phrase
from model.augmentation.surface import surface

WORDS = {f"w{chr(97 + i)}{chr(97 + j)}": f"z{chr(97 + i)}{chr(97 + j)}" for i in range(20) for j in range(20)}
MASK = re.compile(r"\b(?:PH|Q|XX)\d+\b")


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    rng = np.random.default_rng(0)
    # Some words are common: they are not replaced. The last two words change places in the translation.
    ranks = np.arange(1, 401) ** -0.7
    lines = [[list(WORDS)[i] for i in rng.choice(400, size=6, p=ranks / ranks.sum())] for _ in range(3000)]
    return [
        (" ".join(line) + ".", " ".join(WORDS[word] for word in [*line[:4], line[5], line[4]]) + ".")
        for line in lines
    ]


@pytest.fixture(scope="module")
def spans(pairs: list[tuple[str, str]]) -> SpanAugmenter:
    return SpanAugmenter(WordLexicon.learn([one for one, _ in pairs], [two for _, two in pairs]))


def test_masks_replace_words_that_translate_each_other_or_stand_beside_them(
    spans: SpanAugmenter, pairs: list[tuple[str, str]]
) -> None:
    rng = np.random.default_rng(1)
    drawn = [(pair, spans.masked(pair, rng)) for pair in pairs[:600]]
    changed = [(old, new) for old, new in drawn if new is not None]
    assert len(changed) > 400
    right, replaced, beside, at_ends = 0, 0, 0, 0
    for old, new in changed:
        source, target = (side.replace(".", " .").split() for side in new)
        found = [[word for word in side if MASK.fullmatch(word)] for side in (source, target)]
        assert sorted(found[0]) == sorted(found[1])
        assert len(set(found[0])) == len(found[0]) >= 1
        left = [[word for word in side if word not in found[0]] for side in (source, target)]
        right += sorted(WORDS.get(word, word) for word in left[0]) == sorted(left[1])
        gone = len(old[0].split()) + 1 - len(left[0])
        assert 0 <= gone <= len(found[0])
        replaced += gone
        if not gone and len(found[0]) == 1:
            here, there = source.index(found[0][0]), target.index(found[0][0])
            ends = here in (0, len(source) - 1) and there in (0, len(target) - 1)
            neighbours = [
                (side[place - 1 : place], side[place + 1 : place + 2])
                for side, place in ((source, here), (target, there))
            ]
            at_ends += ends
            beside += any(
                [WORDS.get(word, word) for word in one] == two for one, two in zip(*neighbours, strict=True)
            )
    assert right > 0.97 * len(changed)
    assert replaced > 150
    assert beside > 60
    assert 10 < at_ends < beside / 2
    assert len({mask for _, new in changed for mask in MASK.findall(new[0])}) > 20


def test_literals_come_on_both_sides(spans: SpanAugmenter, pairs: list[tuple[str, str]]) -> None:
    rng = np.random.default_rng(2)
    for pair in pairs[:300]:
        state = rng.bit_generator.state
        new = spans.with_literals(pair, rng)
        rng.bit_generator.state = state
        assert new == spans.with_literals(pair, rng)
        if new is not None:
            added = [set(side.split()) - set(old.split()) for side, old in zip(new, pair, strict=True)]
            assert {word.strip("(.:)") for word in added[0]} & {word.strip("(.:)") for word in added[1]}


def test_tags_wrap_a_phrase_and_its_translation(spans: SpanAugmenter, pairs: list[tuple[str, str]]) -> None:
    rng = np.random.default_rng(3)
    changed = [(pair, spans.wrapped(pair, rng)) for pair in pairs[:400]]
    found = [(pair, new) for pair, new in changed if new is not None and "<b>" in new[0]]
    assert len(found) > 5
    right = 0
    for old, new in found:
        inner = []
        for side, before in zip(new, old, strict=True):
            match = re.search(r"<b>(.*)</b>", side)
            assert match
            assert side.replace("<b>", "").replace("</b>", "") == before
            inner.append(match[1].replace(".", "").split())
        right += {WORDS[word] for word in inner[0]} == set(inner[1])
    assert right > 0.9 * len(found)


def test_a_phrase_has_no_links_out_of_it() -> None:
    links = [(0, 0), (1, 2), (2, 1), (3, 3)]
    assert phrase(links, 1, 2) == ((1, 2), (1, 2))
    assert phrase(links, 0, 1) is None  # 2 translates into its middle
    assert phrase(links, 4, 5) is None


def test_literals_have_many_kinds_and_masks_differ() -> None:
    rng = np.random.default_rng(4)
    drawn = [literal(rng) for _ in range(2000)]
    kinds = (
        *(r"https?://[\w.]+\.\w+", r"[\w.-]+@\w+\.[\w.]+", r"\d+,\d{3}", r"\d+\.\d{3},\d+", r"\d ?km"),
        *(r"[€$£¥] ?\d", r"\d{4}-\d\d-\d\d", r"\{\w+\}", r"%[sd]", r"%\(\w+\)s", r"\w+\.pdf", r"v\d+\.\d+"),
        *(r"°C", r"#\d+"),
    )
    for kind in kinds:
        assert any(re.fullmatch(f".*{kind}.*", text) for text in drawn), kind
    assert len(set(drawn)) > 1600
    for count in (1, 2, 3):
        assert len(set(masks(count, rng))) == count


@pytest.mark.parametrize(
    ("pair", "possible"),
    [
        (("Save", "Speichern"), {("SAVE", "SPEICHERN"), ("Save.", "Speichern."), ("Save…", "Speichern…")}),
        (("Save it.", "Speichere es."), {("Save it", "Speichere es"), ("SAVE IT.", "SPEICHERE ES.")}),
    ],
)
def test_case_and_final_mark_change_on_both_sides(
    pair: tuple[str, str], possible: set[tuple[str, str]]
) -> None:
    rng = np.random.default_rng(5)
    drawn = {surface(pair, rng) for _ in range(200)}
    assert possible <= drawn
    for new in drawn - {None}:
        assert new is not None
        assert (new[0][-1] == new[1][-1]) or (new[0][-1].isalpha() and new[1][-1].isalpha())
        assert new[0].isupper() == new[1].isupper()


@pytest.mark.parametrize(
    "pair", [("Is it?", "¿Es?"), ("He said no.", "Er sagte nein"), ("Go (now)", "Geh (jetzt)")]
)
def test_what_has_no_common_end_keeps_it(pair: tuple[str, str]) -> None:
    rng = np.random.default_rng(6)
    assert {surface(pair, rng) for _ in range(60)} == {None, (pair[0].upper(), pair[1].upper())}
