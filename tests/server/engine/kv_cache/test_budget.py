import dataclasses
import itertools
import random

import numpy as np
import pytest

from server.engine.kv_cache.arena import KEPT_CAPACITY, Arena
from server.engine.kv_cache.budget import (
    USUAL_ROWS,
    CacheBudget,
    Capacity,
    cache_bytes,
    largest_request_bytes,
    with_chosen_rows,
)
from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from tests.server.engine.fakes import FakeEncoder, sentence, spec

SPEC = spec(max_source_tokens=500, max_target_tokens=400)
LIMITS = EngineLimits(max_rows=8)


def options(longest: int, beam_size: int = 1) -> DecodingOptions:
    return DecodingOptions(beam_size=beam_size, max_decoding_length=longest)


def bounded(bytes_: int) -> CacheBudget:
    return CacheBudget(SPEC, dataclasses.replace(LIMITS, max_cache_bytes=bytes_))


@pytest.mark.parametrize("state", [0, 24])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("width", [1, 3, 8])
def test_bytes_are_those_of_the_arena(width: int, dtype: type, state: int) -> None:
    model = dataclasses.replace(SPEC, cache_dtype=np.dtype(dtype), state_size=state)
    arena = Arena(model, width, LIMITS.max_rows // width)
    for length, steps in ((3, 5), (60, 40), (500, 400)):
        lengths = np.array([length], np.int32)
        cross = FakeEncoder().encode(np.full((1, length), 7), lengths)
        arena.admit([array.astype(dtype) for array in cross], lengths)
        for _ in range(steps):
            arena.prepare_step()
            arena.finish_step()
        capacity = Capacity(arena.source_capacity, arena.target_capacity)
        assert arena.cache_bytes == cache_bytes(model, width, LIMITS.max_rows, capacity)
        arena.retire(0)


def test_the_largest_request_fits_exactly() -> None:
    needed = largest_request_bytes(SPEC, LIMITS)
    largest = sentence([7] * 500, options(400))
    assert bounded(needed).reserve(largest)
    assert not bounded(needed - 1).reserve(largest)


def test_as_many_rows_are_chosen_as_the_bound_lets_the_largest_request_have() -> None:
    assert with_chosen_rows(SPEC, LIMITS) == dataclasses.replace(LIMITS, max_rows=USUAL_ROWS[0])
    for more, rows in itertools.pairwise(USUAL_ROWS):
        needed = largest_request_bytes(SPEC, dataclasses.replace(LIMITS, max_rows=more))
        for bound, chosen in ((needed, more), (needed - 1, rows)):
            limits = dataclasses.replace(LIMITS, max_cache_bytes=bound)
            assert with_chosen_rows(SPEC, limits) == dataclasses.replace(limits, max_rows=chosen)
    nothing = dataclasses.replace(LIMITS, max_cache_bytes=1)
    assert with_chosen_rows(SPEC, nothing).max_rows == USUAL_ROWS[-1]
    for widest, least in ((8, 8), (12, 16), (32, 32), (100, 100)):
        wide = dataclasses.replace(SPEC, beam_widths=(1, widest))
        assert with_chosen_rows(wide, nothing).max_rows == least


def test_a_sentence_reserves_what_its_target_may_become() -> None:
    budget = bounded(10**9)
    assert budget.reserve(sentence([7] * 5, options(100)))
    small = budget.reserved_bytes
    assert small == cache_bytes(SPEC, 1, 8, Capacity(32, 128))
    assert budget.reserve(sentence([7] * 30, options(128)))
    assert budget.reserved_bytes == small
    assert budget.reserve(sentence([7] * 5, options(100, beam_size=2)))
    assert budget.reserved_bytes == small + cache_bytes(SPEC, 2, 8, Capacity(32, 128))


def test_what_is_refused_reserves_nothing() -> None:
    budget = bounded(cache_bytes(SPEC, 1, 8, Capacity(32, 64)))
    assert budget.reserve(sentence([7], options(60)))
    before = budget.reserved_bytes
    assert not budget.reserve(sentence([7], options(65)))
    assert not budget.reserve(sentence([7], options(1, beam_size=2)))
    assert budget.reserved_bytes == before


def test_an_empty_arena_keeps_little_and_a_freed_one_nothing() -> None:
    budget = bounded(10**9)
    assert budget.reserve(sentence([7] * 500, options(400)))
    assert budget.reserve(sentence([7] * 5, options(10, beam_size=2)))
    budget.emptied()
    kept = cache_bytes(SPEC, 1, 8, Capacity(KEPT_CAPACITY, KEPT_CAPACITY))
    assert budget.reserved_bytes == kept + cache_bytes(SPEC, 2, 8, Capacity(32, 32))
    assert budget.freed(kept={1})
    assert budget.reserved_bytes == kept
    assert not budget.freed(kept={1})


def test_arenas_never_hold_more_than_is_reserved() -> None:
    draw = random.Random(3)
    budget, arena = bounded(10**9), Arena(SPEC, 2, 4)
    for _ in range(60):
        length, longest = draw.choice((3, 40, 130, 500)), draw.choice((5, 60, 129, 400))
        assert budget.reserve(sentence([7] * length, options(longest, beam_size=2)))
        lengths = np.array([length], np.int32)
        arena.admit(FakeEncoder().encode(np.full((1, length), 7), lengths), lengths)
        for _ in range(draw.randint(1, longest)):
            arena.prepare_step()
            arena.finish_step()
            assert arena.cache_bytes <= budget.reserved_bytes
        if arena.count == 4 or draw.random() < 0.5:
            while arena.count:
                arena.retire(arena.count - 1)
            budget.emptied()
            assert arena.cache_bytes <= budget.reserved_bytes
        else:
            arena.target_lengths[: arena.count] = 0  # as if they had only begun


def test_without_a_bound_everything_fits() -> None:
    assert CacheBudget(SPEC, LIMITS).reserve(sentence([7] * 500, options(400)))


def extra_bytes(beam_width: int, max_sentences: int) -> int:
    return 5000 * beam_width + 7 * max_sentences


def test_what_a_batch_has_beside_its_caches_is_reserved_with_them() -> None:
    budget = CacheBudget(SPEC, dataclasses.replace(LIMITS, max_cache_bytes=10**9), extra_bytes)
    assert budget.reserve(sentence([7], options(10)))
    assert budget.reserve(sentence([7] * 90, options(50)))  # the same batch: once
    first = cache_bytes(SPEC, 1, 8, Capacity(128, 64)) + extra_bytes(1, 8)
    assert budget.reserved_bytes == first
    assert budget.reserve(sentence([7], options(10, beam_size=2)))
    assert budget.reserved_bytes == first + cache_bytes(SPEC, 2, 8, Capacity(32, 32)) + extra_bytes(2, 4)
    budget.emptied()
    assert budget.freed(kept={1})
    assert budget.reserved_bytes == first


def test_the_largest_request_fits_exactly_with_its_extra_bytes() -> None:
    needed = largest_request_bytes(SPEC, LIMITS, extra_bytes)
    assert needed > largest_request_bytes(SPEC, LIMITS)
    largest = sentence([7] * 500, options(400))
    for missing in (0, 1):
        limits = dataclasses.replace(LIMITS, max_cache_bytes=needed - missing)
        fits = [
            CacheBudget(SPEC, limits, extra_bytes).reserve(
                dataclasses.replace(largest, options=options(400, beam_size=width))
            )
            for width in SPEC.beam_widths
        ]
        assert all(fits) == (missing == 0)
