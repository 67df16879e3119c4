"""What the sentence cache takes: memory, and time of the event loop."""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Sequence

import pytest

from server.engine.options import DecodingOptions
from server.engine.sequence import Hypothesis, SequenceResult
from server.service.translation.cached_decoding import CachedDecoder
from server.service.translation.sentence_cache import SentenceCache
from tests.server.fake_engine import FakeEngine, served_model


def filled(cache: SentenceCache, numbers: Sequence[int], tokens: int = 12, required: int = 0) -> None:
    """Put sentences in as requests do, each of which requires so many sequences of three tokens."""
    options = DecodingOptions()
    for number in numbers:
        if required:
            masks = tuple(tuple(10_000 * number + 3 * n + k for k in range(3)) for n in range(required))
            options = DecodingOptions(required=masks)
        ids = tuple(1000 * number + position for position in range(tokens))
        key = (f"{'ab' * 32}", options, ids)
        hypotheses = (Hypothesis(tuple(7 + one for one in ids), -float(number)),)
        cache.put(key, SequenceResult(hypotheses, "eos", tokens, tokens, 0.1, 0.2, 0.3))


def test_the_least_recently_used_make_room() -> None:
    cache = SentenceCache(10 * 1700)
    filled(cache, range(10))
    assert cache.stats().entries == 10
    keys = list(cache._entries)
    assert cache.find(keys[0]) is not None
    filled(cache, [10])
    stats = cache.stats()
    assert (stats.entries, stats.evictions) == (10, 1)
    assert cache.find(keys[0]) is not None
    assert cache.find(keys[1]) is None
    assert stats.entry_bytes <= 10 * 1700


def test_a_sentence_larger_than_the_cache_is_not_kept() -> None:
    cache = SentenceCache(10_000)
    filled(cache, [1])
    filled(cache, [2], tokens=200)
    assert (cache.stats().entries, cache.stats().evictions) == (1, 0)


@pytest.mark.parametrize(("tokens", "required"), [(4, 0), (30, 0), (200, 0), (4, 1), (4, 8), (30, 50)])
def test_the_memory_it_says_is_what_it_takes_at_most(tokens: int, required: int) -> None:
    cache = SentenceCache(64 << 20)
    filled(cache, range(100), tokens, required)
    gc.collect()
    tracemalloc.start()
    before_bytes, _ = tracemalloc.get_traced_memory()
    said_bytes = cache.stats().entry_bytes
    filled(cache, range(100, 600), tokens, required)
    after_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    taken_bytes, said_bytes = after_bytes - before_bytes, cache.stats().entry_bytes - said_bytes
    assert cache.stats().evictions == 0
    assert 0.5 * said_bytes < taken_bytes <= said_bytes


def test_a_look_up_costs_the_event_loop_little() -> None:
    """Against the same without a cache; the bound is twenty times what it is."""

    async def time_of(cache: SentenceCache | None) -> float:
        decoder = CachedDecoder(served_model(FakeEngine()), cache)
        options = DecodingOptions()
        best_s = float("inf")
        for attempt in range(5):
            started_s = time.perf_counter()
            for number in range(200):
                ids = tuple(range(1000 * attempt + number, 1000 * attempt + number + 12))
                await decoder.decode(f"r{attempt}-{number}", [ids], options, time.monotonic() + 5)
            best_s = min(best_s, (time.perf_counter() - started_s) / 200)
        return best_s

    async def main() -> None:
        without_s, with_s = await time_of(None), await time_of(SentenceCache(64 << 20))
        print(f"\n{1e6 * without_s:.1f} us without, {1e6 * (with_s - without_s):.1f} us more with a cache")
        assert with_s - without_s < 200e-6

    asyncio.run(main())
