import pytest

from model.evaluation.scoring import check_tokenizer, joined, score


def test_pieces_of_words_are_joined() -> None:
    assert joined(["an@@ st@@ arr@@ t .", "wo@@ hin", "end@@", "a @ b"]) == [
        "anstarrt .", "wohin", "end", "a @ b",
    ]  # fmt: skip


def test_tokenised_text_is_scored_as_it_stands() -> None:
    plain, tokenised = ["ein mann , der geht ."], ["ein mann, der geht ."]
    assert score(plain, tokenised).bleu == 100.0
    as_it_stands = score(plain, tokenised, tokenize="none")
    assert as_it_stands.bleu < 60
    assert "tok:none" in as_it_stands.bleu_signature


def test_an_unknown_tokeniser_is_named() -> None:
    check_tokenizer("none")
    with pytest.raises(ValueError, match=r"--tokenize 14a: sacreBLEU has 13a, "):
        check_tokenizer("14a")
