"""The dispatcher over worker threads and a fake model. Gates instead of sleeps."""

import threading
import time
from concurrent.futures import Future

import pytest

from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.engine.worker import loop
from server.errors import (
    AbortedError,
    DeadlineExceededError,
    DrainingError,
    EngineDeadError,
    InferenceError,
    InvalidOptionError,
    InvalidRequestError,
    QueueFullError,
    TextTooLongError,
)
from tests.server.engine.fakes import Clock, FakeRuntime, babble, ramble, recite
from tests.server.engine.pools import (
    WAIT_S,
    Ends,
    MakePool,
    check_many_widths,
    check_nothing_is_left_to_the_collector,
    check_that_who_has_nothing_to_do_gives_memory_back,
    gated,
    make_pool,
    tokens,
)
from tests.support.server_process import wait_for

__all__ = ["make_pool"]

GREEDY = DecodingOptions()


def test_futures_come_in_the_order_of_the_sources(make_pool: MakePool) -> None:
    pool = make_pool(FakeRuntime(recite), workers=3)
    sources = [(*range(10, 11 + n % 7), 50 + n) for n in range(40)]
    assert [tokens(future) for future in pool.submit("a", sources, GREEDY)] == sources


def test_many_threads_many_widths_same_translations(make_pool: MakePool) -> None:
    pool = make_pool(FakeRuntime(babble), workers=2, limits={"max_rows": 12})
    check_many_widths(pool)
    assert pool.stats().rows_busy == 0


def test_nothing_is_left_to_the_garbage_collector(make_pool: MakePool) -> None:
    check_nothing_is_left_to_the_collector(make_pool(FakeRuntime(recite)))


def test_work_is_spread_over_the_workers(make_pool: MakePool) -> None:
    runtime, gate = gated()
    pool = make_pool(runtime, workers=2)
    futures = pool.submit("a", [(7, 10 + n) for n in range(8)], GREEDY)
    gate.wait()
    gate.wait()
    assert pool.stats().rows_busy == 8
    assert sorted(shape[0] for shape in runtime.encoder.shapes) == [4, 4]
    gate.open_for_all()
    assert [tokens(future) for future in futures] == [(7, 10 + n) for n in range(8)]


def test_few_sentences_stay_on_one_worker(make_pool: MakePool) -> None:
    runtime, gate = gated()
    workers: set[int] = set()
    runtime.before_step = lambda: (workers.add(threading.get_ident()), gate())
    pool = make_pool(runtime, workers=3, limits={"max_rows": 12}, rows_together=6)
    first = pool.submit("a", [(7, 10)], GREEDY)
    gate.wait()
    others = pool.submit("b", [(7, 11), (7, 12)], GREEDY)
    assert pool.stats().rows_busy == 3
    gate.open_for_all()
    assert [tokens(future) for future in first + others] == [(7, 10), (7, 11), (7, 12)]
    for number in range(20):
        assert tokens(pool.submit(str(number), [(7, 10)], GREEDY)[0]) == (7, 10)
    assert len(workers) == 1


def test_abort_ends_waiting_and_decoding_sentences(make_pool: MakePool) -> None:
    runtime, gate = gated(ramble)
    ends = Ends()
    pool = make_pool(runtime, limits={"max_rows": 2}, observer=ends)
    futures = pool.submit("a", [(7,), (8,), (9,), (10,)], GREEDY)
    gate.wait()
    stats = pool.stats()
    assert (stats.rows_busy, stats.queue_sentences, stats.queue_tokens) == (2, 2, 2)
    waiting = pool.submit("waits", [(12,)], GREEDY)
    assert [pool.decoding(request) for request in ("a", "waits", "never heard of")] == [True, False, False]
    pool.abort("waits")
    assert isinstance(waiting[0].exception(0), AbortedError)
    pool.abort("a")
    assert not pool.decoding("a")
    assert all(isinstance(future.exception(0), AbortedError) for future in futures)
    assert pool.stats().queue_sentences == 0
    kept = pool.submit("b", [(11,)], DecodingOptions(max_decoding_length=1))
    gate.let_pass()  # the step that was under way
    gate.wait()  # the next one: the rows are free
    wait_for(lambda: pool.stats().rows_busy == 1)
    gate.open_for_all()
    assert tokens(kept[0])
    assert ends.reasons == ["cancelled"] * 5 + ["length"]
    pool.abort("a")
    pool.abort("never heard of")


def test_cancelling_a_future_frees_its_row(make_pool: MakePool) -> None:
    runtime, gate = gated(ramble)
    pool = make_pool(runtime, limits={"max_rows": 1})
    decoding, waiting = pool.submit("a", [(7, 8), (9,)], GREEDY)
    gate.wait()
    assert decoding.cancel()
    assert waiting.cancel()
    (after,) = pool.submit("b", [(7,)], DecodingOptions(max_decoding_length=2))
    gate.open_for_all()
    assert len(tokens(after)) == 2
    assert pool.stats().queue_sentences == 0


def test_a_deadline_that_passes_in_the_line_costs_no_engine_call(make_pool: MakePool) -> None:
    runtime, gate = gated(recite)
    clock = Clock()
    pool = make_pool(runtime, limits={"max_rows": 1}, clock=clock)
    first = pool.submit("a", [(7,)], GREEDY)
    gate.wait()
    late = pool.submit("b", [(8,)], GREEDY, deadline_s=clock.now_s + 5)
    clock.now_s += 6
    gate.open_for_all()
    assert tokens(first[0]) == (7,)
    assert isinstance(late[0].exception(WAIT_S), DeadlineExceededError)
    assert runtime.encoder.shapes == [(1, 1)]


def test_a_full_line_refuses_the_whole_request(make_pool: MakePool) -> None:
    runtime, gate = gated()
    pool = make_pool(runtime, limits={"max_rows": 1, "max_queue_sentences": 3})
    pool.submit("a", [(7,)], GREEDY)
    gate.wait()
    accepted = pool.submit("b", [(8,), (9,)], GREEDY)
    with pytest.raises(QueueFullError) as refused:
        pool.submit("c", [(10,), (11,)], GREEDY)
    assert refused.value.retry_after_s >= 1.0
    assert pool.stats().queue_sentences == 2
    gate.open_for_all()
    assert [tokens(future) for future in accepted] == [(8,), (9,)]


@pytest.mark.parametrize(
    ("sources", "options", "error"),
    [
        ([()], GREEDY, InvalidRequestError),
        ([(7,) * 41], GREEDY, TextTooLongError),
        ([(7,)], DecodingOptions(beam_size=5), InvalidOptionError),
        ([(7,)], DecodingOptions(beam_size=8), InvalidOptionError),
        ([(7,)], DecodingOptions(beam_size=0), InvalidOptionError),
        ([(7,)], DecodingOptions(beam_size=2, num_hypotheses=3), InvalidOptionError),
        ([(7,)], DecodingOptions(num_hypotheses=0), InvalidOptionError),
        ([(7,)], DecodingOptions(length_penalty=float("nan")), InvalidOptionError),
        ([(7,)], DecodingOptions(max_decoding_length=0), InvalidOptionError),
        ([(7,)], DecodingOptions(min_decoding_length=300), InvalidOptionError),
        ([(7,)], DecodingOptions(min_decoding_length=-1), InvalidOptionError),
    ],
)
def test_what_cannot_be_decoded_is_refused(
    make_pool: MakePool, sources: list[tuple[int, ...]], options: DecodingOptions, error: type[Exception]
) -> None:
    pool = make_pool(FakeRuntime(max_source_tokens=40), limits={"max_rows": 4})
    with pytest.raises(error):
        pool.submit("a", sources, options)
    assert pool.stats().queue_sentences == 0


def test_a_longer_limit_than_the_models_is_lowered(make_pool: MakePool) -> None:
    pool = make_pool(FakeRuntime(ramble, max_target_tokens=6))
    (future,) = pool.submit("a", [(7,)], DecodingOptions(max_decoding_length=256))
    assert len(tokens(future)) == 6


def test_no_sentences_no_futures(make_pool: MakePool) -> None:
    pool = make_pool(FakeRuntime())
    assert pool.submit("a", [], GREEDY) == []
    assert not pool.decoding("a")
    started_s = time.monotonic()
    pool.close(30.0)
    assert time.monotonic() - started_s < 15  # it waits for nothing


def test_poison_fails_alone(make_pool: MakePool) -> None:
    runtime = FakeRuntime(recite)
    runtime.decoder_poison = 66
    ends = Ends()
    pool = make_pool(runtime, observer=ends)
    good, bad, other = pool.submit("a", [(7, 8), (66,), (9, 10)], GREEDY)
    assert isinstance(bad.exception(WAIT_S), InferenceError)
    assert (tokens(good), tokens(other)) == ((7, 8), (9, 10))
    assert sorted(ends.reasons) == ["eos", "eos", "error"]
    assert pool.stats().alive


def test_close_finishes_what_there_is(make_pool: MakePool) -> None:
    pool = make_pool(FakeRuntime(recite), workers=2)
    futures = pool.submit("a", [(7, 10 + n) for n in range(30)], GREEDY)
    pool.close(WAIT_S)
    assert all(future.done() for future in futures)
    assert [tokens(future) for future in futures] == [(7, 10 + n) for n in range(30)]
    with pytest.raises(DrainingError):
        pool.submit("b", [(7,)], GREEDY)
    pool.close(0.0)


def test_close_in_haste_ends_every_future_and_terminates_the_run(make_pool: MakePool) -> None:
    runtime, gate = gated(ramble)
    pool = make_pool(runtime, limits={"max_rows": 2})
    futures = pool.submit("a", [(7,), (8,), (9,)], GREEDY)
    gate.wait()
    runtime.terminate = gate.open_for_all  # what ends a run that is under way
    pool.close(0.0)
    assert all(isinstance(future.exception(0), DrainingError) for future in futures)


def test_a_worker_that_crashes_is_replaced_and_nothing_is_lost(make_pool: MakePool) -> None:
    runtime, ends = FakeRuntime(recite), Ends()
    troubles = [ZeroDivisionError("a bug")]

    def crash_once() -> None:
        if troubles:
            raise troubles.pop()

    runtime.encoder.before = crash_once
    pool = make_pool(runtime, workers=2, limits={"max_rows": 2}, observer=ends)
    futures = pool.submit("a", [(7, 10 + n) for n in range(9)], GREEDY)
    assert [tokens(future) for future in futures] == [(7, 10 + n) for n in range(9)]
    wait_for(lambda: ends.errors == ["worker_lost"])
    assert pool.stats().alive


def test_workers_that_crash_again_and_again_end_the_engine(make_pool: MakePool) -> None:
    runtime = FakeRuntime(recite)
    runtime.encoder.before = lambda: (_ for _ in ()).throw(ZeroDivisionError("a bug"))
    ends = Ends()
    pool = make_pool(runtime, workers=2, limits={"max_rows": 1}, observer=ends)
    futures = pool.submit("a", [(7, n) for n in range(9)], GREEDY)
    assert all(isinstance(future.exception(WAIT_S), EngineDeadError | InferenceError) for future in futures)
    wait_for(lambda: len(ends.errors) == 3)  # each is told by the thread of the worker that died
    assert not pool.stats().alive
    with pytest.raises(EngineDeadError):
        pool.submit("b", [(7,)], GREEDY)
    pool.close(WAIT_S)
    assert ends.errors == ["worker_lost"] * 3


def test_every_future_ends_exactly_once(make_pool: MakePool) -> None:
    """Results, aborts, cancellations, poison and a hasty close at the same time."""
    runtime = FakeRuntime(babble)
    runtime.decoder_poison = 66
    ends = Ends()
    pool = make_pool(runtime, workers=2, limits={"max_rows": 6}, observer=ends)
    counts: dict[Future[SequenceResult], int] = {}
    options = DecodingOptions(beam_size=2, max_decoding_length=30)
    for number in range(30):
        sources = [(10 + number, 20 + n) if n != 3 else (66, number) for n in range(5)]
        for future in pool.submit(str(number), sources, options):
            counts[future] = 0
            future.add_done_callback(lambda done: counts.__setitem__(done, counts[done] + 1))
        if number % 5 == 1:
            pool.abort(str(number - 1))
        if number % 7 == 2:
            future.cancel()
    pool.close(0.05)
    assert all(future.done() for future in counts)
    assert set(counts.values()) == {1}
    assert len(ends.reasons) == len(counts)
    assert pool.stats().queue_sentences == 0


def test_who_has_nothing_to_do_gives_memory_back(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "IDLE_S", 0.3)
    check_that_who_has_nothing_to_do_gives_memory_back(make_pool(FakeRuntime(recite), workers=2))


def test_stats_of_an_idle_pool(make_pool: MakePool) -> None:
    clock = Clock()
    pool = make_pool(FakeRuntime(), workers=3, limits={"max_rows": 8}, clock=clock)
    stats = pool.stats()
    assert (stats.rows_busy, stats.rows_total, stats.kv_cache_bytes, stats.alive) == (0, 24, 0, True)
    assert stats.last_progress_s == clock.now_s
    assert stats.queue_oldest_age_s == 0.0


def test_oldest_age_is_that_of_the_first_in_line(make_pool: MakePool) -> None:
    runtime, gate = gated()
    clock = Clock()
    pool = make_pool(runtime, limits={"max_rows": 1}, clock=clock)
    pool.submit("a", [(7,)], GREEDY)
    gate.wait()
    clock.now_s += 1.0
    pool.submit("b", [(7,)], GREEDY)
    clock.now_s += 2.5
    assert pool.stats().queue_oldest_age_s == pytest.approx(2.5)
    gate.open_for_all()
