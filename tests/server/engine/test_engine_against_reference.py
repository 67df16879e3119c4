"""The engine against the slow reference: the same translations whatever the traffic."""

import dataclasses
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions, fit_together
from server.engine.sequence import Sequence as Sentence
from server.engine.sequence import SequenceResult
from server.errors import AbortedError
from tests.server.engine import slow
from tests.server.engine.bench import Bench
from tests.server.engine.fakes import FakeRuntime, babble, sentence
from tests.support.examples import examples

LIMIT = 80

SUPPRESSED = (0, 17, 55)
required = st.one_of(
    st.just(()),
    st.just(()),
    st.lists(st.lists(st.integers(4, 20), min_size=1, max_size=4).map(tuple), max_size=4)
    .map(tuple)
    .filter(fit_together),
)
options = st.builds(
    lambda width, hypotheses, longest, shortest, prefix, models, **others: DecodingOptions(
        beam_size=width,
        num_hypotheses=min(hypotheses, width),
        max_decoding_length=longest,
        min_decoding_length=min(shortest, longest),
        target_prefix=prefix[:longest],
        model_prefix_tokens=min(models, len(prefix), longest),
        **others,
    ),
    width=st.sampled_from([1, 1, 2, 3, 4]),
    hypotheses=st.integers(1, 4),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    longest=st.integers(1, 100),
    shortest=st.integers(0, 10),
    return_scores=st.booleans(),
    patience=st.sampled_from([1.0, 1.0, 2.0]),
    early_stopping=st.sampled_from([None, None, False, True, "never"]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.3, 0.7]),
    no_repeat_ngram_size=st.sampled_from([0, 0, 1, 2, 3]),
    prefix=st.one_of(st.just(()), st.lists(st.integers(4, 95), max_size=5).map(tuple)),
    models=st.sampled_from([0, 0, 1, 5]),
    sampling_topk=st.sampled_from([1, 1, 1, 0, 3, 20]),
    sampling_topp=st.sampled_from([1.0, 0.8]),
    sampling_temperature=st.sampled_from([1.0, 0.5, 2.0]),
    seed=st.integers(0, 3),
    required=required,
)
sources = st.lists(st.integers(4, 95), min_size=1, max_size=70).map(tuple)
arrivals = st.lists(
    st.tuples(st.integers(0, 40), sources, options, st.one_of(st.none(), st.integers(0, 60))),
    min_size=1,
    max_size=14,
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(arrivals=arrivals, max_rows=st.integers(4, 12))
def test_any_traffic_gives_every_sentence_its_own_translation(
    arrivals: list[tuple[int, tuple[int, ...], DecodingOptions, int | None]], max_rows: int
) -> None:
    runtime = FakeRuntime(max_target_tokens=LIMIT)
    runtime.spec = dataclasses.replace(runtime.spec, suppressed_ids=SUPPRESSED)
    bench = Bench(runtime, EngineLimits(max_rows=max_rows, max_batch_tokens=60))
    clock, engine = bench.clock, bench.engine
    sentences: list[tuple[int, Sentence, int | None]] = [
        (step, sentence(source, chosen, request=str(number % 3), at_s=clock()), abort)
        for number, (step, source, chosen, abort) in enumerate(arrivals)
    ]
    outcomes: dict[Sentence, object] = {}
    for step in itertools.count():
        clock.now_s += 0.01
        for arrival, one, abort in sentences:
            if arrival == step:
                bench.add(one)
            if abort is not None and arrival + abort == step:
                one.aborted = True
        for outcome in bench.step():
            assert outcome.sequence not in outcomes
            outcomes[outcome.sequence] = outcome.result
        assert engine.rows <= max_rows
        if step > 100 and not engine.rows and not bench.waiting:
            break
        assert step < 5000
    for _, one, _ in sentences:
        result = outcomes.get(one)
        if one.aborted and not isinstance(result, SequenceResult):
            assert result is None or isinstance(result, AbortedError)
            continue
        assert isinstance(result, SequenceResult)
        expected = slow.decode(babble, one.source, one.options, LIMIT, SUPPRESSED)
        assert [h.tokens for h in result.hypotheses] == [h.tokens for h in expected]
        longest = min(one.options.max_decoding_length, LIMIT) - len(one.options.target_prefix)
        if longest >= sum(map(len, one.options.required)):
            for each in itertools.product(result.hypotheses, one.options.required):
                assert slow.occurrences(list(each[0].tokens), each[1]) == 1
        if one.options.beam_size > 1 or one.options.return_scores:
            assert [h.score for h in result.hypotheses] == pytest.approx(
                [h.score for h in expected], abs=1e-5
            )
        else:
            assert result.hypotheses[0].score == 0.0
