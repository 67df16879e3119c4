"""Slots come, go and move; what a row sees of them never changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from server.engine.bound_columns import BoundColumns
from server.engine.logsumexp import LANES
from server.errors import InferenceError

WIDTH, VOCABULARY, PLACES = 8, 900, 6
WEIGHTS = np.random.default_rng(0).integers(-100, 100, (VOCABULARY, WIDTH)).astype(np.int8)
SCALES = np.random.default_rng(1).random(VOCABULARY).astype(np.float32)
BIASES = np.random.default_rng(2).standard_normal(VOCABULARY).astype(np.float32)


class Projection:
    """The whole projection, and how often it was asked for which tokens."""

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
        return WEIGHTS[ids], SCALES[ids], BIASES[ids]


def decode(bound: BoundColumns, hidden: NDArray[np.int8]) -> None:
    """What a decoder does with the slots, for rows [R, E]."""
    products = hidden.astype(np.int32) @ bound.weights.astype(np.int32)
    bound.logits[: len(hidden)] = products.astype(np.float32) * bound.scales + bound.biases


def expected(hidden: NDArray[np.int8], ids: NDArray[np.int64]) -> NDArray[np.float32]:
    products = hidden.astype(np.int32) @ WEIGHTS[ids].T.astype(np.int32)
    result: NDArray[np.float32] = products.astype(np.float32) * SCALES[ids] + BIASES[ids]
    return result


def draw_ids(draw: np.random.Generator, most: int) -> NDArray[np.int64]:
    return np.sort(draw.permutation(VOCABULARY)[: draw.integers(1, most + 1)]).astype(np.int64)


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), beams=st.sampled_from([1, 3]))
def test_every_row_sees_its_own_candidates_and_nothing_else(seed: int, beams: int) -> None:
    draw = np.random.default_rng(seed)
    bound = BoundColumns(Projection(), VOCABULARY, beams, PLACES)
    inside: list[NDArray[np.int64]] = []
    most = int(draw.choice([10, 120, VOCABULARY]))
    for _ in range(12):
        arriving = [draw_ids(draw, most) for _ in range(draw.integers(0, PLACES - len(inside) + 1))]
        if arriving:
            bound.admit(arriving)
            inside += arriving
        if not inside:
            continue
        bound.shrink()
        hidden = draw.integers(-9, 9, (len(inside) * beams, WIDTH)).astype(np.int8)
        decode(bound, hidden)
        scores, columns = bound.own_scores()
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
