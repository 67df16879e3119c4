"""Required sequences: exactly once each whatever the scores, where the model wants them if it wants them."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.engine.options import MAX_REQUIRED_TOKENS, DecodingOptions, fit_together
from server.engine.search.beam import BeamSearch
from server.engine.search.candidate_ids import WHOLE_VOCABULARY, CandidateIds
from server.engine.search.greedy import GreedySearch
from server.engine.search.search import Search, SearchResult
from server.errors import InvalidOptionError
from tests.server.engine.slow import occurrences
from tests.support.examples import examples

EOS, VOCABULARY = 1, 14

sequences = (
    st.lists(st.lists(st.integers(2, 9), min_size=1, max_size=6).map(tuple), max_size=5)
    .map(tuple)
    .filter(fit_together)
)


def search_of(width: int, sentences: int, forced_end: bool = False) -> Search:
    if width == 1:
        return GreedySearch(sentences, EOS, (0,), forced_end)
    return BeamSearch(width, sentences, EOS, (0,), forced_end)


def scores_of(sentence: int, step: int, width: int) -> np.ndarray:
    """Scores [K, V] that nobody knows before; the end token is often the best."""
    scores = np.random.default_rng((sentence, step)).standard_normal((width, VOCABULARY))
    scores[:, EOS] += np.random.default_rng((sentence, step, 1)).choice([-2.0, 1.0, 9.0])
    return scores.astype(np.float32) * 3


def run(
    search: Search, width: int, sentences: dict[int, tuple[DecodingOptions, int]]
) -> dict[int, SearchResult]:
    """Decode sentences together until all have ended; each draws its scores from its number."""
    order = list(sentences)
    for place, number in enumerate(order):
        search.admit(place, *sentences[number], source=(number,))
    results = {}
    for step in itertools.count():
        ended = search.advance(np.concatenate([scores_of(number, step, width) for number in order])).ended
        results |= {order[place]: search.result(place) for place in ended}
        for place in reversed(ended):
            search.move(len(order) - 1, place)
            order[place] = order[-1]
            order.pop()
        if not order:
            return results
    raise AssertionError


@st.composite
def requested_options(draw: st.DrawFn, width: int) -> tuple[DecodingOptions, int]:
    """Options and a longest length, which mostly has room for the sequences."""
    required = draw(sequences)
    prefix = tuple(draw(st.lists(st.integers(2, 9), max_size=4)))
    prefix = () if any(occurrences(list(prefix), one) > 1 for one in required) else prefix
    needed = sum(map(len, required)) + len(prefix)
    length = max(1, needed + draw(st.sampled_from([-3, 0, 0, 1, 2, 5, 20])))
    options = DecodingOptions(
        beam_size=width,
        num_hypotheses=draw(st.integers(1, width)),
        target_prefix=prefix,
        required=required,
        return_scores=True,
        length_penalty=draw(st.sampled_from([0.0, 1.0])),
        early_stopping=draw(st.sampled_from([None, None, False, True, "never"])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.0, 1.5])),
        no_repeat_ngram_size=draw(st.sampled_from([0, 0, 2])),
        min_decoding_length=draw(st.sampled_from([0, 0, 4])),
        sampling_topk=draw(st.sampled_from([1, 1, 0, 3])),
    )
    return options, length


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), width=st.sampled_from([1, 1, 2, 3]), forced_end=st.booleans())
def test_every_hypothesis_has_each_exactly_once_and_the_same_alone_and_in_any_batch(
    data: st.DataObject, width: int, forced_end: bool
) -> None:
    sentences = dict(enumerate(data.draw(st.lists(requested_options(width), min_size=1, max_size=5))))
    together = run(search_of(width, len(sentences), forced_end), width, sentences)
    for number, (options, longest) in sentences.items():
        alone = run(search_of(width, 1, forced_end), width, {number: (options, longest)})[number]
        assert together[number] == alone
        needed = len(options.target_prefix) + sum(map(len, options.required)) + forced_end
        for hypothesis, one in itertools.product(alone.hypotheses, options.required):
            found = occurrences(list(hypothesis.tokens), one)
            assert found == 1 if longest >= needed else found <= 1


def steps_of(*best: int, width: int = 1) -> list[np.ndarray]:
    """Scores by which the best token of each step is known."""
    steps = [np.tile(np.linspace(0, -1, VOCABULARY, dtype=np.float32), (width, 1)) for _ in best]
    for scores, token in zip(steps, best, strict=True):
        scores[:, EOS] = -2
        scores[:, token] = 9
    return steps


def greedy(options: DecodingOptions, *best: int, longest: int = 50) -> SearchResult:
    search = GreedySearch(1, EOS, (0,))
    search.admit(0, options, longest)
    for number, logits in enumerate(steps_of(*best)):
        if search.advance(logits).ended:
            assert number == len(best) - 1
            return search.result(0)
    raise AssertionError


MASKS = DecodingOptions(required=((4, 5, 6), (4, 7, 6)), return_scores=True)


def test_a_model_that_writes_them_is_left_alone() -> None:
    assert greedy(MASKS, 9, 4, 7, 6, 9, 4, 5, 6, EOS).hypotheses[0].tokens == (9, 4, 7, 6, 9, 4, 5, 6)


def test_where_the_end_would_be_best_the_missing_one_is_written_as_a_block() -> None:
    found = greedy(MASKS, 9, 4, 7, 6, EOS, 9, 9, 8, EOS)
    assert found.hypotheses[0].tokens == (9, 4, 7, 6, 4, 5, 6, 8)
    assert found.finish_reason == "eos"


def test_a_block_goes_on_from_what_stands_there() -> None:
    assert greedy(MASKS, 4, 7, EOS, EOS, 9, 9, EOS).hypotheses[0].tokens == (4, 7, 6, 4, 5, 6)


def test_blocks_cost_nothing() -> None:
    options = dataclasses.replace(MASKS, length_penalty=0.0)
    with_blocks = greedy(options, 9, EOS, 9, 9, EOS, 9, 9, EOS).hypotheses[0]
    without = greedy(DecodingOptions(return_scores=True, length_penalty=0.0), 9, EOS).hypotheses[0]
    assert with_blocks.tokens == (9, 4, 5, 6, 4, 7, 6)
    # But that the end token is forbidden leaves a little more to the first token.
    assert with_blocks.score == pytest.approx(without.score, abs=1e-3)


def test_what_is_there_is_not_completed_again() -> None:
    assert greedy(MASKS, 4, 5, 6, 4, 7, 6, 4, 5, 6, EOS).hypotheses[0].tokens == (4, 5, 6, 4, 7, 6, 4, 5, 2)
    twice = DecodingOptions(required=((4, 4),))
    assert greedy(twice, 4, 4, 4, EOS).hypotheses[0].tokens == (4, 4, 2)
    single = DecodingOptions(required=((4,),))
    assert greedy(single, 9, 4, 4, EOS).hypotheses[0].tokens == (9, 4, 2)


def test_the_last_steps_are_kept_for_what_is_missing() -> None:
    found = greedy(MASKS, *[9] * 8, longest=8)
    assert (found.hypotheses[0].tokens, found.finish_reason) == ((9, 9, 4, 5, 6, 4, 7, 6), "length")
    assert greedy(MASKS, *[9] * 4, longest=4).hypotheses[0].tokens == (4, 5, 6, 4)


@pytest.mark.parametrize("width", [1, 2])
def test_broken_scores_are_known_within_a_block(width: int) -> None:
    search = search_of(width, 1)
    search.admit(0, dataclasses.replace(MASKS, beam_size=width), 50)
    search.advance(steps_of(EOS, width=width)[0])
    broken = steps_of(9, width=width)[0]
    broken[:, 3] = np.nan
    assert search.advance(broken).broken == [0]


@pytest.mark.parametrize("width", [1, 3])
def test_over_candidates_it_is_the_search_over_a_vocabulary_without_the_others(width: int) -> None:
    ids = np.array([EOS, 4, 5, 6, 7, 9, 11, 13])
    options = DecodingOptions(beam_size=width, required=MASKS.required, return_scores=True)
    results = []
    for columns in (WHOLE_VOCABULARY, CandidateIds(ids[None], VOCABULARY)):
        search = search_of(width, 1)
        search.admit(0, options, 20)
        ended: list[int] = []
        for step in itertools.count():
            scores = scores_of(7, step, width)
            some = np.full_like(scores, -np.inf)
            some[:, ids] = scores[:, ids]
            if not columns.are_tokens:
                some = np.ascontiguousarray(scores[:, ids])
            ended = search.advance(some, columns).ended
            if ended:
                break
        results.append(search.result(0).hypotheses[0])
    assert results[0].tokens == results[1].tokens
    assert results[0].score == pytest.approx(results[1].score, abs=1e-5)


def test_they_need_all_scores_and_single_steps() -> None:
    for width in (1, 2):
        search = search_of(width, 2)
        assert isinstance(search, GreedySearch | BeamSearch)
        search.admit(0, DecodingOptions(beam_size=width), 50)
        search.admit(1, dataclasses.replace(MASKS, beam_size=width, return_scores=False), 50)
        assert [search.needs_all(count) for count in (1, 2)] == [False, True]
        assert search.max_unconstrained_steps(1)[0] > 0
        assert search.max_unconstrained_steps(2)[0] == 0


@pytest.mark.parametrize(
    "required",
    [
        ((),),
        ((4,), (4,)),
        ((4, 5, 6), (5,)),
        ((4, 5), (5, 6)),
        ((4, 5), (4, 5, 6)),
        ((6, 4, 5), (4, 5)),
        (tuple(range(2, MAX_REQUIRED_TOKENS + 3)),),
    ],
)
def test_sequences_that_cannot_stand_beside_each_other_are_refused(
    required: tuple[tuple[int, ...], ...],
) -> None:
    assert not fit_together(required)
    with pytest.raises(InvalidOptionError, match="required"):
        DecodingOptions(required=required).validate()


def test_sequences_may_share_a_beginning_or_an_end_or_overlap_themselves() -> None:
    DecodingOptions(required=((4, 5, 6), (4, 7, 6), (8, 8))).validate()
    with pytest.raises(InvalidOptionError, match="target_prefix"):
        DecodingOptions(required=((8, 8),), target_prefix=(8, 8, 8)).validate()
