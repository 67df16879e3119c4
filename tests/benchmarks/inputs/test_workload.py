import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.inputs import candidates, vocabulary, workload
from benchmarks.inputs.workload import (
    EVERY_ROW,
    FORCED_TOKENS,
    QUICK_ROWS,
    Row,
    parse_row,
    pick,
    read_text,
    sentences_of,
    tokenize,
    with_long_texts,
)
from benchmarks.models import Model
from benchmarks.over_http import mixed_lengths
from export.shortlist.lexical_table import Candidates
from export.shortlist.vmap import read_vmap

SIZE = 1500


def test_rows_are_named_so_that_they_can_be_asked_for() -> None:
    for row in (*EVERY_ROW, *QUICK_ROWS, Row("base", 4, 256)):
        assert parse_row(row.name) == row
    assert {row.model for row in EVERY_ROW} == {"base", "tiny", "default", "large"}
    assert {row.model for row in QUICK_ROWS} == {"base", "tiny", "default"}
    assert parse_row("base-beam4-32") == Row("base", 4, 32)


@pytest.mark.parametrize(
    "name", ["", "base", "base-greedy", "huge-greedy-8", "base-beam-8", "base-greedy-8x"]
)
def test_what_is_no_row_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no row"):
        parse_row(name)


def test_our_own_sentences_stand_in_for_a_corpus_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "CORPUS", tmp_path / "test.en.gz")
    assert workload.text_name(None) == "sentences of our own"
    own = read_text(None)
    lengths = [len(text.split()) for text in own]
    assert (min(lengths), max(lengths), len(set(own)), len(own)) == (5, 20, 144, 144)
    (tmp_path / "test.en.gz").write_bytes(gzip.compress(b"A sentence.\n"))
    assert (workload.text_name(None), read_text(None)) == ("test.en.gz", ["A sentence."])


def test_every_32nd_text_is_made_of_many_sentences() -> None:
    texts = with_long_texts(["one two three.", "four five."], 96, 32, 150)
    long = [i for i, text in enumerate(texts) if text.count(" ") > 10]
    assert long == [16, 48, 80]
    assert all(150 <= len(texts[i].split()) < 153 for i in long)
    assert set(texts) - {texts[i] for i in long} == {"one two three.", "four five."}


def test_texts_over_http_are_mostly_short_with_a_few_of_200_words() -> None:
    lengths = mixed_lengths(512)
    assert Counter(lengths)[200] == 16
    assert max(length for length in lengths if length != 200) == 50
    assert min(lengths) == 5


def test_lines_are_taken_from_all_over() -> None:
    assert pick([str(n) for n in range(100)], 4) == ["0", "25", "50", "75"]
    assert pick(["a", "b"], 5) == ["a", "b", "a", "b", "a"]


def test_sources_are_plain_or_gzip(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("one\n\n two \n", encoding="utf-8")
    (tmp_path / "packed.gz").write_bytes(gzip.compress("één\n".encode()))
    assert read_text(tmp_path / "plain") == ["one", "two"]
    assert read_text(tmp_path / "packed.gz") == ["één"]
    (tmp_path / "empty").write_text("\n")
    for name, why in (("empty", "has no sentences"), ("nowhere", "cannot be read")):
        with pytest.raises(SystemExit, match=why):
            read_text(tmp_path / name)


def test_every_word_has_another_spelling() -> None:
    assert len(set(vocabulary.pieces(32_000))) == 32_000
    for words in (0, vocabulary.LONGEST + 1):
        with pytest.raises(ValueError, match="a length word asks for"):
            vocabulary.length_id(words)


def test_words_are_pieces_of_the_tokenizer(counting_model: Model) -> None:
    """One word, one piece, one id: what the offline rows take as pieces is what a client sends as text."""
    sentences = vocabulary.random_sentences(1000, [3, 7, 1], seed=8, ending=True)
    assert tokenize(counting_model, [vocabulary.as_text(sentence) for sentence in sentences]) == sentences


def test_random_rows_are_forced_and_default_rows_are_not(counting_model: Model) -> None:
    drawn, length = sentences_of(Row("tiny", 1, 8), counting_model, None)
    assert ([len(sentence) for sentence in drawn], length) == ([FORCED_TOKENS] * 8, FORCED_TOKENS)
    drawn, length = sentences_of(Row("default", 1, 8), counting_model, None)
    assert (len(drawn), length) == (8, None)


@pytest.mark.parametrize("kind", candidates.KINDS)
def test_candidates_are_those_that_the_map_gives_dragoman(tmp_path: Path, kind: str) -> None:
    """Counted here, written as a vmap and read by the exporter: the same number."""
    candidates.write_rules(tmp_path / "vmap", SIZE, kind)
    ids = {piece: i for i, piece in enumerate(vocabulary.pieces(SIZE))}
    table = Candidates(read_vmap(tmp_path / "vmap", ids, ids, []))
    drawn = candidates.sentences(SIZE, 12)
    each = [set(table.of([ids[word] for word in sentence])) for sentence in drawn]
    pairs = [len(a | b) for a, b in zip(each[::2], each[1::2], strict=True)]
    counted = candidates.mean_candidates(SIZE, kind, drawn, (1, 2))
    assert counted == {1: np.mean([len(one) for one in each]), 2: np.mean(pairs)}
    assert all(set(map(ids.get, sentence)) <= found for sentence, found in zip(drawn, each, strict=True))


@pytest.mark.parametrize("kind", candidates.KINDS)
def test_a_length_word_may_become_all_counting_words_that_it_asks_for(kind: str) -> None:
    found = candidates.rules(SIZE, kind)[vocabulary.length_id(5),]
    assert found == [vocabulary.counting_id(n) for n in range(1, 6)]
