"""Greedy and beam search on their own: scores by hand, ties, ends, and the same bits in any batch."""

import math

import numpy as np
import pytest

from server.engine.options import DecodingOptions
from server.engine.search.beam import BeamSearch
from server.engine.search.cache_rows import assign_rows
from server.engine.search.greedy import GreedySearch
from server.engine.search.log_sum_exp import log_sum_exp
from server.engine.search.search import Search, SearchResult, broken_rows
from server.engine.search.stopping import normalised

EOS, VOCABULARY = 1, 40


def from_probabilities(*rows: dict[int, float]) -> np.ndarray:
    """Logits whose softmax gives each row's probabilities; what a row does not name shares the rest."""
    logits = np.empty((len(rows), VOCABULARY), np.float32)
    for row, named in zip(logits, rows, strict=True):
        row[:] = math.log(max(1e-9, (1 - sum(named.values())) / (VOCABULARY - len(named))))
        for token, probability in named.items():
            row[token] = math.log(probability)
    return logits + 3.0  # unnormalised


def run(search: Search, options: DecodingOptions, *steps: np.ndarray, longest: int = 50) -> SearchResult:
    search.admit(0, options, longest)
    for number, logits in enumerate(steps):
        advance = search.advance(logits)
        if advance.ended:
            assert number == len(steps) - 1
            return search.result(0)
    raise AssertionError("the search has not ended")


def test_greedy_takes_the_best_token_until_the_end_token() -> None:
    search = GreedySearch(4, EOS)
    found = run(search, DecodingOptions(), *map(from_probabilities, ({7: 0.5}, {9: 0.4}, {EOS: 0.9})))
    assert found.hypotheses[0].tokens == (7, 9)
    assert found.hypotheses[0].score == 0.0
    assert found.finish_reason == "eos"


def test_greedy_stops_at_the_longest_length() -> None:
    found = run(GreedySearch(1, EOS), DecodingOptions(), *[from_probabilities({7: 0.5})] * 3, longest=3)
    assert found.hypotheses[0].tokens == (7, 7, 7)
    assert found.finish_reason == "length"


@pytest.mark.parametrize(("penalty", "divisor"), [(0.0, 1.0), (1.0, 3.0), (0.5, math.sqrt(3))])
def test_score_is_the_log_probability_over_a_power_of_the_length_with_its_end_token(
    penalty: float, divisor: float
) -> None:
    options = DecodingOptions(return_scores=True, length_penalty=penalty)
    found = run(GreedySearch(1, EOS), options, *map(from_probabilities, ({7: 0.5}, {9: 0.4}, {EOS: 0.9})))
    assert found.hypotheses[0].score == pytest.approx(math.log(0.5 * 0.4 * 0.9) / divisor, abs=1e-5)


def test_end_token_is_masked_before_normalising_while_the_target_is_too_short() -> None:
    options = DecodingOptions(return_scores=True, min_decoding_length=1, length_penalty=0.0)
    steps = map(from_probabilities, ({EOS: 0.9, 7: 0.05}, {EOS: 0.9}))
    found = run(GreedySearch(1, EOS), options, *steps)
    assert found.hypotheses[0].tokens == (7,)
    assert found.hypotheses[0].score == pytest.approx(math.log(0.5 * 0.9), abs=1e-5)


@pytest.mark.parametrize("search", [GreedySearch(1, EOS), BeamSearch(2, 1, EOS)])
def test_lowest_id_wins_between_equal_scores(search: Search) -> None:
    rows = 2 if isinstance(search, BeamSearch) else 1
    logits = np.zeros((rows, VOCABULARY), np.float32)
    logits[:, EOS] = -5.0
    search.admit(0, DecodingOptions(beam_size=rows, num_hypotheses=rows), 2)
    search.advance(logits.copy())
    search.advance(logits.copy())
    tokens = [hypothesis.tokens for hypothesis in search.result(0).hypotheses]
    assert tokens == [(0, 0), (0, 2)][:rows]


def test_beam_search_finds_what_greedy_misses_and_scores_it() -> None:
    first = from_probabilities({5: 0.5, 6: 0.4})
    second = from_probabilities({7: 0.4, 8: 0.3}, {9: 0.9})  # after 5, after 6
    third = from_probabilities({EOS: 0.8}, {EOS: 0.5})
    options = DecodingOptions(beam_size=2, num_hypotheses=2, length_penalty=1.0)
    found = run(BeamSearch(2, 1, EOS), options, first.repeat(2, axis=0), second, third)
    assert [hypothesis.tokens for hypothesis in found.hypotheses] == [(6, 9), (5, 7)]
    expected = [math.log(0.4 * 0.9 * 0.5) / 3, math.log(0.5 * 0.4 * 0.8) / 3]
    assert [hypothesis.score for hypothesis in found.hypotheses] == pytest.approx(expected, abs=1e-5)


def test_rows_follow_their_beams() -> None:
    """In the test above, beam 0 of the second step continues row 1: the third step's rows are swapped."""
    search = BeamSearch(2, 1, EOS)
    search.admit(0, DecodingOptions(beam_size=2), 9)
    first = search.advance(from_probabilities({5: 0.5, 6: 0.4}).repeat(2, axis=0))
    assert (first.tokens.tolist(), first.rows.tolist(), first.parents.tolist()) == ([5, 6], [1], [0])
    second = search.advance(from_probabilities({7: 0.4, 8: 0.3}, {9: 0.9}))
    assert (second.tokens.tolist(), second.rows.tolist()) == ([7, 9], [])


def test_a_finished_beam_is_replaced_by_the_best_candidate_that_goes_on() -> None:
    first = from_probabilities({EOS: 0.5, 5: 0.3, 6: 0.1, 7: 0.05})
    search = BeamSearch(2, 1, EOS)
    search.admit(0, DecodingOptions(beam_size=2, num_hypotheses=1), 9)
    advance = search.advance(first.repeat(2, axis=0))
    assert advance.ended == []
    assert sorted(advance.tokens.tolist()) == [5, 6]


def test_without_length_penalty_a_finished_best_beam_ends_the_search() -> None:
    first = from_probabilities({EOS: 0.5, 5: 0.3, 6: 0.1, 7: 0.05}).repeat(2, axis=0)
    options = DecodingOptions(beam_size=2, length_penalty=0.0)
    found = run(BeamSearch(2, 1, EOS), options, first)
    assert found.hypotheses[0].tokens == ()
    assert found.hypotheses[0].score == pytest.approx(math.log(0.5), abs=1e-5)


def test_broken_scores_are_reported_for_their_sentence_only() -> None:
    logits = np.random.default_rng(0).standard_normal((6, 2000)).astype(np.float32)
    logits[3, 17] = np.nan
    beam = BeamSearch(2, 3, EOS)
    greedy = GreedySearch(6, EOS)
    for place in range(3):
        beam.admit(place, DecodingOptions(beam_size=2), 9)
    for place in range(6):
        greedy.admit(place, DecodingOptions(return_scores=True), 9)
    assert beam.advance(logits.copy()).broken == [1]
    assert greedy.advance(logits.copy()).broken == [3]
    assert broken_rows(np.array([1.0, np.inf, 2.0], np.float32)) == [1]


def test_moving_a_sentence_moves_everything_about_it() -> None:
    draw = np.random.default_rng(1)
    steps = [draw.standard_normal((2, 4, 50)).astype(np.float32) * 3 for _ in range(40)]
    options = DecodingOptions(beam_size=4, num_hypotheses=4)
    for search in (BeamSearch(4, 2, EOS), GreedySearch(2, EOS)):
        rows = 4 if isinstance(search, BeamSearch) else 1
        results = []
        for moves in (False, True):
            search.admit(0, DecodingOptions(), 40)
            search.admit(1, options, 40)
            for number, logits in enumerate(steps):
                alone = moves and number >= 20
                if moves and number == 20:
                    search.move(1, 0)
                both = logits[:, :rows] if not alone else logits[1:, :rows]
                advance = search.advance(both.reshape(-1, 50).copy())
                place = 0 if alone else 1
                if place in advance.ended:
                    results.append((number, search.result(place)))
                    break
        assert results[0] == results[1]


@pytest.mark.parametrize("width", [37, 4000, 8000, 32000])
def test_a_row_has_the_same_bits_alone_and_in_any_batch(width: int) -> None:
    scores = np.random.default_rng(width).standard_normal((67, width)).astype(np.float32) * 5
    together = log_sum_exp(scores, scores.max(axis=1))
    for size in (1, 2, 3, 8, 33):
        for first in range(0, 60, 7):
            some = np.ascontiguousarray(scores[first : first + size])
            assert (log_sum_exp(some, some.max(axis=1)) == together[first : first + size]).all()
    assert together == pytest.approx(np.logaddexp.reduce(scores.astype(np.float64), axis=1), abs=1e-4)


def test_every_beam_gets_a_row_of_its_own_and_first_children_stay() -> None:
    draw = np.random.default_rng(0)
    for width in (2, 3, 5, 8):
        parents = draw.integers(0, width, (50, width))
        rows = assign_rows(parents)
        assert (np.sort(rows, axis=1) == np.arange(width)).all()
        for before, after in zip(parents.tolist(), rows.tolist(), strict=True):
            assert (assign_rows(np.array([before])) == after).all()  # few sentences go another way
            assert all(after[before.index(parent)] == parent for parent in set(before))


def test_normalised_is_defined_for_every_penalty() -> None:
    assert normalised(-6.0, 3, 1.0) == -2.0
    assert normalised(-6.0, 3, 0.0) == -6.0
    assert normalised(-6.0, 4, -1.0) == -24.0
