"""Vocabularies of text that is cut already: nothing is cut further, normalised or lost."""

from pathlib import Path

from model.tokenizer import Tokenizer
from model.vocabulary import train_sentencepiece

LINES = ["a ca@@ t-@@ flap , ﬁne", "das wa@@ ß ½ ist ＡＢＣ", "a a ca@@ r ."]


def trained(folder: Path, vocab_size: int) -> Tokenizer:
    file = folder / "source.spm"
    train_sentencepiece(LINES, file, vocab_size=vocab_size, kind="word", character_coverage=0.95)
    return Tokenizer.load(file)


def test_what_stands_between_spaces_is_one_piece(tmp_path: Path) -> None:
    tokenizer = trained(tmp_path, 300)
    assert tokenizer.source_vocab_size == 4 + len({word for line in LINES for word in line.split()})
    for line in LINES:
        ids = tokenizer.encode(line)
        assert len(ids) == len(line.split())
        assert tokenizer.unk_id not in ids
        assert tokenizer.decode(ids) == line
    assert tokenizer.encode("a dog")[1] == tokenizer.unk_id


def test_a_limit_keeps_the_most_frequent_words(tmp_path: Path) -> None:
    tokenizer = trained(tmp_path, 6)
    assert tokenizer.source_vocab_size == 6
    assert tokenizer.unk_id not in tokenizer.encode("a ca@@")
    assert tokenizer.encode("das . a") == [tokenizer.unk_id, *tokenizer.encode("a")]  # neighbours are one
