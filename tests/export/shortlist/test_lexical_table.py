"""What is in a table, what a sentence gets from it, and that a file is the same for the same table."""

from pathlib import Path

import numpy as np

from export.shortlist.lexical_table import Candidates, LexicalTable, make_table, save_table
from model.data.word_alignment import Translations

ROWS = {(7,): [1, 5], (8,): [2], (7, 8): [9, 4], (8, 8, 8): [3], (6,): []}


def translations(rows: dict[int, dict[int, float]]) -> Translations:
    flat = sorted((s, t, p) for s, targets in rows.items() for t, p in targets.items())
    sources, targets, probabilities = zip(*flat, strict=True)
    return Translations(np.array(sources, np.int32), np.array(targets, np.int32), np.array(probabilities))


def test_a_table_keeps_its_rows() -> None:
    table = LexicalTable.from_rows([3, 0, 3], ROWS)
    assert table.rows == ROWS
    assert table.always.tolist() == [0, 3]
    assert table.keys.shape == (5, 3)


def test_a_sentence_gets_what_all_its_n_grams_give() -> None:
    candidates = Candidates(LexicalTable.from_rows([0, 3], ROWS))
    assert candidates.of([]) == [0, 3]
    assert candidates.of([7]) == [0, 1, 3, 5]
    assert candidates.of([8, 7]) == [0, 1, 2, 3, 5]
    assert candidates.of([5, 7, 8]) == [0, 1, 2, 3, 4, 5, 9]
    assert Candidates(LexicalTable.from_rows([2], {})).of([7, 8]) == [2]


def test_the_most_probable_targets_are_kept_and_ties_go_to_the_lowest_id() -> None:
    learnt = translations({1: {4: 0.2, 5: 0.5, 6: 0.2, 9: 0.1}, 2: {8: 1.0}})
    table = make_table(
        learnt, np.array([0, 0, 5, 0, 0, 0, 0, 9, 0, 5]), per_piece=2, frequent=2, always=[0], copies={}
    )
    assert table.rows == {(1,): [4, 5], (2,): [8]}
    assert table.always.tolist() == [0, 2, 7]


def test_pieces_of_both_vocabularies_may_be_copied_even_if_the_text_has_none() -> None:
    learnt = translations({1: {4: 1.0}})
    table = make_table(learnt, np.zeros(10), per_piece=5, frequent=0, always=[0], copies={1: 2, 3: 3})
    assert table.rows == {(1,): [2, 4], (3,): [3]}


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    table = LexicalTable.from_rows([3, 0], ROWS)
    for name in ("a.npz", "b.npz"):
        save_table(tmp_path / name, table)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
