from pathlib import Path

import pytest

from model.tokenizer import Tokenizer, TokenizerError
from model.vocabulary.learning import train_sentencepiece

TEXT = [f"the {a} {b} sees a {c} near the old house" for a in ("big", "small", "red", "quiet") for b in
        ("cat", "dog", "bird") for c in ("tree", "river", "stone", "cloud")]  # fmt: skip


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("spm") / "source.spm"
    train_sentencepiece(TEXT, path, vocab_size=280, kind=request.param, character_coverage=1.0)
    return Tokenizer.load(path)


def test_special_ids_are_the_documented_ones(tokenizer: Tokenizer) -> None:
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert tokenizer.source_vocab_size == tokenizer.target_vocab_size == 280


@pytest.mark.parametrize("typed", ["</s>", "<pad>", "<s>", "<unk>", "<0x41>", "a </s> b<pad>", ">>fra<<"])
def test_special_names_typed_by_a_user_are_text(tokenizer: Tokenizer, typed: str) -> None:
    ids = tokenizer.encode(typed)
    assert not set(ids) & {0, 1, 2, 3}
    assert tokenizer.decode(ids) == typed


@pytest.mark.parametrize("text", ["Reykjavík, room B-12", "日本語 🙂👩‍👩‍👧", "Łódź 17:45", "ا ب"])
def test_unseen_characters_survive_through_bytes(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == text


def test_text_without_content_has_no_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("") == tokenizer.encode("  \t ") == []


def test_decoding_leaves_special_ids_out(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the old house")
    assert tokenizer.decode([2, *ids, 3, 0]) == "the old house"


def test_the_score_of_a_word_is_that_of_the_list(tokenizer: Tokenizer) -> None:
    words = tokenizer.source_words()
    assert words
    assert {word: tokenizer.source_word_score(word) for word in words} == words
    assert not {"unknowable", "he", "unk", "HOUSE"} & words.keys()
    assert all(tokenizer.source_word_score(word) is None for word in ("unknowable", "he", "unk", "HOUSE"))


def test_a_batch_equals_one_by_one(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_batch(TEXT[:5]) == [tokenizer.encode(text) for text in TEXT[:5]]


def test_missing_and_foreign_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"none\.spm: no such"):
        Tokenizer.load(tmp_path / "none.spm")
    (tmp_path / "junk.spm").write_bytes(b"junk" * 100)
    with pytest.raises(TokenizerError, match=r"junk\.spm: not a SentencePiece model"):
        Tokenizer.load(tmp_path / "junk.spm")


def test_a_corpus_too_small_for_the_vocabulary_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="vocabulary of 8000"):
        train_sentencepiece(TEXT, tmp_path / "x.spm", vocab_size=8000, kind="unigram")
    assert list(tmp_path.iterdir()) == []
