"""Constraints against the logits processors of transformers, alone and together, over any columns."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation import logits_process

from server.engine.options import DecodingOptions
from server.engine.search.beam import BeamSearch
from server.engine.search.candidate_ids import CandidateIds
from server.engine.search.constraints import Constraints, repeated
from server.engine.search.greedy import GreedySearch
from tests.support.examples import examples

EOS, VOCABULARY = 1, 30


def admitted(
    options: DecodingOptions, *histories: list[int], suppressed: tuple[int, ...] = ()
) -> Constraints:
    """Constraints of one sentence whose rows have said these tokens."""
    constraints = Constraints(len(histories), 1, EOS, suppressed)
    constraints.admit(0, options, 500)
    for step, tokens in enumerate(zip(*histories, strict=True)):
        constraints.record(np.array([step]), np.array(tokens), np.empty(0, np.intp), np.empty(0, np.intp))
    return constraints


def by_transformers(
    options: DecodingOptions, scores: np.ndarray, histories: list[list[int]], suppressed: tuple[int, ...]
) -> np.ndarray:
    processors = logits_process.LogitsProcessorList()
    if options.repetition_penalty != 1:
        processors.append(logits_process.RepetitionPenaltyLogitsProcessor(options.repetition_penalty))
    if options.no_repeat_ngram_size:
        processors.append(logits_process.NoRepeatNGramLogitsProcessor(options.no_repeat_ngram_size))
    if suppressed:
        processors.append(logits_process.SuppressTokensLogitsProcessor(list(suppressed)))
    processors.append(
        logits_process.MinLengthLogitsProcessor(options.min_decoding_length, torch.tensor([EOS]))
    )
    result: np.ndarray = processors(torch.tensor(histories), torch.tensor(scores)).numpy()
    return result


@settings(max_examples=examples(200))
@given(
    data=st.data(),
    width=st.integers(1, 4),
    length=st.integers(1, 40),
    penalty=st.sampled_from([1.0, 0.5, 1.3, 2.0]),
    size=st.integers(0, 4),
    shortest=st.sampled_from([0, 5, 30]),
    suppressed=st.sampled_from([(), (0,), (4, 7, 29)]),
)
def test_scores_become_what_transformers_makes_of_them(
    data: st.DataObject,
    width: int,
    length: int,
    penalty: float,
    size: int,
    shortest: int,
    suppressed: tuple[int, ...],
) -> None:
    histories = [
        data.draw(st.lists(st.integers(2, 9), min_size=length, max_size=length)) for _ in range(width)
    ]
    options = DecodingOptions(
        repetition_penalty=penalty, no_repeat_ngram_size=size, min_decoding_length=shortest
    )
    scores = np.random.default_rng(length).standard_normal((width, VOCABULARY)).astype(np.float32) * 3
    expected = by_transformers(options, scores, histories, suppressed)
    found = scores.copy()
    admitted(options, *histories, suppressed=suppressed).apply(found, np.array([length]), CandidateIds())
    assert found == pytest.approx(expected, rel=1e-6)


def test_candidates_are_found_by_their_tokens() -> None:
    """Over a list of candidates, the scores are those of the whole vocabulary at these columns."""
    ids = np.array([1, 3, 4, 8, 9, 20, 28])
    options = DecodingOptions(repetition_penalty=2.0, no_repeat_ngram_size=2, min_decoding_length=10)
    history = [3, 4, 5, 20, 4, 9, 7, 8, 4]
    scores = np.random.default_rng(0).standard_normal((1, VOCABULARY)).astype(np.float32)
    whole, some = scores.copy(), np.ascontiguousarray(scores[:, ids])
    constraints = admitted(options, history, suppressed=(6, 28))
    constraints.apply(whole, np.array([9]), CandidateIds())
    constraints.apply(some, np.array([9]), CandidateIds(ids[None], VOCABULARY))
    assert (some == whole[:, ids]).all()
    assert np.isneginf(whole[0, [1, 6, 28, 5, 9]]).all()  # 4 was followed by 5 and 9


def test_columns_translate_both_ways() -> None:
    columns = CandidateIds(np.array([[2, 5, 9], [3, 20, 20]]), 20)
    assert columns.tokens(np.array([[0], [1]]), np.array([[0, 2], [1, 0]])).tolist() == [[2, 9], [19, 3]]
    sentences, tokens = np.array([0, 0, 0, 0, 0, 1, 1, 1]), np.array([9, 2, 3, 0, 19, 3, 2, 19])
    assert columns.find(sentences, tokens).tolist() == [2, 0, -1, -1, -1, 0, -1, -1]
    assert columns.find(np.array([[0], [1]]), np.array([3, 5])).tolist() == [[-1, 1], [0, -1]]


@pytest.mark.parametrize("width", [1, 3])
def test_a_search_over_candidates_is_the_search_over_a_vocabulary_without_the_others(width: int) -> None:
    draw = np.random.default_rng(width)
    ids = np.sort(draw.choice(np.arange(2, 60), 25, replace=False))
    ids[0] = EOS
    options = DecodingOptions(
        beam_size=width,
        num_hypotheses=width,
        repetition_penalty=1.5,
        no_repeat_ngram_size=2,
        return_scores=True,
        target_prefix=(55,),
    )
    results = []
    for candidates in (False, True):
        search = GreedySearch(1, EOS) if width == 1 else BeamSearch(width, 1, EOS)
        search.admit(0, options, 30)
        scores = np.random.default_rng(9)
        ended: list[int] = []
        while not ended:
            some = scores.standard_normal((width, len(ids))).astype(np.float32) * 2
            whole = np.full((width, 60), -np.inf, np.float32)
            whole[:, ids] = some
            ended = search.advance(
                some if candidates else whole, CandidateIds(ids[None], 60) if candidates else CandidateIds()
            ).ended
        results.append(search.result(0))
    assert [h.tokens for h in results[0].hypotheses] == [h.tokens for h in results[1].hypotheses]
    assert [h.score for h in results[0].hypotheses] == pytest.approx(
        [h.score for h in results[1].hypotheses], abs=1e-5
    )
    assert results[0].hypotheses[0].tokens[0] == 55


def test_repeated_looks_at_each_row_up_to_its_own_length() -> None:
    written = np.array([[5, 6, 7, 5, 6, 9], [5, 6, 5, 5, 6, 9]], np.int32)
    rows, tokens = repeated(written, np.array([5, 3]), 2)
    assert sorted(zip(rows.tolist(), tokens.tolist(), strict=True)) == [(0, 7), (1, 6)]


def test_a_moved_sentence_keeps_its_history() -> None:
    constraints = Constraints(2, 3, EOS)
    options = DecodingOptions(no_repeat_ngram_size=1)
    for place in range(3):
        constraints.admit(place, DecodingOptions() if place < 2 else options, 9)
    tokens = np.array([4, 5, 6, 7, 8, 9])
    constraints.record(np.zeros(3, np.intp), tokens, np.array([5]), np.array([4]))
    constraints.move(2, 0)
    scores = np.zeros((4, 20), np.float32)
    constraints.apply(scores, np.ones(2, np.intp), CandidateIds())
    assert [np.flatnonzero(np.isneginf(row)).tolist() for row in scores] == [[8], [9], [], []]


@pytest.mark.parametrize("width", [1, 2])
def test_a_forced_end_ends_every_target_and_says_that_it_was_cut(width: int) -> None:
    search = (
        GreedySearch(1, EOS, forced_end=True) if width == 1 else BeamSearch(width, 1, EOS, forced_end=True)
    )
    search.admit(0, DecodingOptions(beam_size=width, num_hypotheses=width, return_scores=True), 3)
    scores = np.zeros((width, 20), np.float32)
    scores[:, 7], scores[:, EOS] = 3.0, -9.0
    for _ in range(2):
        assert search.advance(scores.copy()).ended == []
    advance = search.advance(scores.copy())
    assert advance.ended == [0]
    result = search.result(0)
    assert (result.hypotheses[0].tokens, result.finish_reason) == ((7, 7), "length")
    expected = 2 * (3.0 - np.log(np.exp(scores[0].astype(float)).sum())) / 3  # the forced token is free
    assert result.hypotheses[0].score == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("listed", [False, True], ids=["all words", "candidates"])
def test_a_target_ends_before_its_least_length_where_no_other_token_is_left(width: int, listed: bool) -> None:
    search = GreedySearch(1, EOS, (0,)) if width == 1 else BeamSearch(width, 1, EOS, (0,))
    options = DecodingOptions(
        beam_size=width, min_decoding_length=9, no_repeat_ngram_size=1, return_scores=True
    )
    search.admit(0, options, 20)
    columns = CandidateIds(np.arange(8)[None], 8) if listed else CandidateIds()
    scores = np.random.default_rng(3).standard_normal((width, 8)).astype(np.float32)
    ended: list[int] = []
    while not ended:
        advance = search.advance(scores.copy(), columns)
        assert not advance.broken
        ended = advance.ended
    (best, *_), reason = search.result(0).hypotheses, search.result(0).finish_reason
    assert (sorted(best.tokens), reason) == ([2, 3, 4, 5, 6, 7], "eos")
    assert np.isfinite(best.score)


def test_a_model_that_scores_nothing_is_still_found_out() -> None:
    search = GreedySearch(1, EOS)
    search.admit(0, DecodingOptions(min_decoding_length=9, no_repeat_ngram_size=1), 20)
    assert search.advance(np.full((1, 8), -np.inf, np.float32)).broken == [0]
