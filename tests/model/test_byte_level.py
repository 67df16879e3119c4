"""Words and bytes of GPT-2, beside the `tokenizers` library."""

import time
import unicodedata

import pytest
import tokenizers

from model.byte_level import split_words, to_bytes, to_characters
from tests.integration import scripts

CUTTER = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)


def theirs(text: str) -> list[str]:
    return [word for word, _ in CUTTER.pre_tokenize_str(text)]


def ours(text: str) -> list[str]:
    return [to_characters(word) for word in split_words(text)]


@pytest.mark.parametrize(
    "text",
    [
        "it's we've I'd'll 's 't 'x '  's",
        "a  b   c",
        " \n\n x \n",
        "12th ½3٣ x_y a-b",
        "...  --!",
        "a\u00a0 b\u2028",
        "",
    ],
)
def test_words_are_those_of_gpt2(text: str) -> None:
    assert ours(text) == theirs(text)


def test_every_character_is_of_the_kind_that_gpt2_takes_it_for() -> None:
    """What Python's Unicode does not know yet is left out: it is newer in one than in the other."""
    known = [chr(i) for i in range(0x20000) if unicodedata.category(chr(i)) not in ("Cn", "Cs", "Co")]
    for start in range(0, len(known), 500):
        text = "".join(f"a{one}1{one} {one}'s  " for one in known[start : start + 500])
        assert ours(text) == theirs(text)


def test_lines_in_many_scripts_are_cut_alike() -> None:
    for line in scripts.lines(2000, seed=4, odd=True):
        assert ours(line) == theirs(line)
        assert "".join(split_words(line)) == line


def test_bytes_come_back() -> None:
    assert to_bytes(to_characters("é 😀\n")) == "é 😀\n".encode()
    with pytest.raises(ValueError, match="stands for no byte"):
        to_bytes("中")


@pytest.mark.parametrize("unit", [" ", "a", "'", " a", "中", "\n "])
def test_long_texts_take_time_in_proportion_to_their_length(unit: str) -> None:
    """A quadratic way through would take hours."""
    begun = time.monotonic()
    assert "".join(split_words(unit * 500_000 + "x")) == unit * 500_000 + "x"
    assert time.monotonic() - begun < 60
