"""Few sentences of a beam search go several steps at once, and nobody can tell but by the clock."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.engine.worker import batch
from server.errors import DragomanError, InferenceError
from tests.server.engine.bench import Bench, decoded
from tests.server.engine.fakes import (
    VOCABULARY,
    FakeRuntime,
    babble,
    recite,
    sentence,
)
from tests.support.examples import examples

Sources = list[tuple[int, ...]]


class Few:
    """An engine with some sentences, and a clock that stands still."""

    def __init__(self, runtime: FakeRuntime, sources: Sources, *options: DecodingOptions) -> None:
        runtime.has_multi_step = True
        bench = Bench(runtime, EngineLimits(max_rows=40))
        self.runtime, self.observer, self.stop = runtime, bench.observer, bench.interrupt
        self.sentences = [
            sentence(source, options[n % len(options)], request=str(n)) for n, source in enumerate(sources)
        ]
        self.engine = bench.engine
        bench.add(*self.sentences)
        bench.step()

    def results(self, stops: tuple[bool, ...] = (), *, multi_step: bool = True) -> list[SequenceResult]:
        found = self.outcomes(stops, multi_step=multi_step)
        assert all(isinstance(each, SequenceResult) for each in found)
        return found

    def outcomes(
        self, stops: tuple[bool, ...] = (), *, multi_step: bool = True
    ) -> list[SequenceResult | DragomanError]:
        wanted = iter(stops)
        found = {}
        while self.engine.rows:
            self.stop[...] = next(wanted, False)
            found |= {end.sequence: end.result for end in decoded(self.engine, multi_step=multi_step)}
        return [found[one] for one in self.sentences]

    @property
    def asked(self) -> list[tuple[int, int]]:
        return [asked for multi_step in self.runtime.beam_multi_steps for asked in multi_step.asked]


def test_one_run_makes_all_steps_up_to_the_one_in_which_a_sentence_may_be_done() -> None:
    few = Few(FakeRuntime(recite), [tuple(range(7, 27))], DecodingOptions(beam_size=4, length_penalty=0))
    decoded(few.engine)  # how long a step takes is known
    (result,) = few.results()
    assert result.hypotheses[0].tokens == tuple(range(7, 27))
    (multi_step,) = few.runtime.beam_multi_steps
    assert multi_step.made == [20]
    assert few.observer.steps == [(4, 36)] * 21


def test_the_last_step_is_a_single_one() -> None:
    few = Few(FakeRuntime(babble), [(7, 8)], DecodingOptions(beam_size=2, max_decoding_length=9, patience=9))
    decoded(few.engine)
    few.results()
    assert max(steps for _, steps in few.asked) == 7
    assert len(few.observer.steps) == 9


@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(beam_size=2, repetition_penalty=1.1),
        DecodingOptions(beam_size=2, no_repeat_ngram_size=3),
        DecodingOptions(beam_size=2, num_hypotheses=2, sampling_topk=0),
        DecodingOptions(beam_size=2, early_stopping=False, min_decoding_length=40, max_decoding_length=40),
    ],
)
def test_what_wants_more_than_the_best_words_makes_single_steps(options: DecodingOptions) -> None:
    few = Few(FakeRuntime(babble), [(7, 8, 9)], options)
    few.results()
    assert few.asked == []


def test_sentences_of_which_some_must_not_end_yet_make_single_steps() -> None:
    few = Few(
        FakeRuntime(babble),
        [(7, 8, 9), (9, 8)],
        DecodingOptions(beam_size=2, min_decoding_length=6),
        DecodingOptions(beam_size=2, min_decoding_length=30, max_decoding_length=30),
    )
    few.results()
    together = [steps for count, steps in few.asked if count == 2]
    assert together == [5]  # as long as neither must end, the first step being a single one


ROW_BYTES = 2 * 2 * 2 * 3 * 4
"""Of one position of one row: keys and values, layers, heads, their size, float32."""


@pytest.mark.parametrize(("positions", "most"), [(2, 1), (20, 4)])
def test_many_rows_make_single_steps(monkeypatch: pytest.MonkeyPatch, positions: int, most: int) -> None:
    monkeypatch.setattr(batch, "BEAM_MULTI_STEP_BYTES", 16 * ROW_BYTES * positions)
    sources = [tuple(range(7, 7 + n)) for n in (2, 2, 2, 4)]
    few = Few(FakeRuntime(recite), sources, DecodingOptions(beam_size=4, length_penalty=0))
    few.results()
    assert max(count for count, _ in few.asked) == most


def test_long_targets_make_single_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "BEAM_MULTI_STEP_BYTES", 4 * ROW_BYTES * 12)
    few = Few(FakeRuntime(recite), [tuple(range(7, 27))], DecodingOptions(beam_size=4, length_penalty=0))
    decoded(few.engine)
    few.results()
    (multi_step,) = few.runtime.beam_multi_steps
    assert multi_step.made == [11], "up to 12 positions, the first one with a single step"
    assert len(few.observer.steps) == 21


def test_two_widths_at_a_time_make_single_steps() -> None:
    few = Few(
        FakeRuntime(recite), [(7, 8, 9)] * 2, DecodingOptions(beam_size=2), DecodingOptions(beam_size=3)
    )
    decoded(few.engine, multi_step=True)
    assert few.asked == []


def test_a_vocabulary_that_is_too_small_makes_single_steps() -> None:
    runtime = FakeRuntime(babble)
    never = tuple(range(10, VOCABULARY))
    runtime.spec = dataclasses.replace(runtime.spec, suppressed_ids=never)
    few = Few(runtime, [(7, 8, 9)], DecodingOptions(beam_size=8, max_decoding_length=6))
    few.results()
    assert few.asked == []


def test_a_runtime_may_refuse() -> None:
    few = Few(FakeRuntime(recite), [(7, 8, 9)], DecodingOptions(beam_size=4))
    few.runtime.beam_multi_steps[0].refuses = True
    assert few.results()[0].hypotheses[0].tokens == (7, 8, 9)


def test_a_run_that_fails_is_tried_step_by_step_and_only_the_bad_sentence_fails() -> None:
    few = Few(FakeRuntime(recite), [(7, 8, 9), (11, 12, 13, 14)], DecodingOptions(beam_size=4))
    for decoder in few.runtime.decoders:
        decoder.poison = 8
    bad, good = few.outcomes()
    assert isinstance(bad, InferenceError)
    assert good.hypotheses[0].tokens == (11, 12, 13, 14)
    assert few.engine.rows == 0


def test_a_sentence_whose_scores_are_no_numbers_fails_and_its_neighbour_does_not() -> None:
    def sickly(source: tuple[int, ...], target: tuple[int, ...]) -> np.ndarray:
        scores = recite(source, target)
        return np.full_like(scores, np.nan) if source[0] == 7 and len(target) == 3 else scores

    few = Few(FakeRuntime(sickly), [(7, 8, 9, 10, 11), (11, 12, 13, 14)], DecodingOptions(beam_size=4))
    bad, good = few.outcomes()
    assert "not finite" in str(bad)
    assert good.hypotheses[0].tokens == (11, 12, 13, 14)


options = st.builds(
    lambda hypotheses, longest, shortest, **others: DecodingOptions(
        num_hypotheses=hypotheses,
        max_decoding_length=longest,
        min_decoding_length=min(shortest, longest),
        **others,
    ),
    hypotheses=st.integers(1, 2),
    longest=st.integers(1, 60),
    shortest=st.sampled_from([0, 0, 0, 3, 9]),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0]),
    patience=st.sampled_from([1.0, 2.0]),
    early_stopping=st.sampled_from([None, None, False, True, "never"]),
    target_prefix=st.sampled_from([(), (), (7,)]),
    required=st.sampled_from([(), (), ((60, 61), (62,))]),
)

source = st.lists(st.integers(5, 30), min_size=1, max_size=12).map(tuple)


@settings(max_examples=examples(60), deadline=None)
@given(
    sources=st.lists(
        st.lists(st.integers(5, 30), min_size=1, max_size=12).map(tuple), min_size=1, max_size=4
    ),
    width=st.sampled_from([2, 3, 4]),
    chosen=st.lists(options, min_size=1, max_size=2),
    stops=st.lists(st.booleans(), max_size=20).map(tuple),
)
def test_any_sentences_have_the_translations_of_single_steps(
    sources: Sources, width: int, chosen: list[DecodingOptions], stops: tuple[bool, ...]
) -> None:
    own = [dataclasses.replace(one, beam_size=width) for one in chosen]
    single, several = (Few(FakeRuntime(babble), sources, *own) for _ in range(2))
    expected = single.results(multi_step=False)
    found = several.results(stops)
    assert [(one.hypotheses, one.finish_reason) for one in found] == [
        (one.hypotheses, one.finish_reason) for one in expected
    ]
    assert len(several.observer.steps) == len(single.observer.steps)
