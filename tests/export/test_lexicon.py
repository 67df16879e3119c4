"""The lexical tables: looked up as a slow reference does, the same bytes again, and refused when damaged."""

from __future__ import annotations

import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from export.bundle import BundleError
from export.lexicon import LOG_STEP, MAX_ENTRIES, UNCOVERED, Lexicon, Table, coverage, is_covered

SOURCES, TARGETS = 12, 15
CELLS = st.dictionaries(
    st.tuples(st.integers(0, SOURCES - 1), st.integers(0, TARGETS - 1)), st.floats(1e-4, 1.0), max_size=80
)


def table(cells: dict[tuple[int, int], float], size: int, entries: int = MAX_ENTRIES) -> Table:
    pairs = np.array(list(cells), np.int32).reshape(-1, 2)
    return Table.from_cells(pairs[:, 0], pairs[:, 1], np.array(list(cells.values())), size, entries)


def lexicon(cells: dict[tuple[int, int], float], entries: int = MAX_ENTRIES) -> Lexicon:
    """Both ways from the same numbers, which need not be probabilities of anything."""
    turned = {(target, source): value for (source, target), value in cells.items()}
    return Lexicon(table(cells, SOURCES, entries), table(turned, TARGETS, entries))


@given(CELLS)
def test_every_pair_is_in_the_rows_of_both_pieces(cells: dict[tuple[int, int], float]) -> None:
    tables = lexicon(cells)
    for source, target in product(range(SOURCES), range(TARGETS)):
        value = cells.get((source, target))
        expected = None if value is None else pytest.approx(np.log(value), abs=LOG_STEP / 2 + 1e-5)
        assert dict(tables.forward.rows[source]).get(target) == expected
        assert dict(tables.backward.rows[target]).get(source) == expected
    for row in (tables.forward.rows[source] for source in range(SOURCES)):
        assert row == sorted(row, key=lambda entry: -entry[1])


@given(cells=CELLS, entries=st.integers(1, 5))
def test_the_most_probable_entries_are_kept(cells: dict[tuple[int, int], float], entries: int) -> None:
    kept = table(cells, SOURCES, entries)
    for piece in range(SOURCES):
        values = sorted((value for (source, _), value in cells.items() if source == piece), reverse=True)
        found = kept.logs[piece][kept.pieces[piece] >= 0]
        assert np.allclose(found, np.log(values[:entries]), atol=LOG_STEP / 2 + 1e-5)
        assert kept.counts[piece] == min(entries, len(values))


@given(cells=CELLS)
def test_a_saved_lexicon_comes_back(
    cells: dict[tuple[int, int], float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, tables = tmp_path_factory.mktemp("lexicon"), lexicon(cells)
    tables.save(folder / "one")
    back = Lexicon.load(folder / "one", SOURCES, TARGETS)
    for ours, theirs in ((tables.forward, back.forward), (tables.backward, back.backward)):
        assert np.array_equal(ours.counts, theirs.counts)
        assert np.array_equal(ours.pieces, theirs.pieces)
        assert np.array_equal(ours.logs, theirs.logs)
    back.save(folder / "two")
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()


@given(
    CELLS,
    st.lists(st.integers(0, SOURCES - 1), max_size=8),
    st.lists(st.integers(0, TARGETS - 1), max_size=8),
    st.floats(UNCOVERED, 0),
)
def test_the_short_way_to_a_threshold_says_what_coverage_says(
    cells: dict[tuple[int, int], float], source: list[int], target: list[int], lowest: float
) -> None:
    tables = lexicon(cells, 4)
    exact = coverage(tables, source, target)
    if abs(exact - lowest) > 1e-5:
        assert is_covered(tables, source, target, lowest) == (exact >= lowest)


def test_coverage_is_the_mean_of_the_best_counterparts() -> None:
    tables = lexicon({(1, 1): 1.0, (1, 2): 0.5, (2, 2): 0.25, (3, 3): 1.0})
    half, quarter = np.log(0.5), np.log(0.25)
    expected = ((0 + quarter) / 2 + (0 + half) / 2) / 2
    assert coverage(tables, [1, 2], [1, 2]) == pytest.approx(expected, abs=LOG_STEP)
    assert coverage(tables, [1, 2], [2]) == pytest.approx(((half + quarter) / 2 + half) / 2, abs=LOG_STEP)
    assert coverage(tables, [1, 3], [1]) == pytest.approx(UNCOVERED / 4)
    assert coverage(tables, [1], [1, 3, 3]) == pytest.approx(UNCOVERED / 3)
    assert coverage(tables, [1, 7, 0], [1, 9]) == 0  # 7, 0 and 9 are not in the tables
    assert coverage(tables, [7], [1]) == 0
    assert coverage(tables, [], [1]) == 0
    assert coverage(tables, [1], []) == pytest.approx(UNCOVERED)
    assert coverage(tables, [1], [3]) == pytest.approx(UNCOVERED)


def test_too_many_entries_are_refused() -> None:
    with pytest.raises(ValueError, match="1 to 32 entries, not 33"):
        table({(0, 0): 1.0}, SOURCES, 33)


def test_an_id_outside_the_vocabulary_is_an_error() -> None:
    with pytest.raises(IndexError):
        lexicon({(0, 0): 1.0}).forward.rows[SOURCES]


def good() -> dict[str, NDArray[Any]]:
    return {
        "forward_counts": np.array([2, 0, 1], np.uint8),
        "forward_pieces": np.array([1, 0, 1], np.uint8),
        "forward_costs": np.array([1, 30, 0], np.uint8),
        "backward_counts": np.array([1, 2], np.uint8),
        "backward_pieces": np.array([0, 2, 0], np.uint16),
        "backward_costs": np.array([1, 30, 0], np.uint8),
    }


def refusal(path: Path) -> str:
    with pytest.raises(BundleError) as refused:
        Lexicon.load(path, 3, 2)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "array", "reason"),
    [
        ("forward_counts", np.array([2, 0, 1]), "forward: arrays of int64, uint8 and uint8"),
        ("forward_costs", np.array([[1, 30, 0]], np.uint8), "forward: an array has not one axis"),
        ("forward_counts", np.array([2, 1], np.uint8), "forward: is made for 2 pieces, the model has 3"),
        ("backward_counts", np.array([1, 33], np.uint8), "backward: a piece has 33 entries, at most 32"),
        ("backward_counts", np.array([1, 1], np.uint8), "backward: its counts do not fit its entries"),
        ("forward_costs", np.array([1], np.uint8), "forward: its counts do not fit its entries"),
        (
            "forward_pieces",
            np.array([1, 2, 1], np.uint8),
            "forward: a piece lies outside the vocabulary of 2",
        ),
        ("forward_pieces", np.array([{}], object), "is not a lexicon: Object arrays cannot be loaded"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, name: str, array: NDArray[Any], reason: str) -> None:
    np.savez(tmp_path / "lexicon.npz", **good())
    assert Lexicon.load(tmp_path / "lexicon.npz", 3, 2).forward.counts.tolist() == [2, 0, 1]
    np.savez(tmp_path / "lexicon.npz", **{**good(), name: array})
    assert refusal(tmp_path / "lexicon.npz").startswith(f"lexicon.npz: {reason}")


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.npz"
    assert "is not a lexicon" in refusal(path)
    path.write_bytes(b"PK no archive")
    assert "is not a lexicon" in refusal(path)
    np.savez(path, **{name: array for name, array in good().items() if name != "forward_costs"})
    assert "forward_costs" in refusal(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("forward_counts.npy", bytes(1 << 27))
    assert "more than 67108864 bytes" in refusal(path)


def test_a_cut_off_file_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "whole", **good())
    whole = (tmp_path / "whole.npz").read_bytes()
    for length in range(0, len(whole), 29):
        (tmp_path / "lexicon.npz").write_bytes(whole[:length])
        assert "is not a lexicon" in refusal(tmp_path / "lexicon.npz")
