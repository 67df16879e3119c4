"""Workers that die, and the sentences that they had: real processes, over a fake model in each."""

import functools
import os
import signal
import time
from pathlib import Path

import pytest

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.scheduling.placement import DEATHS_WITHIN_S, Suspects
from server.errors import AbortedError, EngineDeadError, InferenceError
from tests.server.engine import process_models
from tests.server.engine.fakes import ramble, recite, sentence
from tests.server.engine.pools import WAIT_S, tokens
from tests.server.engine.process_pools import MakePool, Witness, forked, loop, make_pool
from tests.support.server_process import wait_for

__all__ = ["loop", "make_pool"]

GREEDY = DecodingOptions()
ENDLESS = DecodingOptions(max_decoding_length=500)


def test_every_worker_has_one_suspect_at_a_time() -> None:
    suspects, lost = Suspects(2), [sentence([n]) for n in range(5)]
    assert suspects.convict(0, lost) is None
    assert suspects.take([1]) == [(lost[0], 1)]
    assert suspects.take([0, 1]) == [(lost[1], 0)]
    suspects.acquit(1, lost[3])
    assert suspects.take([0, 1]) == []
    suspects.acquit(1, lost[0])
    lost[2].aborted = True
    assert suspects.take([0, 1]) == [(lost[3], 1)]
    assert len(suspects) == 1


def test_a_sentence_present_at_two_deaths_is_convicted() -> None:
    suspects, lost, beside = Suspects(1), [sentence([n]) for n in range(2)], sentence([9])
    suspects.convict(0, lost)
    ((suspect, _),) = suspects.take([0])
    assert suspects.convict(0, [suspect, beside]) is suspect
    assert [one for _ in range(2) for one, _ in suspects.take([0]) if not suspects.acquit(0, one)] == [
        lost[1],
        beside,
    ]


def test_three_deaths_are_hopeless_if_they_are_close_together() -> None:
    suspects = Suspects(1)
    times_s = (0.0, 1.0, DEATHS_WITHIN_S + 0.5, DEATHS_WITHIN_S + 0.9)
    assert [suspects.is_hopeless(at_s) for at_s in times_s] == [False, False, False, True]


@pytest.mark.parametrize("which", [0, 1], ids=["of all models", "of the model"])
def test_without_the_process_that_forks_the_engine_is_dead_at_once(make_pool: MakePool, which: int) -> None:
    witness = Witness()
    pool = make_pool(ramble, observer=witness)
    futures = pool.submit("a", [(7, n) for n in range(10, 60)], ENDLESS)
    os.kill(pool.stats().engine_pids[which], signal.SIGKILL)
    ends = [future.exception(WAIT_S) for future in futures]
    assert all(isinstance(end, EngineDeadError) for end in ends)
    assert not pool.stats().alive
    assert "worker_lost" in witness.errors
    with pytest.raises(EngineDeadError):
        pool.submit("b", [(7,)], GREEDY)


def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost(make_pool: MakePool, tmp_path: Path) -> None:
    witness, switch = Witness(), tmp_path / "wait"
    switch.touch()
    pool = make_pool(recite, observer=witness, switch=switch)
    sources = [(7, 10 + n % 80, 20) for n in range(60)]
    futures = pool.submit("a", sources, GREEDY)
    before = pool.stats().engine_pids
    killed_s = time.monotonic()
    os.kill(before[3], signal.SIGKILL)
    wait_for(lambda: pool.stats().engine_pids[3:] not in (before[3:], ()) and len(forked()) == 3)
    assert time.monotonic() - killed_s < 2.0
    switch.unlink()
    assert [tokens(future) for future in futures] == sources
    wait_for(lambda: witness.errors == ["worker_lost"])
    assert sorted(witness.reasons) == ["eos"] * 60
    assert pool.stats().alive
    assert len(pool.stats().engine_pids) == 4
    assert tokens(pool.submit("b", [(7, 8)], GREEDY)[0]) == (7, 8)


def test_what_a_killed_worker_had_may_be_aborted_meanwhile(make_pool: MakePool, tmp_path: Path) -> None:
    switch = tmp_path / "wait"
    switch.touch()
    pool = make_pool(recite, switch=switch, processes=1)
    futures = pool.submit("a", [(7, 10 + n) for n in range(6)], GREEDY)
    kept = pool.submit("b", [(7, 8)], GREEDY)
    os.kill(pool.stats().engine_pids[2], signal.SIGKILL)
    pool.abort("a")
    switch.unlink()
    assert all(isinstance(future.exception(WAIT_S), AbortedError) for future in futures)
    assert tokens(kept[0]) == (7, 8)
    wait_for(lambda: pool.stats().rows_busy == 0)


def test_a_worker_that_refuses_to_begin_is_replaced_too(make_pool: MakePool, tmp_path: Path) -> None:
    witness, switch = Witness(), tmp_path / "refuse"
    load = functools.partial(process_models.refusing_once, switch, EngineLimits(max_rows=8))
    pool = make_pool(load=load, observer=witness)
    assert tokens(pool.submit("before", [(7, 8)], GREEDY)[0]) == (7, 8)
    switch.touch()
    os.kill(pool.stats().engine_pids[-1], signal.SIGKILL)
    wait_for(lambda: not switch.exists())
    assert tokens(pool.submit("after", [(9, 10)], GREEDY)[0]) == (9, 10)
    wait_for(lambda: witness.errors == ["worker_lost"] * 2)


def test_a_sentence_that_kills_two_workers_fails_alone(make_pool: MakePool) -> None:
    witness, limits = Witness(), EngineLimits(max_rows=8)
    load = functools.partial(process_models.killed_by, 66, limits)
    pool = make_pool(load=load, observer=witness)
    sources = [(7, 10 + n) for n in range(30)]
    sources[4] = (66, 10)
    futures = pool.submit("a", sources, GREEDY)
    assert isinstance(futures.pop(4).exception(WAIT_S), InferenceError)
    del sources[4]
    assert [tokens(future) for future in futures] == sources
    wait_for(lambda: witness.errors == ["worker_lost"] * 2)
    assert pool.stats().alive


def test_workers_that_die_again_and_again_end_the_engine(make_pool: MakePool) -> None:
    witness, limits = Witness(), EngineLimits(max_rows=8)
    load = functools.partial(process_models.killed_by, 66, limits)
    pool = make_pool(load=load, observer=witness)
    futures = pool.submit("a", [(66, n) for n in range(10, 20)], GREEDY)
    ends = [future.exception(WAIT_S) for future in futures]
    assert {type(end) for end in ends} <= {InferenceError, EngineDeadError}
    wait_for(lambda: not pool.stats().alive)
    assert len(witness.errors) == 3
