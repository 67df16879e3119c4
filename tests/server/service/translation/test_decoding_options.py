from dataclasses import replace
from typing import Any

import pytest

from export.bundle import Generation
from server.engine.options import DecodingOptions
from server.errors import InvalidOptionError, InvalidRequestError, TextTooLongError, TooManyTextsError
from server.service.request_limits import RequestLimits, check_texts, check_tokens
from server.service.text.jobs import ModelInput
from server.service.translation import decoding_options
from server.service.translation.decoding_options import choose_each, choose_options
from server.service.translation.request import RequestedOptions

LIMITS = RequestLimits(
    max_texts=3,
    max_text_chars=10,
    max_request_tokens=20,
    max_source_tokens=12,
    max_target_tokens=100,
    default_beam_size=1,
    max_beam_size=6,
    beam_widths=(1, 2, 4, 8),
)


def chosen(longest_source: int = 10, **stated: Any) -> DecodingOptions:
    return choose_options(RequestedOptions(**stated), LIMITS, longest_source)


def test_texts_within_the_limits_pass() -> None:
    check_texts(["", "x" * 10, "😀" * 10], LIMITS)


@pytest.mark.parametrize(
    ("texts", "error"),
    [([], InvalidRequestError), (["a"] * 4, TooManyTextsError), (["a", "x" * 11], TextTooLongError)],
)
def test_texts_over_a_limit_are_refused(texts: list[str], error: type[Exception]) -> None:
    with pytest.raises(error):
        check_texts(texts, LIMITS)


@pytest.mark.parametrize(("lengths", "fits"), [([], True), ([12, 8], True), ([13], False), ([12, 9], False)])
def test_tokens_are_counted_for_each_sentence_and_for_the_request(lengths: list[int], fits: bool) -> None:
    if fits:
        check_tokens(lengths, LIMITS)
    else:
        with pytest.raises(TextTooLongError):
            check_tokens(lengths, LIMITS)


def test_defaults() -> None:
    assert chosen() == DecodingOptions(beam_size=1, max_decoding_length=62)


def test_the_models_own_lengths_and_repetitions_are_what_a_request_that_does_not_choose_gets() -> None:
    own = Generation(min_decoding_length=20, no_repeat_ngram_size=3)
    limits = replace(LIMITS, generation=own)

    def found(**stated: Any) -> tuple[int, int]:
        options = choose_options(RequestedOptions(**stated), limits, 10)
        return options.min_decoding_length, options.no_repeat_ngram_size

    assert found() == (20, 3)
    assert found(max_decoding_length=8) == (8, 3), "no longer than the request allows"
    assert found(min_decoding_length=2, no_repeat_ngram_size=0) == (2, 0)


def test_the_default_length_follows_the_source_up_to_the_models_limit() -> None:
    assert chosen(longest_source=1).max_decoding_length == 35
    assert chosen(longest_source=50).max_decoding_length == 100
    assert chosen(longest_source=1, min_decoding_length=40).max_decoding_length == 40


@pytest.mark.parametrize(("hypotheses", "beam_size"), [(1, 1), (2, 2), (3, 4), (4, 4)])
def test_without_a_beam_size_the_narrowest_that_gives_enough_hypotheses_is_taken(
    hypotheses: int, beam_size: int
) -> None:
    options = chosen(num_hypotheses=hypotheses)
    assert (options.num_hypotheses, options.beam_size) == (hypotheses, beam_size)


@pytest.mark.parametrize(("hypotheses", "rows"), [(1, 1), (2, 2), (3, 4)])
def test_samples_take_the_fewest_rows_that_hold_them(hypotheses: int, rows: int) -> None:
    many = replace(LIMITS, default_beam_size=4)
    options = choose_options(
        RequestedOptions(sampling_topk=0, num_hypotheses=hypotheses, beam_size=1, seed=3), many, 10
    )
    assert (options.num_hypotheses, options.beam_size, options.seed) == (hypotheses, rows, 3)


def test_without_a_seed_every_request_has_its_own() -> None:
    assert chosen(sampling_topk=0).seed != chosen(sampling_topk=0).seed


def inputs_of(*lengths: int) -> list[ModelInput]:
    return [ModelInput((5,) * length) for length in lengths]


def test_what_a_sentence_must_hold_and_not_repeat_reaches_its_options_alone() -> None:
    inputs = [ModelInput((5,) * 4), ModelInput((5,) * 4, required=((7, 8),), no_repeat_ngram_size=3)]
    plain, strict = choose_each(RequestedOptions(), LIMITS, inputs)
    assert (plain.required, plain.no_repeat_ngram_size) == ((), 0)
    assert (strict.required, strict.no_repeat_ngram_size) == (((7, 8),), 3)
    (own,) = choose_each(RequestedOptions(no_repeat_ngram_size=2), LIMITS, inputs[1:])
    assert own.no_repeat_ngram_size == 2


def test_masks_that_the_engine_cannot_tell_apart_are_not_required() -> None:
    for masks in (((7, 8), (8, 9)), ((7,), (7, 8)), ((7,), (7,))):
        (options,) = choose_each(RequestedOptions(), LIMITS, [ModelInput((5,) * 4, required=masks)])
        assert options.required == ()


def test_every_sentence_gets_the_prefix_of_the_model_and_its_own() -> None:
    multilingual = replace(LIMITS, target_prefix=(7,))
    inputs = [ModelInput((5,) * 10), ModelInput((5,) * 10, begin=(8, 9))]
    found = choose_each(RequestedOptions(max_decoding_length=3), multilingual, inputs)
    assert isinstance(found, list)
    assert [one.target_prefix for one in found] == [(7,), (7, 8, 9)]
    assert [one.prompt_tokens for one in found] == [0, 3]
    shared = choose_each(RequestedOptions(), multilingual, inputs_of(9, 16))
    assert isinstance(shared, DecodingOptions)
    assert shared.target_prefix == (7,)
    with pytest.raises(InvalidOptionError, match="target_prefix has 2 tokens"):
        choose_each(RequestedOptions(max_decoding_length=2), multilingual, inputs)


def test_the_length_of_a_sentence_decides_and_not_that_of_its_neighbours() -> None:
    found = choose_each(RequestedOptions(), LIMITS, inputs_of(1, 8, 9, 20))
    assert isinstance(found, list)
    assert [one.max_decoding_length for one in found] == [56, 56, 80, 100]
    assert found[0] is found[1]
    alone = choose_each(RequestedOptions(), LIMITS, inputs_of(9))
    assert alone == found[2]
    assert choose_each(RequestedOptions(), LIMITS, []) == []


@pytest.mark.parametrize(
    ("stated", "repeatable"),
    [
        ({}, True),
        ({"beam_size": 4}, True),
        ({"sampling_topk": 0}, False),
        ({"sampling_topk": 5, "seed": 1}, True),
        ({"sampling_topk": 5, "sampling_temperature": 0}, True),
    ],
)
def test_what_is_drawn_without_a_seed_is_not_repeatable(stated: dict[str, Any], repeatable: bool) -> None:
    assert RequestedOptions(**stated).is_repeatable == repeatable


@pytest.mark.parametrize(
    "stated",
    [
        {"beam_size": 3},  # no graph
        {"beam_size": 8},  # a graph, but over the operator's limit
        {"beam_size": 0},
        {"beam_size": 10**9},
        {"beam_size": 2, "num_hypotheses": 3},
        {"num_hypotheses": 5},
        {"num_hypotheses": 0},
        {"max_decoding_length": 101},
        {"max_decoding_length": 0},
        {"min_decoding_length": 101},
        {"min_decoding_length": 5, "max_decoding_length": 4},
        {"min_decoding_length": -1},
        {"length_penalty": float("nan")},
        {"sampling_topk": 5, "beam_size": 4},
        {"sampling_topk": 5, "num_hypotheses": 5},
        {"sampling_topp": 0.5},
        {"sampling_temperature": 0.5, "sampling_topk": 1},
        {"sampling_topk": -1},
        {"beam_size": 2, "patience": 0.2},
        {"repetition_penalty": 0.0},
        {"no_repeat_ngram_size": -1},
    ],
)
def test_options_out_of_range_are_refused(stated: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError):
        chosen(**stated)


def test_what_was_chosen_is_remembered_within_bounds_and_never_with_text_or_chance() -> None:
    first = choose_options(RequestedOptions(), LIMITS, 10)
    assert choose_options(RequestedOptions(), LIMITS, 10) is first
    assert choose_options(RequestedOptions(), LIMITS, 11) != first
    assert choose_options(RequestedOptions(), replace(LIMITS, target_prefix=(7,)), 10) != first
    before = decoding_options._remembered.cache_info().currsize
    choose_options(RequestedOptions(target_prefixes=("Sehr geheim",)), LIMITS, 10)
    drawn = [choose_options(RequestedOptions(sampling_topk=0), LIMITS, 10).seed for _ in range(4)]
    assert len(set(drawn)) > 1
    assert decoding_options._remembered.cache_info().currsize == before
    for longest in range(5000):
        choose_options(RequestedOptions(length_penalty=longest / 1000), LIMITS, 10)
    assert decoding_options._remembered.cache_info().currsize <= 1024
