"""The whole engine on ONNX Runtime with random weights: no sentence's result depends on its neighbours.

Random weights are the hard case: many tokens are nearly as probable as the best, and the smallest difference
in a score shows. Scores are compared too, bit by bit.
"""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from server.engine.dispatch.dispatcher import Dispatcher
from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import Hypothesis
from server.runtime.model_runtime import ModelRuntime
from tests.server import random_bundle
from tests.server.engine.pools import thread_engine

WAIT_S = 60.0


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> ModelRuntime:
    directory: Path = tmp_path_factory.mktemp("random")
    return ModelRuntime(directory, random_bundle.write(directory))


@pytest.fixture
def pool(runtime: ModelRuntime) -> Iterator[Dispatcher]:
    pool = thread_engine(runtime, EngineLimits(max_rows=24, max_queue_tokens=100_000), workers=2)
    yield pool
    pool.close(WAIT_S)


def mixed_sources(count: int) -> list[list[int]]:
    draw = np.random.default_rng(7)
    lengths = np.minimum(draw.geometric(0.06, count), random_bundle.LONGEST - 1)
    return [
        [*draw.integers(4, random_bundle.VOCABULARY, length).tolist(), random_bundle.EOS]
        for length in lengths
    ]


def translate(
    pool: Dispatcher, name: str, sources: list[list[int]], options: DecodingOptions
) -> list[tuple[Hypothesis, ...]]:
    return [future.result(WAIT_S).hypotheses for future in pool.submit(name, sources, options)]


@pytest.mark.parametrize(("width", "count"), [(1, 1000), (2, 150), (4, 150)])
def test_sentences_alone_and_in_any_batch_are_the_same_to_the_last_bit(
    pool: Dispatcher, width: int, count: int
) -> None:
    sources = mixed_sources(count)
    options = DecodingOptions(
        beam_size=width, num_hypotheses=width, return_scores=True, max_decoding_length=40
    )
    alone = [translate(pool, str(n), [source], options)[0] for n, source in enumerate(sources)]
    assert translate(pool, "all at once", sources, options) == alone
    order = np.random.default_rng(1).permutation(count)
    for size in (3, 17):
        some = order[: 60 // size * size].reshape(-1, size)
        for number, chosen in enumerate(some.tolist()):
            found = translate(pool, f"{size}: {number}", [sources[n] for n in chosen], options)
            assert found == [alone[n] for n in chosen]
    lengths = {len(hypotheses[0].tokens) for hypotheses in alone}
    assert len(lengths) > 5  # they end at different steps


def test_widths_side_by_side_do_not_matter_to_each_other(pool: Dispatcher) -> None:
    sources = mixed_sources(60)
    options = [DecodingOptions(beam_size=width, max_decoding_length=30) for width in (1, 2, 4)]
    alone = [translate(pool, "alone", sources, one) for one in options]
    submitted = [pool.submit(f"width {one.beam_size}", sources, one) for one in options]
    together = [[future.result(WAIT_S).hypotheses for future in futures] for futures in submitted]
    assert together == alone


def test_greedy_is_a_beam_of_one(pool: Dispatcher, runtime: ModelRuntime) -> None:
    """The best first token of a wide beam has greedy's score at the first step."""
    sources = mixed_sources(20)
    greedy = translate(pool, "g", sources, DecodingOptions(return_scores=True, max_decoding_length=1))
    beam = translate(pool, "b", sources, DecodingOptions(beam_size=4, max_decoding_length=1))
    for one, other in zip(greedy, beam, strict=True):
        assert one[0].tokens == other[0].tokens
        assert one[0].score == pytest.approx(other[0].score, abs=1e-5)


def test_memory_is_given_back_and_bounded(pool: Dispatcher, runtime: ModelRuntime) -> None:
    options = DecodingOptions(max_decoding_length=random_bundle.LONGEST)
    translate(pool, "long", [[7] * random_bundle.LONGEST] * 50, options)
    spec = runtime.spec
    per_position = 2 * spec.decoder_layers * spec.decoder_heads * spec.head_size * 4
    most = 2 * 24 * per_position * (spec.max_target_tokens + spec.max_source_tokens + 1)
    assert 0 < pool.stats().kv_cache_bytes <= most


def test_a_closed_pool_lets_the_model_go_at_once(tmp_path: Path) -> None:
    """Without waiting for the collector: a model that is replaced must not stay beside the new one."""
    runtime = ModelRuntime(tmp_path, random_bundle.write(tmp_path))
    pool = thread_engine(runtime, EngineLimits(), workers=2)
    gone = [weakref.ref(runtime), weakref.ref(runtime._decoders[1])]
    translate(pool, "a", mixed_sources(5), DecodingOptions(max_decoding_length=5))
    gc.disable()
    try:
        pool.close(WAIT_S)
        del runtime
        assert [reference() for reference in gone] == [None, None]
    finally:
        gc.enable()
    assert pool.stats().rows_busy == 0
