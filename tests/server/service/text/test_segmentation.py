import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.segmentation import Piece, split_sentences, whole_line

TEXTS = st.text(st.sampled_from("ab. ?!\n\r\t\"'()«»…😀é\u0301\u200b\u3000\u2028。\x85\x1c\xa0"), max_size=60)


def least_s(unit: str, length: int) -> float:
    """Processor seconds that a text of one unit again and again takes: the least of several tries."""
    text = "x" + unit * (length // len(unit)) + "x"
    taken_s = []
    for _ in range(5):
        started_s = time.thread_time()
        split_sentences(text, "en")
        taken_s.append(time.thread_time() - started_s)
    return min(taken_s)


def sentences(pieces: list[Piece]) -> list[str]:
    return [piece.text for piece in pieces if piece.is_sentence]


@given(TEXTS)
def test_pieces_join_to_the_text(text: str) -> None:
    assert "".join(piece.text for piece in split_sentences(text, "en")) == text
    assert "".join(piece.text for piece in whole_line(text)) == text


@given(TEXTS)
def test_sentences_have_no_white_space_at_their_ends_and_cross_no_line(text: str) -> None:
    for sentence in sentences(split_sentences(text, "en")):
        assert sentence == sentence.strip()
        assert len(sentence.splitlines()) == 1


def test_spacing_between_sentences_is_copied() -> None:
    text = "  Hello Mr. Smith.  How are you?\r\n\r\n\tFine!\n"
    assert sentences(split_sentences(text, "en")) == ["Hello Mr. Smith.", "How are you?", "Fine!"]


@pytest.mark.parametrize("text", ["", " ", "\u3000\xa0", "...", "?!", "-- 😀 --", "\n\n"])
def test_text_without_letters_or_digits_is_no_sentence(text: str) -> None:
    assert sentences(split_sentences(text, "en")) == []


def test_an_unknown_language_is_split_by_general_rules() -> None:
    assert sentences(split_sentences("One here. Two there.", "zz")) == ["One here.", "Two there."]


def test_a_whole_line_is_one_sentence() -> None:
    assert sentences(whole_line(" One here. Two there. ")) == ["One here. Two there."]


@pytest.mark.parametrize("unit", [".", "a", "ha ", "Mr. ", "a.b", '"(«', " ", "\n", "e.g. ", "😀"])
def test_time_does_not_explode(unit: str) -> None:
    # A fourfold text takes 4 times as long if the work is linear, 16 if quadratic, 64 if cubic.
    assert least_s(unit, 5000) < 40 * least_s(unit, 1250)
