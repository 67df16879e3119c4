"""Ranking by ONNX Runtime against numpy: columns, log-probabilities, ties, broken rows, any batch."""

import numpy as np
import onnx
import pytest

from server.engine.options import DecodingOptions
from server.engine.search.beam import BeamSearch
from server.runtime.model_runtime import PROCESSOR
from server.runtime.onnx.top_k_ranker import (
    OnnxRanker,
    any_width_graph,
    block_size,
    host_ranking_graph,
    ranking_graph,
)


def ranker(vocabulary: int | None, best: int) -> OnnxRanker:
    return OnnxRanker(PROCESSOR.session(host_ranking_graph(vocabulary, best)), PROCESSOR.run_options)


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("rows", "vocabulary", "best"),
    [(1, 8, 8), (5, 33, 4), (12, 6016, 8), (70, 32000, 16), (3, 58101, 12), (3, 6007, 8), (2, 1 << 16, 64)],
)
def test_ranks_as_numpy_does(rows: int, vocabulary: int, best: int) -> None:
    logits = np.random.default_rng(rows).standard_normal((rows, vocabulary)).astype(np.float32) * 4
    logits[:, 3] = -np.inf
    columns, found = ranker(vocabulary, best).best(logits)
    expected = np.argsort(-logits, axis=1, kind="stable")[:, :best]
    assert (columns == expected).all()
    exact = np.take_along_axis(log_probabilities(logits), expected, axis=1)
    np.testing.assert_allclose(found, exact, atol=4e-5, rtol=1e-6)  # 2.3e-5 where AVX2 sums in 8 lanes


@pytest.mark.parametrize(
    ("vocabulary", "values"), [(500, 3), (6000, 3), (6000, 300), (6000, 3000), (6007, 300)]
)
def test_lowest_columns_win_between_equal_ones(vocabulary: int, values: int) -> None:
    logits = np.random.default_rng(0).integers(0, values, (40, vocabulary)).astype(np.float32)
    logits[logits % 3 == 0] = -np.inf
    logits[0], logits[1, 8:] = 1.0, -np.inf
    columns, _ = ranker(vocabulary, 8).best(logits)
    assert (columns == np.argsort(-logits, axis=1, kind="stable")[:, :8]).all()


@pytest.mark.parametrize("best", [1, 4, 8, 16, 64])
@pytest.mark.parametrize("vocabulary", [8, 500, 6000, 6007, 32000, 58101, 65536, 250000])
def test_blocks_divide_the_vocabulary_and_spare_half_of_the_search(vocabulary: int, best: int) -> None:
    block = block_size(vocabulary, best)
    if block is None:
        assert vocabulary in (8, 500, 6007) or best == 64
    else:
        assert vocabulary % block == 0
        assert vocabulary // block >= best
        assert 2 * (vocabulary // block + best * block) < vocabulary


@pytest.mark.parametrize("broken", [np.nan, np.inf])
@pytest.mark.parametrize("vocabulary", [500, 6000])
@pytest.mark.parametrize("column", [0, 7, 499])
def test_a_broken_row_is_told_and_harms_no_other(broken: float, column: int, vocabulary: int) -> None:
    logits = np.random.default_rng(0).standard_normal((3, vocabulary)).astype(np.float32)
    whole = ranker(vocabulary, 4).best(logits)[1].copy()
    logits[1, column] = broken
    found = ranker(vocabulary, 4).best(logits)[1]
    assert np.isnan(found[1]).all()
    assert (found[[0, 2]] == whole[[0, 2]]).all()


def test_a_row_gets_the_same_bits_in_any_batch() -> None:
    logits = np.random.default_rng(1).standard_normal((100, 6016)).astype(np.float32) * 4
    ranking = ranker(6016, 8)
    columns, found = (array.copy() for array in ranking.best(logits))
    for first, last in [(0, 1), (0, 43), (17, 90), (99, 100)]:
        part = np.ascontiguousarray(logits[first:last])
        some_columns, some = ranking.best(part)
        assert (some_columns == columns[first:last]).all()
        assert (some == found[first:last]).all()


def test_minus_infinities_behind_a_row_leave_no_trace() -> None:
    """A shortlist's batch is as wide as its longest list, and rows come and go at the same address."""
    logits = np.random.default_rng(2).standard_normal((64, 512)).astype(np.float32) * 4
    ranking = ranker(None, 8)
    columns, found = (array.copy() for array in ranking.best(logits))
    assert (columns == np.argsort(-logits, axis=1, kind="stable")[:, :8]).all()
    memory = np.empty(64 * 6400, np.float32)
    for width in (512, 768, 2304, 6400):
        for rows in (1, 7, 64):
            wider = memory[: rows * width].reshape(rows, width)
            wider[:, :512], wider[:, 512:] = logits[:rows], -np.inf
            some_columns, some = ranking.best(wider)
            assert (some_columns == columns[:rows]).all()
            assert (some == found[:rows]).all()


def test_the_graph_is_valid() -> None:
    onnx.checker.check_model(onnx.load_from_string(ranking_graph(50, 8)), True)
    onnx.checker.check_model(onnx.load_from_string(ranking_graph(50, 1, (0, 7))), True)
    onnx.checker.check_model(onnx.load_from_string(ranking_graph(60, 3, block=10)), True)
    onnx.checker.check_model(onnx.load_from_string(any_width_graph(3)), True)


OPTIONS = [
    DecodingOptions(beam_size=4, num_hypotheses=4),
    DecodingOptions(beam_size=4, num_hypotheses=4, repetition_penalty=1.5, no_repeat_ngram_size=2),
    DecodingOptions(beam_size=4, num_hypotheses=4, min_decoding_length=9, target_prefix=(7, 8)),
    DecodingOptions(beam_size=4, num_hypotheses=4, repetition_penalty=1.5, early_stopping=False),
    DecodingOptions(beam_size=4, num_hypotheses=3, sampling_topk=5, seed=3),
    DecodingOptions(beam_size=4, num_hypotheses=4, required=((5, 6), (9,))),
    DecodingOptions(beam_size=4, num_hypotheses=4, required=((5, 6), (9,)), early_stopping=False),
]


def test_beam_search_finds_the_same_with_it() -> None:
    """All kinds of options in one batch: what is found is equal, and scores to what float32 holds."""
    draw = np.random.default_rng(5)
    by_numpy = BeamSearch(4, len(OPTIONS), 1, (0,))
    ranked = BeamSearch(4, len(OPTIONS), 1, (0,), ranker=ranker(600, 8))
    for place, options in enumerate(OPTIONS):
        for search in (by_numpy, ranked):
            search.admit(place, options, 14, (5, 6))
    ended: set[int] = set()
    for _ in range(14):
        logits = (draw.standard_normal((len(OPTIONS) * 4, 600)) * 3).astype(np.float32)
        logits[:, 1] += 2
        one, other = by_numpy.advance(logits.copy()), ranked.advance(logits.copy())
        assert (one.tokens == other.tokens).all()
        assert (one.ended, one.broken) == (other.ended, other.broken)
        assert (one.rows.tolist(), one.parents.tolist()) == (other.rows.tolist(), other.parents.tolist())
        for place in set(one.ended) - ended:
            expected, found = by_numpy.result(place).hypotheses, ranked.result(place).hypotheses
            assert [h.tokens for h in expected] == [h.tokens for h in found]
            assert [h.score for h in expected] == pytest.approx([h.score for h in found], abs=2e-5)
        ended.update(one.ended)
    assert ended == set(range(len(OPTIONS)))
