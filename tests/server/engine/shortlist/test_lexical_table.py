"""Candidates of a sentence: as the exporter's slow lookup has them, and files that do not fit are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.bundle import BundleError
from export.shortlist.lexical_table import Candidates, LexicalTable, save_table
from server.engine.options import MAX_REQUIRED_TOKENS
from server.engine.shortlist.lexical_table import Shortlist

VOCABULARY = 60
NOTHING: Any = None  # columns are not read here
PIECES = st.integers(0, 12)
TARGETS = st.lists(st.integers(0, VOCABULARY - 1), max_size=5)
TABLES = st.builds(
    LexicalTable.from_rows,
    st.just([3, 5, 59]),
    st.dictionaries(st.lists(PIECES, min_size=1, max_size=3).map(tuple), TARGETS, max_size=12),
)


@given(table=TABLES, source=st.lists(PIECES, max_size=20))
def test_the_server_finds_what_the_exporter_finds(
    table: LexicalTable, source: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("table") / "shortlist.npz"
    save_table(file, table)
    found = Shortlist.load(file, VOCABULARY, [3], NOTHING).candidates(source)
    assert found.dtype == np.int64
    assert found.tolist() == Candidates(table).of(source)


@given(table=TABLES, source=st.lists(PIECES, max_size=20))
def test_no_sentence_has_more_candidates_than_the_table_allows(
    table: LexicalTable, source: list[int]
) -> None:
    rows = {key: np.array(targets, np.int64) for key, targets in table.rows.items()}
    found = Shortlist(table.always.tolist(), rows, VOCABULARY, NOTHING)
    assert len(found.candidates(source)) <= found.most_candidates(len(source)) <= VOCABULARY


def test_a_longer_sentence_may_have_more_candidates() -> None:
    rows = {(5,): np.arange(10), (6, 7): np.arange(4)}
    found = Shortlist([3, 4], rows, 400, NOTHING)
    required = MAX_REQUIRED_TOKENS
    assert [found.most_candidates(n) - required for n in (0, 1, 2)] == [2, 22, 42]
    assert found.most_candidates(10) == 400


def test_tokens_of_required_sequences_are_candidates() -> None:
    found = Shortlist([3, 4], {(5,): np.array([6])}, VOCABULARY, NOTHING)
    assert found.candidates((5,), ((9, 8), (3,))).tolist() == [3, 4, 6, 8, 9]


def good() -> dict[str, np.ndarray]:
    return {
        "always": np.array([3]),
        "keys": np.array([[1], [2]]),
        "offsets": np.array([0, 1, 3]),
        "targets": np.array([4, 5, 6]),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"always": np.array([3, 60])}, "outside the vocabulary of 60"),
        ({"targets": np.array([4, -1, 6])}, "outside the vocabulary of 60"),
        ({"always": np.array([4])}, "token 3 must always be a candidate"),
        ({"offsets": np.array([0, 3])}, "offsets do not fit"),
        ({"offsets": np.array([0, 1, 4])}, "offsets do not fit"),
        ({"offsets": np.array([0, 4, 3])}, "not ascending"),
        ({"keys": np.array([1, 2])}, "not a lexical table: an array has 1 axes"),
        ({"targets": np.array([4.0, 5.0, 6.0])}, "not a lexical table: an array has 1 axes of float64"),
        ({"targets": np.array([{}, {}, {}])}, "not a lexical table"),  # pickled
    ],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, changes: dict[str, np.ndarray], message: str
) -> None:
    file = tmp_path / "shortlist.npz"
    with file.open("wb") as stream:
        np.savez(stream, **(good() | changes))
    with pytest.raises(BundleError, match=rf"^shortlist.npz: .*{message}"):
        Shortlist.load(file, VOCABULARY, [3], NOTHING)


def test_garbage_and_missing_arrays_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "shortlist.npz"
    file.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(BundleError, match=r"^shortlist.npz: is not a lexical table"):
        Shortlist.load(file, VOCABULARY, [3], NOTHING)
    with file.open("wb") as stream:
        np.savez(stream, always=np.array([3]))
    with pytest.raises(BundleError, match=r"is not a lexical table.*keys"):
        Shortlist.load(file, VOCABULARY, [3], NOTHING)
