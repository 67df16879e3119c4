"""A sentence that is alone goes several steps at once, and nobody can tell but by the clock."""

import dataclasses
from concurrent.futures import Future

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.engine.engine import BURST_S, Engine, Outcome
from server.engine.sequence import DecodingOptions, EngineLimits, SequenceResult
from server.engine.worker import WorkerPool
from server.errors import AbortedError, InferenceError
from tests.examples import examples

from .fakes import EOS, Clock, FakeBurst, FakeRuntime, babble, from_line, line, ramble, recite, sentence
from .test_engine import Spy


class Lone:
    """An engine that may go on alone, a single sentence, and a clock that stands still."""

    def __init__(
        self, runtime: FakeRuntime, options: DecodingOptions | None = None, tokens: int = 20
    ) -> None:
        runtime.has_bursts = True
        self.runtime = runtime
        self.observer = Spy()
        self.clock = Clock()
        self.stop = np.zeros((), np.int64)
        self.line = line(sentence(range(7, 7 + tokens), options))
        take = from_line(self.line, self.clock)
        self.engine = Engine(
            runtime, EngineLimits(max_rows=8), take, self.observer, self.clock, stop=self.stop
        )
        self.outcomes = self.engine.step() + self.engine.decode()  # it starts; how long a step takes is known

    @property
    def burst(self) -> FakeBurst:
        (burst,) = self.runtime.bursts
        return burst

    def go_on(self) -> Outcome:
        while not self.outcomes:
            self.outcomes = self.engine.decode(bursts=True)
        (outcome,) = self.outcomes
        return outcome

    def tokens(self) -> tuple[int, ...]:
        result = self.go_on().result
        assert isinstance(result, SequenceResult)
        return result.hypotheses[0].tokens


def test_one_run_makes_all_steps_that_are_left_up_to_the_end_token() -> None:
    lone = Lone(FakeRuntime(recite))
    assert lone.tokens() == tuple(range(7, 27))
    assert lone.burst.made == [20]
    assert lone.observer.steps == [(1, 7)] * 21


def test_a_sentence_that_starts_alone_makes_no_single_step() -> None:
    lone = Lone(FakeRuntime(recite))
    lone.tokens()
    decoder = lone.runtime.decoders[0]  # the second one makes the bursts
    before = len(decoder.rows)
    lone.line.add([sentence(range(7, 27), request="the next")])
    assert lone.engine.step() == []
    assert lone.engine.step(bursts=True) != []
    assert lone.burst.made[-1] == 21
    assert len(decoder.rows) == before


def test_who_comes_while_the_first_is_encoded_starts_before_anything_is_decoded() -> None:
    lone = Lone(FakeRuntime(recite))
    lone.tokens()
    lone.line.add([sentence((8, 9), request="a")])
    lone.engine.step()
    lone.line.add([sentence((7, 8, 9), request="b")])
    lone.engine.step(bursts=True)
    assert lone.runtime.decoders[0].rows[-1] == 2
    assert len(lone.burst.asked) == 1  # of the first sentence


def test_caches_grow_when_they_must_and_not_before() -> None:
    lone = Lone(FakeRuntime(ramble), DecodingOptions(max_decoding_length=80))
    assert len(lone.tokens()) == 80
    assert lone.burst.made == [31, 31, 15]  # 32 and 64 positions; a single step makes them grow


def test_steps_are_as_many_as_fit_into_the_time() -> None:
    runtime = FakeRuntime(ramble)
    lone = Lone(runtime, DecodingOptions(max_decoding_length=30))

    def take_time() -> None:
        lone.clock.now_s += BURST_S / 4.5

    for decoder in runtime.decoders:
        decoder.before = take_time
    lone.engine.decode()  # how long a step takes is known from the last one
    assert len(lone.tokens()) == 30
    assert {steps for steps, _ in lone.burst.asked} == {4}
    assert set(lone.burst.made) == {4}


def test_a_model_of_slow_steps_makes_single_ones() -> None:
    runtime = FakeRuntime(recite)
    lone = Lone(runtime)
    for decoder in runtime.decoders:
        decoder.before = lambda: setattr(lone.clock, "now_s", lone.clock.now_s + BURST_S)
    lone.engine.decode()
    assert lone.tokens() == tuple(range(7, 27))
    assert lone.burst.asked == []


def test_whoever_wants_the_worker_ends_the_run_after_a_step() -> None:
    lone = Lone(FakeRuntime(recite))
    lone.stop[...] = 1
    assert lone.engine.decode(bursts=True) == []
    assert lone.burst.made == [1]
    lone.stop[...] = 0
    assert lone.tokens() == tuple(range(7, 27))


@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(return_scores=True),
        DecodingOptions(repetition_penalty=1.1),
        DecodingOptions(no_repeat_ngram_size=3),
        DecodingOptions(sampling_topk=0),
    ],
)
def test_what_must_look_at_every_score_makes_single_steps(options: DecodingOptions) -> None:
    lone = Lone(FakeRuntime(recite), options)
    assert isinstance(lone.go_on().result, SequenceResult)
    assert [burst.asked for burst in lone.runtime.bursts] in ([[]], [])


def test_a_sentence_goes_on_by_itself_behind_its_prefix() -> None:
    lone = Lone(FakeRuntime(recite), DecodingOptions(target_prefix=(7, 8, 9)))
    assert lone.tokens() == tuple(range(7, 27))
    assert lone.burst.made == [18]


def test_an_end_that_is_forced_is_left_to_a_single_step() -> None:
    runtime = FakeRuntime(ramble)
    runtime.spec = dataclasses.replace(runtime.spec, forced_end=True)
    lone = Lone(runtime, DecodingOptions(max_decoding_length=12))
    assert len(lone.tokens()) == 11
    assert lone.burst.made == [10]


def test_two_sentences_make_single_steps() -> None:
    runtime = FakeRuntime(recite)
    lone = Lone(runtime)
    lone.line.add([sentence((8, 9), request="another")])
    lone.engine.step()
    assert lone.engine.rows == 2
    lone.engine.decode(bursts=True)
    assert lone.burst.asked == []
    assert lone.engine.decode(bursts=True) != []  # (8, 9) has ended
    assert lone.tokens() == tuple(range(7, 27))
    assert lone.burst.asked != []


def test_a_runtime_may_refuse() -> None:
    lone = Lone(FakeRuntime(recite))
    lone.burst.refuses = True
    assert lone.tokens() == tuple(range(7, 27))


def test_a_run_that_fails_is_tried_step_by_step_and_the_sentence_fails_once() -> None:
    lone = Lone(FakeRuntime(recite))
    for decoder in lone.runtime.decoders:
        decoder.poison = 8
    outcome = lone.go_on()
    assert isinstance(outcome.result, InferenceError)
    assert lone.observer.errors == ["poison"]
    assert lone.engine.rows == 0


@settings(max_examples=examples(60))
@given(
    source=st.lists(st.integers(5, 30), min_size=1, max_size=12),
    shortest=st.integers(0, 12),
    longest=st.integers(12, 40),
    stops=st.lists(st.booleans(), max_size=20),
)
def test_any_sentence_has_the_tokens_and_the_end_of_single_steps(
    source: list[int], shortest: int, longest: int, stops: list[bool]
) -> None:
    options = DecodingOptions(min_decoding_length=shortest, max_decoding_length=longest)
    results = []
    for bursts in (False, True):
        runtime = FakeRuntime(babble)
        runtime.has_bursts = bursts
        stop, observer, clock = np.zeros((), np.int64), Spy(), Clock()
        waiting = line(sentence(source, options))
        engine = Engine(
            runtime, EngineLimits(max_rows=4), from_line(waiting, clock), observer, clock, stop=stop
        )
        outcomes = engine.step()
        wanted = iter(stops)
        while not outcomes:
            stop[...] = next(wanted, False)
            outcomes = engine.decode(bursts=True)
        result = outcomes[0].result
        assert isinstance(result, SequenceResult)
        results.append((result.hypotheses, result.finish_reason, len(observer.steps)))
    assert results[0] == results[1]
    assert EOS not in results[1][0][0].tokens


def test_a_pool_ends_a_burst_when_somebody_comes_or_goes() -> None:
    """The fake decoder's steps bring the news themselves, in the middle of a run."""
    runtime = FakeRuntime(ramble, max_target_tokens=400)
    runtime.has_bursts = True
    pool = WorkerPool(runtime, EngineLimits(max_rows=4, max_target_tokens=400))
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
    (first,) = pool.submit("first", [[7]], DecodingOptions(max_decoding_length=400))
    pool.start()
    try:
        with pytest.raises(AbortedError):
            first.result(30.0)
        assert len(later[0].result(30.0).hypotheses[0].tokens) == 3
    finally:
        pool.close(5.0)
    assert steps < 70
    assert any(made > 1 for burst in runtime.bursts for made in burst.made)
