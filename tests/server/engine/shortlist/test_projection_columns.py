"""What a row sees of the columns of its batch never depends on who else is there."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from server.engine.search.log_sum_exp import LANES
from server.engine.shortlist.projection_columns import ProjectionColumns, most_bytes, padded_columns
from server.errors import InferenceError
from tests.support.examples import examples

WIDTH, VOCABULARY, PLACES = 8, 900, 6
WEIGHTS = np.random.default_rng(0).integers(-100, 100, (VOCABULARY, WIDTH)).astype(np.int8)
SCALES = np.random.default_rng(1).random(VOCABULARY).astype(np.float32)
BIASES = np.random.default_rng(2).standard_normal(VOCABULARY).astype(np.float32)


class Projection:
    """Columns of a projection, and which tokens it was asked for."""

    width = WIDTH

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.fails = False

    def columns(
        self, ids: NDArray[np.int64]
    ) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]]:
        if self.fails:
            raise InferenceError("out of order")
        self.asked.append(ids.tolist())
        return np.ascontiguousarray(WEIGHTS[ids].T), SCALES[ids], BIASES[ids]


def decode(columns: ProjectionColumns, hidden: NDArray[np.int8]) -> None:
    """What a decoder does with the columns, for rows [R, E]."""
    products = hidden.astype(np.int32) @ columns.inputs["column_weights"].astype(np.int32)
    scores = products.astype(np.float32) * columns.inputs["column_scales"]
    columns.logits[: len(hidden)] = scores + columns.inputs["column_biases"]


def expected(hidden: NDArray[np.int8], ids: NDArray[np.int64]) -> NDArray[np.float32]:
    products = hidden.astype(np.int32) @ WEIGHTS[ids].T.astype(np.int32)
    result: NDArray[np.float32] = products.astype(np.float32) * SCALES[ids] + BIASES[ids]
    return result


def draw_ids(draw: np.random.Generator, most: int) -> NDArray[np.int64]:
    return np.sort(draw.permutation(VOCABULARY)[: draw.integers(1, most + 1)]).astype(np.int64)


@settings(max_examples=examples(120))
@given(seed=st.integers(0, 10_000), beams=st.sampled_from([1, 3]))
def test_every_row_sees_its_own_candidates_and_nothing_else(seed: int, beams: int) -> None:
    draw = np.random.default_rng(seed)
    columns = ProjectionColumns(Projection(), VOCABULARY, beams, PLACES)
    longest = int(draw.choice([10, 120, VOCABULARY]))
    most = most_bytes(WIDTH, VOCABULARY, beams, PLACES, longest)
    inside: list[NDArray[np.int64]] = []
    for _ in range(12):
        arriving = [draw_ids(draw, longest) for _ in range(draw.integers(0, PLACES - len(inside) + 1))]
        if arriving:
            columns.admit(arriving)
            inside += arriving
        if not inside:
            continue
        hidden = draw.integers(-9, 9, (len(inside) * beams, WIDTH)).astype(np.int8)
        decode(columns, hidden)
        scores, candidates = columns.own_scores()
        assert columns.nbytes <= most
        assert scores.flags.c_contiguous
        assert scores.shape[1] % LANES == 0
        for place, ids in enumerate(inside):
            rows = slice(place * beams, (place + 1) * beams)
            assert candidates.tokens(np.intp(place), np.arange(len(ids))).tolist() == ids.tolist()
            asked = np.arange(VOCABULARY)
            known = np.searchsorted(ids, asked)
            known[~np.isin(asked, ids)] = -1
            assert candidates.find(np.array([place]), asked).tolist() == known.tolist()
            assert (scores[rows, : len(ids)] == expected(hidden[rows], ids)).all()
            assert (scores[rows, len(ids) :] == -np.inf).all()
        for place in sorted(draw.permutation(len(inside))[: draw.integers(0, 4)].tolist(), reverse=True):
            columns.retire(place)
            inside[place] = inside[-1]
            inside.pop()


def test_columns_are_those_of_the_sentences_that_are_there() -> None:
    projection = Projection()
    columns = ProjectionColumns(projection, VOCABULARY, 1, 4)
    columns.admit([np.arange(200), np.array([3, 201])])
    assert columns.logits.shape == (4, 320)
    columns.retire(0)
    columns.admit([np.array([3, 5])])
    assert columns.logits.shape == (4, 64)
    assert [asked[:4] for asked in projection.asked] == [[0, 1, 2, 3], [3, 5, 201, 0]]


@pytest.mark.parametrize(("tokens", "padded"), [(0, 64), (63, 64), (64, 192), (191, 192), (192, 320)])
def test_columns_are_an_odd_multiple_of_64_and_one_is_nobodys(tokens: int, padded: int) -> None:
    assert padded_columns(tokens) == padded


def test_the_most_bytes_are_reached_when_every_sentence_may_be_anything() -> None:
    columns = ProjectionColumns(Projection(), VOCABULARY, 2, 4)
    columns.admit([np.arange(VOCABULARY)] * 4)
    columns.own_scores()
    assert columns.nbytes == most_bytes(WIDTH, VOCABULARY, 2, 4, VOCABULARY)


def test_a_failed_admission_changes_nothing() -> None:
    projection = Projection()
    columns = ProjectionColumns(projection, VOCABULARY, 1, 4)
    columns.admit([np.array([3, 5])])
    projection.fails = True
    with pytest.raises(InferenceError):
        columns.admit([np.array([3, 6, 7]), np.array([5])])
    hidden = np.ones((1, WIDTH), np.int8)
    decode(columns, hidden)
    scores, candidates = columns.own_scores()
    assert candidates.tokens(np.intp(0), np.arange(2)).tolist() == [3, 5]
    assert (scores[:, :2] == expected(hidden, np.array([3, 5]))).all()
    assert (scores[:, 2:] == -np.inf).all()
