"""A few sentences go several steps at once, and nobody can tell but by the clock."""

import dataclasses
from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.engine.kv_cache.arena import FIRST_CAPACITY
from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import Outcome, SequenceResult
from server.engine.worker import batch
from server.engine.worker.engine import MULTI_STEP_S
from server.errors import AbortedError, InferenceError
from tests.server.engine.bench import Bench, decoded
from tests.server.engine.fakes import (
    FakeGreedyMultiStep,
    FakeRuntime,
    babble,
    ramble,
    recite,
    sentence,
)
from tests.server.engine.pools import thread_engine
from tests.support.examples import examples


class Lone:
    """An engine that may go on alone, a single sentence, and a clock that stands still."""

    def __init__(
        self, runtime: FakeRuntime, options: DecodingOptions | None = None, tokens: int = 20
    ) -> None:
        runtime.has_multi_step = True
        self.runtime = runtime
        self.bench = Bench(runtime)
        self.observer, self.clock, self.stop = self.bench.observer, self.bench.clock, self.bench.interrupt
        self.engine = self.bench.engine
        self.bench.add(sentence(range(7, 7 + tokens), options))
        self.outcomes = self.bench.step() + decoded(self.engine)  # it starts; how long a step takes is known

    @property
    def multi_step(self) -> FakeGreedyMultiStep:
        (multi_step,) = self.runtime.multi_steps
        return multi_step

    def go_on(self) -> Outcome:
        while not self.outcomes:
            self.outcomes = decoded(self.engine, multi_step=True)
        (outcome,) = self.outcomes
        return outcome

    def tokens(self) -> tuple[int, ...]:
        result = self.go_on().result
        assert isinstance(result, SequenceResult)
        return result.hypotheses[0].tokens


def test_one_run_makes_all_steps_that_are_left_up_to_the_end_token() -> None:
    lone = Lone(FakeRuntime(recite))
    assert lone.tokens() == tuple(range(7, 27))
    assert lone.multi_step.made == [20]
    assert lone.observer.steps == [(1, 7)] * 21


def test_a_sentence_that_starts_alone_makes_no_single_step() -> None:
    lone = Lone(FakeRuntime(recite))
    lone.tokens()
    decoder = lone.runtime.decoders[0]  # the second one makes several steps
    before = len(decoder.rows)
    lone.bench.add(sentence(range(7, 27), request="the next"))
    assert lone.bench.step() == []
    assert lone.bench.step(multi_step=True) != []
    assert lone.multi_step.made[-1] == 21
    assert len(decoder.rows) == before


def test_who_comes_while_the_first_is_encoded_starts_before_anything_is_decoded() -> None:
    lone = Lone(FakeRuntime(recite))
    lone.tokens()
    lone.bench.add(sentence((8, 9), request="a"))
    lone.bench.step()
    lone.bench.add(sentence((7, 8, 9), request="b"))
    lone.bench.step(multi_step=True)
    assert [count for count, _ in lone.multi_step.asked] == [1, 2]


def test_caches_grow_when_they_must_and_not_before() -> None:
    lone = Lone(FakeRuntime(ramble), DecodingOptions(max_decoding_length=80))
    assert len(lone.tokens()) == 80
    assert lone.multi_step.made == [31, 31, 15]  # 32 and 64 positions; a single step makes them grow


def test_steps_are_as_many_as_fit_into_the_time() -> None:
    runtime = FakeRuntime(ramble)
    lone = Lone(runtime, DecodingOptions(max_decoding_length=30))

    def take_time() -> None:
        lone.clock.now_s += MULTI_STEP_S / 4.5

    for decoder in runtime.decoders:
        decoder.before = take_time
    decoded(lone.engine)  # how long a step takes is known from the last one
    assert len(lone.tokens()) == 30
    assert {steps for _, steps in lone.multi_step.asked} == {4}
    assert set(lone.multi_step.made) == {4}


def test_a_model_of_slow_steps_makes_single_ones() -> None:
    runtime = FakeRuntime(recite)
    lone = Lone(runtime)
    for decoder in runtime.decoders:
        decoder.before = lambda: setattr(lone.clock, "now_s", lone.clock.now_s + MULTI_STEP_S)
    decoded(lone.engine)
    assert lone.tokens() == tuple(range(7, 27))
    assert lone.multi_step.asked == []


def test_an_interrupt_ends_the_run_after_a_step() -> None:
    lone = Lone(FakeRuntime(recite))
    lone.stop[...] = 1
    assert decoded(lone.engine, multi_step=True) == []
    assert lone.multi_step.made == [1]
    lone.stop[...] = 0
    assert lone.tokens() == tuple(range(7, 27))


@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(return_scores=True),
        DecodingOptions(repetition_penalty=1.1),
        DecodingOptions(no_repeat_ngram_size=3),
        DecodingOptions(required=((60, 61),)),
        DecodingOptions(sampling_topk=0),
    ],
)
def test_what_must_look_at_every_score_makes_single_steps(options: DecodingOptions) -> None:
    lone = Lone(FakeRuntime(recite), options)
    assert isinstance(lone.go_on().result, SequenceResult)
    assert [multi_step.asked for multi_step in lone.runtime.multi_steps] in ([[]], [])


def test_a_sentence_goes_on_by_itself_behind_its_prefix() -> None:
    lone = Lone(FakeRuntime(recite), DecodingOptions(target_prefix=(7, 8, 9)))
    assert lone.tokens() == tuple(range(7, 27))
    assert lone.multi_step.made == [18]


def test_an_end_that_is_forced_is_left_to_a_single_step() -> None:
    runtime = FakeRuntime(ramble)
    runtime.spec = dataclasses.replace(runtime.spec, forced_end=True)
    lone = Lone(runtime, DecodingOptions(max_decoding_length=12))
    assert len(lone.tokens()) == 11
    assert lone.multi_step.made == [10]


def test_a_run_of_several_sentences_ends_with_the_first_that_ends() -> None:
    lone = Lone(FakeRuntime(recite))
    lone.bench.add(sentence((8, 9, 10), request="another"))
    lone.bench.step()
    (outcome,) = decoded(lone.engine, multi_step=True)
    assert outcome.sequence.request_id == "another"
    assert lone.tokens() == tuple(range(7, 27))
    assert lone.multi_step.made == [3, 16]
    assert [count for count, _ in lone.multi_step.asked] == [2, 1]


def test_the_longest_length_of_one_of_them_ends_it_too() -> None:
    lone = Lone(FakeRuntime(ramble), DecodingOptions(max_decoding_length=30))
    lone.bench.add(sentence([8], DecodingOptions(max_decoding_length=9), request="another"))
    lone.bench.step()
    (outcome,) = decoded(lone.engine, multi_step=True)
    assert outcome.sequence.request_id == "another"
    assert len(lone.tokens()) == 30
    assert lone.multi_step.made == [8, 20]


def test_of_sentences_that_may_end_and_that_may_not_none_is_made_to_wait() -> None:
    lone = Lone(FakeRuntime(ramble), DecodingOptions(min_decoding_length=20, max_decoding_length=30))
    lone.bench.add(sentence([8], DecodingOptions(max_decoding_length=30), request="another"))
    lone.bench.step()
    assert lone.engine.rows == 2
    decoded(lone.engine, multi_step=True)
    assert lone.multi_step.asked == []


@pytest.mark.parametrize(("sentences", "together"), [(4, True), (5, False)])
def test_where_caches_and_scores_are_large_steps_are_single_ones(
    monkeypatch: pytest.MonkeyPatch, sentences: int, together: bool
) -> None:
    runtime = FakeRuntime(ramble)
    spec, positions = runtime.spec, 2 * FIRST_CAPACITY
    position = 2 * spec.decoder_layers * spec.decoder_heads * spec.head_size * spec.cache_dtype.itemsize
    monkeypatch.setattr(
        batch, "GREEDY_MULTI_STEP_BYTES", 4 * (positions * position + 4 * spec.vocabulary_size)
    )
    lone = Lone(runtime, DecodingOptions(max_decoding_length=20))
    others = [sentence([9], DecodingOptions(max_decoding_length=20)) for _ in range(sentences - 1)]
    lone.bench.add(*others)
    lone.bench.step()
    assert lone.engine.rows == sentences
    decoded(lone.engine, multi_step=True)
    assert [count for count, _ in lone.multi_step.asked] == ([sentences] if together else [])


def test_a_runtime_may_refuse() -> None:
    lone = Lone(FakeRuntime(recite))
    lone.multi_step.refuses = True
    assert lone.tokens() == tuple(range(7, 27))


def test_a_run_that_fails_is_tried_step_by_step_and_the_sentence_fails_once() -> None:
    lone = Lone(FakeRuntime(recite))
    for decoder in lone.runtime.decoders:
        decoder.poison = 8
    outcome = lone.go_on()
    assert isinstance(outcome.result, InferenceError)
    assert lone.observer.errors == ["poison"]
    assert lone.engine.rows == 0


OPTIONS = st.builds(
    DecodingOptions,
    min_decoding_length=st.sampled_from((0, 0, 0, 3, 12)),
    max_decoding_length=st.integers(12, 40),
    target_prefix=st.sampled_from(((), (), (7, 8))),
    required=st.sampled_from(((), (), ((60, 61), (62,)))),
    return_scores=st.sampled_from((False, False, False, True)),
)


@settings(max_examples=examples(100))
@given(
    sentences=st.lists(
        st.tuples(st.lists(st.integers(5, 30), min_size=1, max_size=12), OPTIONS, st.integers(0, 6)),
        min_size=1,
        max_size=6,
    ),
    stops=st.lists(st.booleans(), max_size=20),
    forced_end=st.booleans(),
)
def test_sentences_have_the_tokens_and_the_ends_of_single_steps(
    sentences: list[tuple[list[int], DecodingOptions, int]], stops: list[bool], forced_end: bool
) -> None:
    """However many there are, whenever they come, and whenever somebody ends a run."""
    results = []
    for multi_step in (False, True):
        runtime = FakeRuntime(babble)
        runtime.spec = dataclasses.replace(runtime.spec, forced_end=forced_end)
        runtime.has_multi_step = multi_step
        bench = Bench(runtime, EngineLimits(max_rows=4))
        found: dict[str, tuple[object, ...]] = {}
        wanted, rounds = iter(stops), 0
        while len(found) < len(sentences):
            for number, (source, options, when) in enumerate(sentences):
                if when == rounds:
                    bench.add(sentence(source, options, f"{number}"))
            rounds += 1
            outcomes = bench.step()
            bench.interrupt[...] = next(wanted, False)
            for outcome in outcomes + decoded(bench.engine, multi_step=True):
                assert isinstance(outcome.result, SequenceResult)
                found[outcome.sequence.request_id] = outcome.result.hypotheses, outcome.result.finish_reason
        results.append(found)
    assert results[0] == results[1]


def test_a_pool_ends_a_burst_when_somebody_comes_or_goes() -> None:
    """The fake decoder's steps bring the news themselves, in the middle of a run."""
    runtime = FakeRuntime(ramble, max_target_tokens=400)
    runtime.has_multi_step = True
    later: list[Future[SequenceResult]] = []
    steps = 0

    def bring_news() -> None:
        nonlocal steps
        steps += 1
        if steps == 20:
            later.extend(pool.submit("later", [[8, 9]], DecodingOptions(max_decoding_length=3)))
        if steps == 60:
            pool.abort("first")

    runtime.before_step = bring_news
    pool = thread_engine(runtime, EngineLimits(max_rows=4))
    (first,) = pool.submit("first", [[7]], DecodingOptions(max_decoding_length=400))
    try:
        with pytest.raises(AbortedError):
            first.result(30.0)
        assert len(later[0].result(30.0).hypotheses[0].tokens) == 3
    finally:
        pool.close(5.0)
    assert steps < 70
    assert any(made > 1 for multi_step in runtime.multi_steps for made in multi_step.made)
