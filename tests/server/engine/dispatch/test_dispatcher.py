"""The dispatcher over worker processes: real processes and sockets, over a fake model in each."""

import functools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import psutil
import pytest

from export.bundle import BundleError
from server.engine.dispatch.fork_server import ForkServer, fork_server
from server.engine.dispatch.worker_processes import ROWS_AHEAD
from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.errors import (
    AbortedError,
    DeadlineExceededError,
    DrainingError,
    EngineDeadError,
    InferenceError,
    InvalidOptionError,
    QueueFullError,
    SettingError,
)
from server.metrics.process import anonymous_bytes
from tests.server.engine import process_models
from tests.server.engine.fakes import babble, ramble, recite
from tests.server.engine.pools import (
    WAIT_S,
    check_many_widths,
    check_nothing_is_left_to_the_collector,
    check_that_who_has_nothing_to_do_gives_memory_back,
    tokens,
)
from tests.server.engine.process_pools import MakePool, Witness, forked, loop, make_pool
from tests.support.server_process import wait_for

__all__ = ["loop", "make_pool"]

GREEDY = DecodingOptions()
ENDLESS = DecodingOptions(max_decoding_length=500)


def test_futures_come_in_the_order_of_the_sources(make_pool: MakePool) -> None:
    witness = Witness()
    pool = make_pool(observer=witness)
    sources = [(*range(10, 11 + n % 7), 50 + n % 40) for n in range(200)]
    assert [tokens(future) for future in pool.submit("a", sources, GREEDY)] == sources
    wait_for(lambda: pool.stats().rows_busy == 0)
    assert witness.reasons == ["eos"] * 200
    assert sum(witness.steps) == sum(len(source) + 1 for source in sources)
    assert max(witness.steps) == 8  # of one process


def test_many_threads_many_widths_same_translations(make_pool: MakePool) -> None:
    pool = make_pool(babble, limits={"max_rows": 12})
    check_many_widths(pool)


def test_nothing_is_left_to_the_garbage_collector(make_pool: MakePool) -> None:
    check_nothing_is_left_to_the_collector(make_pool(recite))


def test_work_is_spread_over_the_processes(make_pool: MakePool, tmp_path: Path) -> None:
    switch = tmp_path / "wait"
    switch.touch()
    pool = make_pool(switch=switch, processes=3)
    futures = pool.submit("a", [(7, 10 + n) for n in range(9)], GREEDY)
    wait_for(lambda: pool._placement._rows == [3, 3, 3])
    switch.unlink()
    assert [tokens(future) for future in futures] == [(7, 10 + n) for n in range(9)]


def test_one_that_comes_ends_the_burst_of_one_that_is_alone(make_pool: MakePool, tmp_path: Path) -> None:
    """500 steps in one run, each of a millisecond or more; the second sentence waits for one of them."""
    switch = tmp_path / "wait"
    pool = make_pool(ramble, processes=1, switch=switch)
    (alone,) = pool.submit("a", [(7,)], ENDLESS)
    (second,) = pool.submit("b", [(8,)], DecodingOptions(max_decoding_length=1))
    assert tokens(second)
    assert not alone.done()
    pool.abort("a")
    assert isinstance(alone.exception(WAIT_S), AbortedError)


def test_abort_ends_waiting_and_decoding_sentences(make_pool: MakePool, tmp_path: Path) -> None:
    switch, witness = tmp_path / "wait", Witness()
    switch.touch()
    pool = make_pool(ramble, processes=1, switch=switch, limits={"max_rows": 2}, observer=witness)
    there = 2 + ROWS_AHEAD
    futures = pool.submit("a", [(7, n) for n in range(10, 14 + there)], ENDLESS)
    (waiting,) = pool.submit("waits", [(12,)], GREEDY)
    assert pool.stats().queue_sentences == 5 + ROWS_AHEAD
    assert [pool.decoding(request) for request in ("a", "waits", "never heard of")] == [True, False, False]
    pool.abort("waits")
    assert isinstance(waiting.exception(0), AbortedError)
    pool.abort("a")
    assert not pool.decoding("a")
    assert all(isinstance(future.exception(0), AbortedError) for future in futures)
    (kept,) = pool.submit("b", [(11,)], DecodingOptions(max_decoding_length=1))
    switch.unlink()
    assert tokens(kept)
    assert pool.stats().queue_sentences == 0
    wait_for(lambda: pool.stats().rows_busy == 0)
    assert pool._placement._rows == [0]
    assert sorted(witness.reasons) == ["cancelled"] * (len(futures) + 1) + ["length"]
    pool.abort("never heard of")


def test_cancelling_a_future_frees_its_row(make_pool: MakePool) -> None:
    pool = make_pool(ramble, processes=1, limits={"max_rows": 1})
    futures = pool.submit("a", [(7, 8)] * 20, ENDLESS)
    assert all(future.cancel() for future in futures)
    (after,) = pool.submit("b", [(7,)], DecodingOptions(max_decoding_length=2))
    assert tokens(after)
    assert all(future.cancelled() for future in futures)
    wait_for(lambda: pool.stats().rows_busy == 0)


def test_a_deadline_ends_those_that_wait_and_those_that_are_decoded(
    make_pool: MakePool, tmp_path: Path
) -> None:
    switch = tmp_path / "wait"
    switch.touch()
    pool = make_pool(ramble, processes=1, switch=switch, limits={"max_rows": 1})
    futures = pool.submit("a", [(7, 8)] * 30, ENDLESS, time.monotonic() + 0.05)
    time.sleep(0.1)
    switch.unlink()
    assert all(isinstance(future.exception(WAIT_S), DeadlineExceededError) for future in futures)


def test_a_full_line_refuses_the_whole_request(make_pool: MakePool, tmp_path: Path) -> None:
    switch = tmp_path / "wait"
    switch.touch()
    pool = make_pool(switch=switch, processes=1, limits={"max_rows": 1, "max_queue_sentences": 12})
    kept = pool.submit("a", [(7, 8)] * 12, GREEDY)  # nine of them leave the line at once
    kept += pool.submit("b", [(7, 8)] * 9, GREEDY)
    with pytest.raises(QueueFullError):
        pool.submit("c", [(7, 8)], GREEDY)
    with pytest.raises(QueueFullError):
        pool.check_room(2)
    switch.unlink()
    assert [tokens(future) for future in kept] == [(7, 8)] * 21


def test_what_cannot_be_decoded_is_refused_here(make_pool: MakePool) -> None:
    pool = make_pool(limits={"max_rows": 4})
    with pytest.raises(InvalidOptionError, match="beam_size must be one of 1, 2, 3, 4"):
        pool.submit("a", [(7, 8)], DecodingOptions(beam_size=8))


def test_who_has_nothing_to_do_gives_memory_back(make_pool: MakePool) -> None:
    limits = EngineLimits(max_rows=8)
    pool = make_pool(load=functools.partial(process_models.restless_worker, recite, limits))
    check_that_who_has_nothing_to_do_gives_memory_back(pool)


def test_a_short_request_does_not_wait_for_a_document(make_pool: MakePool) -> None:
    pool = make_pool(ramble, processes=1, limits={"max_rows": 4})
    document = pool.submit("document", [(7,) * 20] * 40, DecodingOptions(max_decoding_length=100))
    (short,) = pool.submit("short", [(7,)], DecodingOptions(max_decoding_length=3))
    assert tokens(short)
    assert sum(future.done() for future in document) < 20
    assert all(tokens(future) for future in document)


def test_close_ends_a_process_that_does_not_answer(make_pool: MakePool) -> None:
    pool = make_pool()
    pids = pool.stats().engine_pids
    os.kill(pids[-1], signal.SIGSTOP)
    pool.close(0.0)
    pool.close(0.0)
    wait_for(lambda: not any(map(psutil.pid_exists, pids[1:])))  # nor is there a zombie


def test_what_is_there_before_the_fork_is_shared(make_pool: MakePool) -> None:
    pool = make_pool(load=functools.partial(process_models.large, EngineLimits()), processes=4)
    assert tokens(pool.submit("a", [(7, 8)], GREEDY)[0]) == (7, 8)
    pids = pool.stats().engine_pids
    taken = sum(map(anonymous_bytes, pids))
    assert 0 < taken - process_models.LARGE_BYTES < 100 << 20
    assert [psutil.Process(pid).num_threads() for pid in pids] == [1] * 6


def test_what_is_logged_before_the_fork_is_told_once(
    make_pool: MakePool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        pool = make_pool(load=functools.partial(process_models.warning, EngineLimits()))
        assert tokens(pool.submit("a", [(7, 8)], GREEDY)[0]) == (7, 8)
        wait_for(lambda: len(caplog.records) == 1)
        pool.close(WAIT_S)
    assert [record.getMessage() for record in caplog.records] == ["take care"]


def test_a_model_that_comes_later_is_loaded_by_the_same_process(make_pool: MakePool) -> None:
    pools = [make_pool(language, processes=1) for language in (recite, ramble)]
    hosts = {pool.stats().engine_pids[0] for pool in pools}
    assert hosts == {fork_server().pid}
    assert tokens(pools[0].submit("a", [(7, 8)], GREEDY)[0]) == (7, 8)
    pools[1].close(0.0)
    assert tokens(pools[0].submit("b", [(7, 9)], GREEDY)[0]) == (7, 9)


def test_a_fork_server_that_has_ended_starts_nothing() -> None:
    server = ForkServer()
    server.close()
    assert not server.is_alive
    with pytest.raises(EngineDeadError):
        server.start(process_models.refusing, 1)


def test_a_crash_is_told_with_its_log(make_pool: MakePool, caplog: pytest.LogCaptureFixture) -> None:
    pool = make_pool(load=functools.partial(process_models.crashing, EngineLimits()), processes=1)
    with caplog.at_level(logging.WARNING):
        (future,) = pool.submit("a", [(7, 8)], GREEDY)
        assert isinstance(future.exception(WAIT_S), InferenceError)
    messages = [(record.name, record.getMessage()) for record in caplog.records]
    assert (messages[0][0], messages[0][1].split("\n")[0]) == ("dragoman.engine", "a worker crashes")
    assert "nothing an engine expects" in messages[0][1]
    assert pool.stats().alive


def test_a_refusal_to_load_is_raised_here(make_pool: MakePool) -> None:
    with pytest.raises(BundleError, match=r"decoder.onnx: is not to my taste") as raised:
        make_pool(load=process_models.refusing)
    assert raised.value.file == "decoder.onnx"
    with pytest.raises(EngineDeadError, match="while it loaded"):
        make_pool(load=process_models.dying)


def test_too_few_processes_are_an_error_that_says_what_to_do(make_pool: MakePool) -> None:
    with pytest.raises(SettingError, match=r"cannot be forked \(Resource temp.*--no-engine-processes"):
        make_pool(load=functools.partial(process_models.crowded, EngineLimits()))
    wait_for(lambda: forked() == [])


def test_close_finishes_what_there_is(make_pool: MakePool) -> None:
    pool = make_pool(ramble)
    futures = pool.submit("a", [(7, n) for n in range(10, 60)], DecodingOptions(max_decoding_length=50))
    pool.close(WAIT_S)
    assert all(future.done() and tokens(future) for future in futures)
    with pytest.raises(DrainingError):
        pool.submit("b", [(7,)], GREEDY)
    wait_for(lambda: forked() == [])


def test_close_in_haste_ends_every_future_and_process(make_pool: MakePool, tmp_path: Path) -> None:
    switch, witness = tmp_path / "wait", Witness()
    switch.touch()
    pool = make_pool(switch=switch, observer=witness)
    futures = pool.submit("a", [(7, n) for n in range(10, 60)], GREEDY)
    pool.close(0.0)
    assert all(isinstance(future.exception(0), DrainingError) for future in futures)
    assert witness.errors == ["terminated"]
    wait_for(lambda: forked() == [])


def test_signals_for_the_whole_group_are_left_to_the_server(make_pool: MakePool) -> None:
    pool = make_pool()
    for pid in pool.stats().engine_pids:
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(pid, name)
    assert tokens(pool.submit("a", [(7, 8)], GREEDY)[0]) == (7, 8)


def test_processes_end_with_the_server_however_that_ends(tmp_path: Path) -> None:
    script = (
        "import sys; from tests.server.engine import process_models as m;"
        "from server.engine.dispatch.fork_server import *; import functools;"
        "from server.engine.sequence import *; from tests.server.engine.fakes import *;"
        "from server.engine.limits import *;"
        "p = fork_server().start(functools.partial(m.fake_worker, recite, EngineLimits(), None), 2);"
        "p.wait_loaded(); pids = [each.wait_ready().pid for each in p.each];"
        "print(*p.pids, *pids, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        pids = list(map(int, server.stdout.readline().split()))
        assert len(pids) == 4
        assert all(map(psutil.pid_exists, pids))
        server.kill()
    wait_for(lambda: not any(map(psutil.pid_exists, pids)))


def test_every_future_ends_exactly_once(make_pool: MakePool) -> None:
    """Results, aborts and the end of the pool race each other."""
    pool = make_pool(babble)
    ends: list[Future[SequenceResult]] = []
    futures: list[Future[SequenceResult]] = []

    def client(number: int) -> None:
        for n in range(40):
            try:
                sent = pool.submit(f"{number}-{n}", [(10 + number, 20 + n)] * 3, GREEDY)
            except DrainingError:
                return
            futures.extend(sent)
            for future in sent:
                future.add_done_callback(ends.append)
            if n % 3 == 0:
                pool.abort(f"{number}-{n}")
            if n % 5 == 0:
                sent[0].cancel()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    pool.close(0.05)
    for thread in threads:
        thread.join(WAIT_S)
    assert all(future.done() for future in futures)
    assert len(ends) == len(futures)
