"""Symbols, accents and digits as pieces, and normalization that keeps what a reader sees."""

import unicodedata

import pytest

from model.tokenizer import Tokenizer
from model.vocabulary.learning import train_sentencepiece
from model.vocabulary.symbols import REQUIRED, normalization_rules

ASKED = "{}%<>#@&€£¥§°©®™–—…«»„“”\"'‘’•→äöüßÄÖÜéèêçàùñáíóúÑœ"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    file = tmp_path_factory.mktemp("vocabulary") / "source.spm"
    lines = [f"the cat number {n} sees a big house near 20{n}" for n in range(400)]
    train_sentencepiece(lines, file, vocab_size=607, kind="unigram", split_digits=True, symbols=True)
    assert [path.name for path in file.parent.iterdir()] == ["source.spm"]
    return Tokenizer.load(file)


def test_every_symbol_is_a_piece_and_comes_back(tokenizer: Tokenizer) -> None:
    pieces = set(tokenizer.source_pieces())
    assert set(ASKED) <= set(REQUIRED) <= pieces
    for char in REQUIRED:
        text = f"a{char}b {char}"
        ids = tokenizer.encode(text)
        assert not any(tokenizer.source_pieces()[id].startswith("<0x") for id in ids)
        assert tokenizer.decode(ids) == text


def test_numbers_are_spelled_digit_by_digit(tokenizer: Tokenizer) -> None:
    names = tokenizer.source_pieces()
    digits = [names[id].strip("▁") for id in tokenizer.encode("near 2019")][-4:]
    assert digits == ["2", "0", "1", "9"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (unicodedata.normalize("NFD", "Käse à la crème"), "Käse à la crème"),
        ("10\u00a0000\u202f€\tnow", "10 000 € now"),
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("ｆｕｌｌ ﬁne", "full fine"),
        ("½ … ™ ² № µ", "½ … ™ ² № µ"),
        ("日本 😀 Привет", "日本 😀 Привет"),
    ],
)
def test_what_looks_the_same_becomes_the_same(tokenizer: Tokenizer, text: str, expected: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == expected


def test_no_rule_changes_a_required_character() -> None:
    assert not set(REQUIRED) & set(normalization_rules())
