"""The engine over a scripted model: who enters, who leaves, what fails alone."""

import numpy as np
import pytest

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import Outcome, SequenceResult
from server.errors import AbortedError, DeadlineExceededError, InferenceError
from tests.server.engine import slow
from tests.server.engine.bench import Bench
from tests.server.engine.fakes import (
    EOS,
    VOCABULARY,
    FakeRuntime,
    babble,
    ramble,
    recite,
    sentence,
)


def results(outcomes: list[Outcome]) -> dict[tuple[int, ...], object]:
    return {outcome.sequence.source: outcome.result for outcome in outcomes}


def test_a_sentence_goes_in_and_comes_out() -> None:
    bench = Bench(FakeRuntime(recite))
    one = sentence((7, 8, 9), at_s=90.0)
    bench.add(one)
    (outcome,) = bench.run()
    result = outcome.result
    assert outcome.sequence is one
    assert isinstance(result, SequenceResult)
    assert result.hypotheses[0].tokens == (7, 8, 9)
    assert (result.finish_reason, result.source_tokens, result.target_tokens) == ("eos", 3, 3)
    assert result.queue_s == pytest.approx(10.0)


def test_an_idle_engine_calls_no_model() -> None:
    bench = Bench(FakeRuntime(recite))
    assert bench.step() == []
    assert bench.runtime.encoder.shapes == []
    assert bench.observer.steps == []


def test_sentences_enter_and_leave_at_every_step() -> None:
    bench = Bench(FakeRuntime(recite), EngineLimits(max_rows=2))
    bench.add(sentence((7,) * 6, request="a"), sentence((8,), request="b"), sentence((9,), request="c"))
    bench.run()
    (decoder,) = bench.runtime.decoders
    # (8) ends after 2 steps and (9) takes its row while (7, ...) goes on.
    assert decoder.rows == [2, 2, 2, 2, 1, 1, 1]
    assert bench.observer.steps == [(2, 0)] * 4 + [(1, 1)] * 3


def test_decoding_goes_on_between_portions_of_source_tokens() -> None:
    limits = EngineLimits(max_rows=8, max_batch_tokens=10)  # two of them in a portion
    bench = Bench(FakeRuntime(recite), limits)
    bench.add(*(sentence((number,) * 5, request=str(number)) for number in range(5, 11)))
    bench.run()
    (decoder,) = bench.runtime.decoders
    assert decoder.rows == [4, 6, 6, 6, 6, 6, 2]


def test_rows_of_different_ages_decode_together() -> None:
    bench = Bench(FakeRuntime(babble), EngineLimits(max_rows=16))
    expected = {}
    outcomes = []
    for number in range(12):
        one = sentence(tuple(range(5, 8 + number)), request=str(number))
        expected[one.source] = slow.decode(babble, one.source, one.options, 512)[0].tokens
        bench.add(one)
        outcomes += bench.step()
    outcomes += bench.run()
    found = {source: result.hypotheses[0].tokens for source, result in results(outcomes).items()}
    assert found == expected


def test_decoding_always_ends() -> None:
    bench = Bench(FakeRuntime(ramble, max_target_tokens=40))
    bench.add(
        sentence((7,), DecodingOptions(max_decoding_length=12), request="a"),
        sentence((8,), DecodingOptions(max_decoding_length=10_000), request="b"),
        sentence((9,), DecodingOptions(max_decoding_length=10_000, beam_size=4), request="c"),
    )
    found = results(bench.run(steps=41))
    assert {source: result.target_tokens for source, result in found.items()} == {
        (7,): 12,
        (8,): 40,
        (9,): 40,
    }
    assert {result.finish_reason for result in found.values()} == {"length"}


def test_an_endless_minimum_still_ends() -> None:
    bench = Bench(FakeRuntime(recite, max_target_tokens=5))
    bench.add(sentence((7,), DecodingOptions(min_decoding_length=50, max_decoding_length=60)))
    (outcome,) = bench.run(steps=10)
    assert isinstance(outcome.result, SequenceResult)
    assert outcome.result.target_tokens == 5


def test_beam_widths_alternate_and_share_the_rows() -> None:
    bench = Bench(FakeRuntime(babble), EngineLimits(max_rows=8))
    sentences = [
        sentence((5 + n, 9), DecodingOptions(beam_size=width, max_decoding_length=9), request=str(n))
        for n, width in enumerate((1, 2, 4, 1, 2, 4, 3, 1))
    ]
    bench.add(*sentences)
    found = results(bench.run())
    for one in sentences:
        expected = [h.tokens for h in slow.decode(babble, one.source, one.options, 512)]
        assert [h.tokens for h in found[one.source].hypotheses] == expected
    assert all(busy + idle == 8 for busy, idle in bench.observer.steps)
    assert {decoder.width for decoder in bench.runtime.decoders} == {1, 2, 3, 4}


def test_abort_frees_the_rows_within_one_step() -> None:
    bench = Bench(FakeRuntime(ramble))
    doomed = [sentence((7, n), DecodingOptions(beam_size=1 + n % 2), request=str(n)) for n in range(4)]
    kept = sentence((9,), request="kept")
    bench.add(*doomed, kept)
    bench.step()
    assert bench.engine.rows == 7
    for one in doomed:
        one.aborted = True
    outcomes = bench.step()
    assert {outcome.sequence for outcome in outcomes} == set(doomed)
    assert all(isinstance(outcome.result, AbortedError) for outcome in outcomes)
    assert bench.engine.rows == 1


def test_a_deadline_passes_while_decoding() -> None:
    bench = Bench(FakeRuntime(ramble))
    bench.add(sentence((7,), deadline_s=101.0, request="a"), sentence((8,), request="b"))
    bench.step()
    bench.clock.now_s = 101.0
    (outcome,) = bench.step()
    assert isinstance(outcome.result, DeadlineExceededError)
    assert bench.engine.rows == 1


@pytest.mark.parametrize("count", [1, 2, 5, 8])
@pytest.mark.parametrize("where", ["encoder", "decoder"])
def test_a_poisonous_sentence_fails_alone(count: int, where: str) -> None:
    runtime = FakeRuntime(recite)
    if where == "encoder":
        runtime.encoder.poison = 66
    else:
        runtime.decoder_poison = 66
    bench = Bench(runtime)
    sentences = [sentence((7, 10 + n), request=str(n)) for n in range(count)]
    sentences[count // 2] = poison = sentence((7, 66), request="poison")
    bench.add(*sentences)
    found = results(bench.run())
    assert isinstance(found.pop(poison.source), InferenceError)
    assert {source: result.hypotheses[0].tokens for source, result in found.items()} == {
        one.source: one.source for one in sentences if one is not poison
    }
    assert bench.observer.errors.count("poison") == 1
    assert bench.observer.errors.count("run_failed") <= 3


def test_poison_in_a_beam_batch_leaves_the_others_exact() -> None:
    runtime = FakeRuntime(babble)
    runtime.decoder_poison = 66
    bench = Bench(runtime, EngineLimits(max_rows=24))
    options = DecodingOptions(beam_size=4, num_hypotheses=4)
    sentences = [sentence((7, 10 + n), options, request=str(n)) for n in range(5)]
    bench.add(*sentences, sentence((66,), options, request="poison"))
    found = results(bench.run())
    for one in sentences:
        expected = [h.tokens for h in slow.decode(babble, one.source, options, 512)]
        assert [h.tokens for h in found[one.source].hypotheses] == expected


def test_scores_that_are_not_numbers_fail_their_sentence_only() -> None:
    def half_broken(source: tuple[int, ...], target: tuple[int, ...]) -> np.ndarray:
        if 66 in source and len(target) == 3:
            return np.full(VOCABULARY, np.nan, np.float32)
        return recite(source, target)

    for width in (1, 2):
        bench = Bench(FakeRuntime(half_broken))
        options = DecodingOptions(beam_size=width)
        bench.add(sentence((7, 8, 66, 9), options, "bad"), sentence((7, 8, 9, 10), options, "good"))
        found = results(bench.run())
        assert isinstance(found[7, 8, 66, 9], InferenceError)
        assert found[7, 8, 9, 10].hypotheses[0].tokens == (7, 8, 9, 10)


def test_padding_and_tokens_are_reported() -> None:
    bench = Bench(FakeRuntime(recite))
    bench.add(sentence((7, 8, 9), request="a"), sentence((7,), request="b"))
    bench.step()
    assert bench.observer.encoded == [(2, 4, 2)]
    assert bench.runtime.encoder.shapes == [(2, 3)]


def test_cache_bytes_grow_and_shrink_with_the_arenas() -> None:
    bench = Bench(FakeRuntime(ramble))
    assert bench.engine.cache_bytes == 0
    bench.add(sentence((7,) * 300, DecodingOptions(max_decoding_length=3)))
    bench.step()
    large = bench.engine.cache_bytes
    bench.run()
    assert 0 < bench.engine.cache_bytes < large


def test_the_end_token_is_not_among_the_tokens() -> None:
    bench = Bench(FakeRuntime(babble), EngineLimits(max_rows=32))
    options = DecodingOptions(beam_size=4, num_hypotheses=4, max_decoding_length=20)
    bench.add(*[sentence((5, 6 + n), options, request=str(n)) for n in range(8)])
    for result in results(bench.run()).values():
        assert all(EOS not in hypothesis.tokens for hypothesis in result.hypotheses)
