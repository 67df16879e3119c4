"""Vocabularies of text that is cut already: nothing is cut further, normalised or lost."""

from pathlib import Path

from model.tokenizer import Tokenizer
from model.vocabulary.learning import train_sentencepiece

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


def test_digits_can_be_pieces_of_their_own(tmp_path: Path) -> None:
    lines = [f"room {number} at 17:45 in 2024" for number in range(100, 140)] * 3
    pieces = {}
    for split in (False, True):
        file = tmp_path / f"{split}.spm"
        train_sentencepiece(lines, file, vocab_size=290, kind="bpe", split_digits=split, tags=[">>fr<<"])
        tokenizer = Tokenizer.load(file)
        names = tokenizer.source_pieces()
        assert ">>fr<<" in names
        pieces[split] = [names[id] for id in tokenizer.encode("in 2024")]
    assert any(piece.strip("▁").isdigit() and len(piece.strip("▁")) > 1 for piece in pieces[False])
    assert [piece for piece in pieces[True] if piece.strip("▁").isdigit()] == ["2", "0", "2", "4"]


def test_characters_can_be_pieces_whatever_their_case(tmp_path: Path) -> None:
    file = tmp_path / "source.spm"
    train_sentencepiece(["it's", "read", "a-b"], file, vocab_size=300, kind="character")
    tokenizer = Tokenizer.load(file)
    assert sorted(tokenizer.source_pieces()[4:]) == sorted(set("it'srea-db"))
    assert len(tokenizer.encode("tea")) == 3
    assert tokenizer.encode("TEA") == tokenizer.encode("tea")
    assert tokenizer.encode("ax")[1] == tokenizer.unk_id
