"""Long sentences are cut at safe places, and always into pieces that are short enough."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.reading.clauses import clause_borders

PIECES = st.sampled_from(
    ["word", "a", "and ", "which ", ", ", " ", "; ", " – ", "語", "。", "é", "e\u0301", "1,000"]
)
TEXTS = st.lists(PIECES, min_size=1, max_size=120).map("".join)


def words_in(text: str, start: int, end: int) -> int:
    return len(text[start:end].split())


def cut(text: str, language: str, most: int) -> list[str]:
    borders = clause_borders(text, language, (), most, lambda start, end: words_in(text, start, end))
    return [text[start:end] for start, end in zip([0, *borders], [*borders, len(text)], strict=True)]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "When the old man came home late at night, |the dog was sleeping in front of the door."),
        (
            "en",
            "She bought bread, milk and butter in the small shop |because her mother had asked her to do so.",
        ),
        ("de", "Ich habe den Mann gestern gesehen, |der in dem Haus neben der alten Kirche wohnt."),
        ("fr", "Nous avons vu la grande maison blanche |qui se trouve au bord de la petite mer."),
        ("es", "No pude ir a la fiesta de mi amigo |porque tenía que trabajar hasta muy tarde."),
        ("pl", "Wczoraj kupiłem nowy samochód w mieście, |a potem pojechałem do domu moich rodziców."),
        ("en", "One two three four five six |seven eight nine ten eleven twelve"),
        ("en", "It was late in the evening – |nobody was on the street any more."),
    ],
)
def test_the_best_place_is_taken(language: str, text: str) -> None:
    assert "|".join(cut(text.replace("|", ""), language, 12 if "One" not in text else 8)) == text


def test_a_short_sentence_stays_whole() -> None:
    assert cut("I came, I saw, and I won the whole game.", "en", 10) == [
        "I came, I saw, and I won the whole game."
    ]


def test_lists_are_not_cut_into_crumbs() -> None:
    text = "We sell red apples, pears, plums, grapes, bread, milk, cheese, tea, coffee and sugar in our shop."
    assert all(len(part.split()) >= 4 for part in cut(text, "en", 12))


@given(TEXTS, st.sampled_from(["en", "de", "fr", "es", "", "ja"]), st.integers(1, 30), st.data())
def test_pieces_are_short_enough_and_cut_no_kept_part(
    text: str, language: str, most: int, data: st.DataObject
) -> None:
    ends = sorted(set(data.draw(st.lists(st.integers(0, len(text)), max_size=6))))
    kept = list(zip(ends[::2], ends[1::2], strict=False))
    borders = clause_borders(text, language, kept, most, lambda start, end: end - start)
    assert borders == sorted(set(borders))
    assert all(0 < border < len(text) for border in borders)
    assert not any(start < border < end for start, end in kept for border in borders)
    for start, end in zip([0, *borders], [*borders, len(text)], strict=True):
        is_one = any(first <= start and end <= last for first, last in kept)
        assert end - start <= max(most, 1) or is_one


@pytest.mark.parametrize(
    "text", ["a" * 1400, "語" * 1400, "e\u0301" * 700, "word " * 1000, "👩\u200d💻" * 300]
)
def test_walls_of_text_are_cut_evenly(text: str) -> None:
    borders = clause_borders(text, "en", (), 100, lambda start, end: end - start)
    sizes = [end - start for start, end in zip([0, *borders], [*borders, len(text)], strict=True)]
    assert max(sizes) <= 100
    assert min(sizes) >= 30
    assert not any(text[border] in "\u0301\u200d" or text[border - 1] == "\u200d" for border in borders)


@pytest.mark.parametrize("unit", ["a", "a ", "a, ", "and ", "a b c d, ", "語。"])
def test_the_number_of_measurements_is_linear_and_their_sum_nearly_so(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    measured: list[int] = []

    def length(start: int, end: int) -> int:
        measured.append(end - start)
        return end - start

    clause_borders(text, "en", (), 100, length)
    assert len(measured) <= len(text) // 10
    assert sum(measured) <= 60 * len(text)
