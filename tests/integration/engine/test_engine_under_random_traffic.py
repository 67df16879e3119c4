"""Worker threads over ONNX Runtime under random traffic, against a reference that decodes sentences alone.

The reference knows no batch, no arena that others share and no cache that survives a step: it recomputes a
target from its first position for every token, and searches with plain lists.
"""

import functools
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from server.engine.kv_cache.arena import Arena
from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.errors import AbortedError
from server.runtime.model_runtime import ModelRuntime
from tests.server import random_bundle
from tests.server.engine import fakes, slow
from tests.server.engine.pools import thread_engine
from tests.support.examples import examples

Ids = tuple[int, ...]
WAIT_S = 60.0
LONGEST = 10

# The slow search has the fakes' ids for the end and the start; the random bundle's are the same.
assert (fakes.EOS, fakes.START) == (random_bundle.EOS, 2)

options = st.builds(
    lambda width, hypotheses, shortest, prefix, **others: DecodingOptions(
        beam_size=width,
        num_hypotheses=min(hypotheses, width),
        min_decoding_length=shortest,
        max_decoding_length=LONGEST,
        target_prefix=prefix,
        **others,
    ),
    width=st.sampled_from([1, 1, 2, 4]),
    hypotheses=st.integers(1, 4),
    shortest=st.sampled_from([0, 0, 4]),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0]),
    early_stopping=st.sampled_from([None, None, False, True, "never"]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.3]),
    no_repeat_ngram_size=st.sampled_from([0, 0, 1, 2]),
    prefix=st.sampled_from([(), (), (7,), (9, 8, 7)]),
    return_scores=st.booleans(),  # without them a sentence that is alone goes several steps at once
    sampling_topk=st.sampled_from([1, 1, 1, 0, 5]),
    sampling_topp=st.sampled_from([1.0, 0.8]),
    sampling_temperature=st.sampled_from([1.0, 0.7]),
    seed=st.integers(0, 2),
)
# Few different sentences, so that the reference can remember what it has computed.
sentences = st.sampled_from(
    [
        tuple(np.random.default_rng(n).integers(4, random_bundle.VOCABULARY, n).tolist())
        for n in (1, 3, 8, 20, 45)
    ]
)
requests = st.lists(
    st.tuples(
        st.lists(sentences, min_size=1, max_size=6),
        options,
        st.sampled_from(["wait", "go on", "go on", "abort", "cancel some", "abort an older one"]),
    ),
    min_size=1,
    max_size=8,
)


class Traffic:
    """A pool that many examples share, and the reference."""

    def __init__(self, runtime: ModelRuntime) -> None:
        self.runtime = runtime
        self.pool = thread_engine(runtime, EngineLimits(max_rows=12, max_batch_tokens=60), workers=2)
        self.names = map(str, range(10**9))
        self.compared = 0

    @functools.lru_cache(maxsize=200_000)  # noqa: B019 - one object for the whole module
    def scores(self, width: int, source: Ids, target: Ids) -> NDArray[np.float32]:
        """Scores [V] after `target`, from one sentence alone in an arena of its own."""
        arena = Arena(self.runtime.spec, width, 1)
        lengths = np.array([len(source)], np.int32)
        arena.admit(list(self.runtime.encoder.encode(np.array([source], np.int64), lengths)), lengths)
        decoder = self.decoder(width)
        for token in target:
            arena.input_ids[:] = token
            arena.prepare_step()
            decoder.step(arena.buffers(0, 1))
            arena.finish_step()
        return arena.logits[0].copy()

    @functools.cache  # noqa: B019
    def decoder(self, width: int):  # type: ignore[no-untyped-def]
        return self.runtime.decoder(width)

    @functools.lru_cache(maxsize=10_000)  # noqa: B019
    def alone(self, source: Ids, chosen: DecodingOptions) -> list[tuple[Ids, float]]:
        language = functools.partial(self.scores, chosen.beam_size)
        return [(h.tokens, h.score) for h in slow.decode(language, source, chosen, random_bundle.LONGEST)]

    def check(self, source: Ids, chosen: DecodingOptions, result: SequenceResult) -> None:
        expected = self.alone(source, chosen)
        assert [h.tokens for h in result.hypotheses] == [tokens for tokens, _ in expected]
        if chosen.return_scores or chosen.beam_size > 1:
            assert [h.score for h in result.hypotheses] == pytest.approx(
                [score for _, score in expected], abs=1e-4
            )
        self.compared += 1


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    directory: Path = tmp_path_factory.mktemp("random")
    traffic = Traffic(ModelRuntime(directory, random_bundle.write(directory)))
    yield traffic
    traffic.pool.close(WAIT_S)
    assert traffic.compared > 100


@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(requests=requests)
def test_any_traffic_gives_the_tokens_of_a_sentence_alone(
    traffic: Traffic, requests: list[tuple[list[Ids], DecodingOptions, str]]
) -> None:
    pending: list[tuple[str, Ids, DecodingOptions, Future[SequenceResult]]] = []
    unwanted: set[str] = set()
    for sources, chosen, then in requests:
        name = next(traffic.names)
        futures = traffic.pool.submit(name, sources, chosen)
        pending += [(name, source, chosen, future) for source, future in zip(sources, futures, strict=True)]
        if then == "wait":
            futures[0].result(WAIT_S)
        elif then == "abort":
            traffic.pool.abort(name)
            unwanted.add(name)
        elif then == "abort an older one":
            traffic.pool.abort(pending[0][0])
            unwanted.add(pending[0][0])
        elif then == "cancel some":
            for future in futures[::2]:
                future.cancel()
    for name, source, chosen, future in pending:
        try:
            result = future.result(WAIT_S)
        except CancelledError:
            assert future.cancelled()
        except AbortedError:
            assert name in unwanted
        else:
            traffic.check(source, chosen, result)


def test_a_sentence_with_options_has_the_same_bits_alone_and_among_others(traffic: Traffic) -> None:
    """Scores too, and with every kind of neighbour in the same arena."""
    draw = np.random.default_rng(0)
    sources = [
        tuple(draw.integers(4, random_bundle.VOCABULARY, draw.integers(2, 40)).tolist()) for _ in range(24)
    ]
    for width in (1, 4):
        kinds = [
            DecodingOptions(
                beam_size=width, num_hypotheses=width, return_scores=True, max_decoding_length=30
            ),
            DecodingOptions(
                beam_size=width, return_scores=True, repetition_penalty=1.2, no_repeat_ngram_size=2
            ),
            DecodingOptions(
                beam_size=width, num_hypotheses=width, sampling_topk=0, return_scores=True, seed=4
            ),
            DecodingOptions(beam_size=width, sampling_topk=9, sampling_topp=0.9, return_scores=True, seed=4),
            DecodingOptions(
                beam_size=width, early_stopping="never", min_decoding_length=5, return_scores=True
            ),
            DecodingOptions(
                beam_size=width, target_prefix=(8, 9), return_scores=True, max_decoding_length=12
            ),
        ]
        each = [kinds[n % len(kinds)] for n in range(len(sources))]
        alone = [
            traffic.pool.submit(f"alone {n}", [source], one)[0].result(WAIT_S).hypotheses
            for n, (source, one) in enumerate(zip(sources, each, strict=True))
        ]
        for order in (range(24), draw.permutation(24).tolist()):
            futures = traffic.pool.submit("all", [sources[n] for n in order], [each[n] for n in order])
            assert [future.result(WAIT_S).hypotheses for future in futures] == [alone[n] for n in order]
