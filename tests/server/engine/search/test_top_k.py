import numpy as np
import pytest

from server.engine.search.top_k import top_k


def slow(scores: np.ndarray, k: int) -> np.ndarray:
    return np.array([sorted(sorted(range(len(row)), key=lambda c: (-row[c], c))[:k]) for row in scores])


@pytest.mark.parametrize("width", [16, 31, 500, 1029, 4000])
@pytest.mark.parametrize("k", [1, 4, 16])
@pytest.mark.parametrize("levels", [None, 1000, 3, 1])
def test_equals_sorting_even_when_many_scores_are_equal(width: int, k: int, levels: int | None) -> None:
    draw = np.random.default_rng(width + k)
    scores = draw.standard_normal((9, width)).astype(np.float32)
    if levels is not None:
        scores = draw.integers(0, levels, (9, width)).astype(np.float32)
    columns, values = top_k(scores, k)
    assert (columns == slow(scores, k)).all()
    assert (values == np.take_along_axis(scores, columns, axis=1)).all()


def test_takes_masked_scores() -> None:
    scores = np.full((2, 3000), -np.inf, np.float32)
    scores[0, [7, 2999]] = 1.0
    columns, values = top_k(scores, 4)
    assert columns.tolist() == [[0, 1, 7, 2999], [0, 1, 2, 3]]
    assert values[0].tolist() == [-np.inf, -np.inf, 1.0, 1.0]


def test_shows_a_row_that_is_not_a_number_and_leaves_its_neighbours_alone() -> None:
    scores = np.random.default_rng(0).standard_normal((3, 3000)).astype(np.float32)
    expected = slow(scores, 4)
    scores[1, 1234] = np.nan
    columns, values = top_k(scores, 4)
    assert np.isnan(values[1].max())
    assert (columns[[0, 2]] == expected[[0, 2]]).all()
