"""Slots come, go and move; what a row sees of them never changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from server.engine.search.log_sum_exp import LANES
from server.engine.shortlist.projection_columns import BoundColumns, most_bytes
from server.errors import InferenceError
from tests.examples import examples

WIDTH, VOCABULARY, PLACES = 8, 900, 6
WEIGHTS = np.random.default_rng(0).integers(-100, 100, (VOCABULARY, WIDTH)).astype(np.int8)
SCALES = np.random.default_rng(1).random(VOCABULARY).astype(np.float32)
BIASES = np.random.default_rng(2).standard_normal(VOCABULARY).astype(np.float32)


class Projection:
    """Columns of a projection that cannot be had as a whole, and how often it was asked for which tokens."""

    width = WIDTH
    hidden_dtype: np.dtype[np.int8] | None = None

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.fails = False

    def columns(
        self, ids: NDArray[np.int64]
    ) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]]:
        if self.fails:
            raise InferenceError("out of order")
        self.asked.append(ids.tolist())
        return WEIGHTS[ids], SCALES[ids], BIASES[ids]

    def project(self, hidden: NDArray[np.int8], logits: NDArray[np.float32]) -> None:
        raise AssertionError


class WholeProjection(Projection):
    """One that can, and how many rows it was asked to multiply."""

    hidden_dtype = np.dtype(np.int8)

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []

    def project(self, hidden: NDArray[np.int8], logits: NDArray[np.float32]) -> None:
        assert hidden.flags.c_contiguous
        assert logits.flags.c_contiguous
        self.rows.append(len(hidden))
        logits[:] = expected(hidden, np.arange(VOCABULARY))


def decode(bound: BoundColumns, hidden: NDArray[np.int8], beams: int = 1) -> None:
    """What a decoder does with the slots, for rows [R, E], and what follows for each half of them."""
    count = len(hidden) // beams
    if bound.hidden is not None:
        bound.hidden[: len(hidden)] = hidden
    bound.project(0, count // 2)
    bound.project(count // 2, count - count // 2)
    products = hidden.astype(np.int32) @ bound.weights.astype(np.int32)
    bound.logits[: len(hidden)] = products.astype(np.float32) * bound.scales + bound.biases


def expected(hidden: NDArray[np.int8], ids: NDArray[np.int64]) -> NDArray[np.float32]:
    products = hidden.astype(np.int32) @ WEIGHTS[ids].T.astype(np.int32)
    result: NDArray[np.float32] = products.astype(np.float32) * SCALES[ids] + BIASES[ids]
    return result


def draw_ids(draw: np.random.Generator, most: int) -> NDArray[np.int64]:
    return np.sort(draw.permutation(VOCABULARY)[: draw.integers(1, most + 1)]).astype(np.int64)


@settings(max_examples=examples(120))
@given(
    seed=st.integers(0, 10_000),
    beams=st.sampled_from([1, 3]),
    whole_above=st.sampled_from([None, 0.0, 0.1, 1 / 3, 1.0]),
)
def test_every_row_sees_its_own_candidates_and_nothing_else(
    seed: int, beams: int, whole_above: float | None
) -> None:
    draw = np.random.default_rng(seed)
    source, above = (Projection(), 0.5) if whole_above is None else (WholeProjection(), whole_above)
    bound = BoundColumns(source, VOCABULARY, beams, PLACES, above)
    most = most_bytes(source, VOCABULARY, beams, PLACES, above, VOCABULARY)
    inside: list[NDArray[np.int64]] = []
    longest = int(draw.choice([10, 120, VOCABULARY]))
    for _ in range(12):
        arriving = [draw_ids(draw, longest) for _ in range(draw.integers(0, PLACES - len(inside) + 1))]
        if arriving:
            bound.admit(arriving)
            inside += arriving
        if not inside:
            continue
        bound.shrink()
        hidden = draw.integers(-9, 9, (len(inside) * beams, WIDTH)).astype(np.int8)
        decode(bound, hidden, beams)
        scores, columns = bound.own_scores()
        assert bound.nbytes <= most
        assert scores.flags.c_contiguous
        assert scores.shape[1] % LANES == 0
        for place, ids in enumerate(inside):
            rows = slice(place * beams, (place + 1) * beams)
            assert columns.tokens(np.intp(place), np.arange(len(ids))).tolist() == ids.tolist()
            asked = np.arange(VOCABULARY)
            known = np.searchsorted(ids, asked)
            known[~np.isin(asked, ids)] = -1
            assert columns.find(np.array([place]), asked).tolist() == known.tolist()
            assert (scores[rows, : len(ids)] == expected(hidden[rows], ids)).all()
            assert (scores[rows, len(ids) :] == -np.inf).all()
        for place in sorted(draw.permutation(len(inside))[: draw.integers(0, 4)].tolist(), reverse=True):
            bound.retire(place)
            inside[place] = inside[-1]
            inside.pop()


def test_a_token_is_read_once_while_there_is_room() -> None:
    projection = Projection()
    bound = BoundColumns(projection, VOCABULARY, 1, 4)
    bound.admit([np.array([3, 5, 8]), np.array([3, 9])])
    bound.retire(0)
    bound.retire(0)
    bound.admit([np.array([3, 5, 8, 9, 11])])
    assert projection.asked == [[3, 5, 8, 9], [11]]


def test_slots_grow_shrink_and_say_so() -> None:
    bound = BoundColumns(Projection(), VOCABULARY, 2, 4)
    assert bound.capacity == 64
    first, buffers = bound.generation, bound.weights
    bound.admit([np.arange(20)])
    assert bound.generation == first
    assert bound.weights is buffers
    bound.admit([np.arange(600)])
    assert bound.capacity % 128 == 64 and bound.capacity > 600
    assert bound.logits.shape == (8, bound.capacity)
    assert bound.generation > first
    grown = bound.generation
    bound.shrink()
    assert bound.generation == grown
    bound.retire(1)
    bound.shrink()
    assert bound.capacity == 64
    assert bound.generation > grown
    bound.logits[:2] = np.arange(64) + 100
    assert (bound.own_scores()[0][:, :20] >= 101).all()  # slot 0 is nobody's


def test_many_tokens_are_scored_all_at_once_and_few_are_bound_again() -> None:
    projection = WholeProjection()
    bound = BoundColumns(projection, VOCABULARY, 1, 4, 0.5)
    bound.admit([np.arange(450)])
    assert bound.hidden is None
    generation = bound.generation
    bound.admit([np.arange(400, 500)])
    assert bound.hidden is not None
    assert (bound.capacity, len(projection.asked)) == (64, 1)
    assert bound.generation > generation
    decode(bound, np.ones((2, WIDTH), np.int8))
    assert projection.rows == [1, 1]
    bound.silence(slice(0, 1))
    scores, _ = bound.own_scores()
    assert (scores[0, :450] == 0).all()
    assert (scores[1, :100] == expected(np.ones((1, WIDTH), np.int8), np.arange(400, 500))).all()
    assert (scores[1, 100:] == -np.inf).all()
    bound.retire(0)
    projection.fails = True
    bound.shrink()
    assert bound.hidden is not None  # the columns cannot be read now: nothing is lost
    projection.fails = False
    bound.shrink()
    assert bound.hidden is None
    assert projection.asked[-1] == list(range(400, 500))
    decode(bound, np.ones((1, WIDTH), np.int8))
    assert projection.rows == [1, 1]
    again, _ = bound.own_scores()
    assert (again[0, :100] == scores[1, :100]).all()


def test_between_the_two_ways_nothing_changes() -> None:
    """So that a batch at the edge does not go to and fro."""
    bound = BoundColumns(WholeProjection(), VOCABULARY, 1, 4, 0.5)
    for count, whole in ((451, True), (226, True), (224, False), (449, False), (451, True)):
        bound.admit([np.arange(count)])
        bound.shrink()
        assert (bound.hidden is not None) == whole
        bound.retire(0)


def test_the_most_bytes_are_reached_when_every_sentence_may_be_anything() -> None:
    for source, above in ((Projection(), 1.0), (WholeProjection(), 0.0)):
        bound = BoundColumns(source, VOCABULARY, 2, 4, above)
        bound.admit([np.arange(VOCABULARY)] * 4)
        bound.own_scores()
        assert bound.nbytes == most_bytes(source, VOCABULARY, 2, 4, above, VOCABULARY)


def test_a_failed_admission_changes_nothing() -> None:
    projection = Projection()
    bound = BoundColumns(projection, VOCABULARY, 1, 4)
    bound.admit([np.array([3, 5])])
    projection.fails = True
    with pytest.raises(InferenceError):
        bound.admit([np.array([3, 6, 7]), np.array([5])])
    projection.fails = False
    hidden = np.ones((1, WIDTH), np.int8)
    decode(bound, hidden)
    scores, columns = bound.own_scores()
    assert columns.tokens(np.intp(0), np.arange(2)).tolist() == [3, 5]
    assert (scores[:, :2] == expected(hidden, np.array([3, 5]))).all()
    assert (scores[:, 2:] == -np.inf).all()
    bound.retire(0)
    bound.admit([np.arange(63)])  # all but slot 0: nothing is kept for those that never came
    assert bound.capacity == 64
