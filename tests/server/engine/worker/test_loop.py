"""Workers between two kinds of requests, and with too little memory."""

import threading
from concurrent.futures import Future

from server.engine.kv_cache.budget import largest_request_bytes
from server.engine.limits import EngineLimits
from server.engine.observer import NullObserver
from server.engine.options import DecodingOptions
from server.engine.sequence import Outcome, SequenceResult
from server.errors import AbortedError, OutOfMemoryError
from tests.server.engine.bench import Bench
from tests.server.engine.fakes import FakeRuntime, recite, sentence
from tests.server.engine.pools import WAIT_S, Ends, MakePool, gated, make_pool, tokens

__all__ = ["make_pool"]

GREEDY = DecodingOptions()


def test_a_short_request_does_not_wait_for_a_document(make_pool: MakePool) -> None:
    """Counted in steps: it ends while the document has most of its own before it."""
    runtime, gate = gated(recite)
    pool = make_pool(runtime, limits={"max_rows": 8, "max_queue_tokens": 10**5})
    gate.open = True
    assert tokens(pool.submit("one that came before", [(7,)], GREEDY)[0]) == (7,)
    gate.open = False
    document = pool.submit("document", [(*range(10, 30), 40 + n) for n in range(50)], GREEDY)
    for _ in range(3):
        gate.wait()
        gate.let_pass()
    gate.wait()
    (short,) = pool.submit("short", [(7, 8, 9)], GREEDY)
    steps = 0
    while not short.done():
        gate.let_pass()
        gate.wait()
        steps += 1
    assert tokens(short) == (7, 8, 9)
    assert steps <= 12  # 4 of its own, and one for the others that start
    assert not any(future.done() for future in document)
    gate.open_for_all()
    assert tokens(document[49]) == (*range(10, 30), 89)


def test_a_document_goes_on_beside_many_short_requests(make_pool: MakePool) -> None:
    pool = make_pool(FakeRuntime(recite), limits={"max_rows": 4})
    # Long enough for a machine that leaves this thread waiting now and then.
    document = pool.submit("document", [(*range(10, 30), 40 + n % 50) for n in range(200)], GREEDY)
    sent = 0
    while not all(future.done() for future in document):
        assert tokens(pool.submit(f"short {sent}", [(7, 8)], GREEDY)[0]) == (7, 8)
        sent += 1
    assert sent > 3


def test_caches_stay_within_their_bound_and_everyone_is_served(make_pool: MakePool) -> None:
    """Requests that need all of it, others that need some, several widths, two workers, both priorities."""

    class Watch(NullObserver):
        most_bytes = 0

        def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
            self.most_bytes = max(self.most_bytes, pool.stats().kv_cache_bytes)

    runtime, watch = FakeRuntime(recite, max_source_tokens=300, max_target_tokens=300), Watch()
    bound = 2 * largest_request_bytes(runtime.spec, EngineLimits(max_rows=4))
    limits = {"max_rows": 4, "max_queue_tokens": 10**5, "max_cache_bytes": bound}
    pool = make_pool(runtime, workers=2, limits=limits, observer=watch)
    expected: list[tuple[Future[SequenceResult], tuple[int, ...]]] = []
    for number in range(40):
        length = 290 if number % 8 == 3 else 3 + number % 7
        source = tuple(4 + (number + place) % 90 for place in range(length))
        options = DecodingOptions(beam_size=(1, 2, 4)[number % 3], max_decoding_length=length + 5)
        expected.append((pool.submit(str(number), [source], options)[0], source))
    assert [tokens(future) for future, _ in expected] == [source for _, source in expected]
    assert 0 < watch.most_bytes <= bound


def test_a_request_that_waits_for_memory_may_be_aborted(make_pool: MakePool) -> None:
    runtime, gate = gated(recite, max_source_tokens=100, max_target_tokens=100)
    bound = largest_request_bytes(runtime.spec, EngineLimits(max_rows=2))
    pool = make_pool(runtime, limits={"max_rows": 2, "max_cache_bytes": bound})
    first = pool.submit("first", [(7,)], GREEDY)
    gate.wait()
    large = pool.submit("large", [(8,) * 100], DecodingOptions(beam_size=2, max_decoding_length=100))
    after = pool.submit("after", [(9,)], GREEDY)
    gate.let_pass()
    gate.wait()
    pool.abort("large")
    gate.open_for_all()
    assert (tokens(first[0]), tokens(after[0])) == ((7,), (9,))
    assert isinstance(large[0].exception(0), AbortedError)


def test_no_memory_for_a_step_loses_its_sentences_and_nothing_else(make_pool: MakePool) -> None:
    runtime, ends = FakeRuntime(recite), Ends()
    failing = threading.Event()

    def allocate() -> None:
        if failing.is_set():
            failing.clear()
            raise MemoryError("Unable to allocate 2.0 GiB")

    runtime.before_step = allocate
    pool = make_pool(runtime, limits={"max_rows": 2}, observer=ends)
    failing.set()
    lost = pool.submit("unlucky", [(7, 8), (9,), (10,)], GREEDY)
    outcomes = [future.exception(WAIT_S) for future in lost]
    assert [type(outcome) for outcome in outcomes] == [OutOfMemoryError, OutOfMemoryError, type(None)]
    assert tokens(pool.submit("next", [(11, 12)], GREEDY)[0]) == (11, 12)
    assert pool.stats().alive
    assert pool.stats().rows_busy == 0
    assert ends.errors == ["out_of_memory"]


def test_what_ended_before_the_memory_was_gone_has_its_result() -> None:
    runtime = FakeRuntime(recite)
    bench = Bench(runtime)
    for width, length in ((1, 3), (2, 9)):
        bench.add(sentence(range(7, 7 + length), DecodingOptions(beam_size=width), request=f"{width}"))
    for _ in range(4):  # the fourth step writes the greedy sentence's end
        assert bench.worker._step() == []
    beams = bench.engine._batches[2]

    def fail(most: int) -> list[Outcome]:
        raise MemoryError("Unable to allocate 2.0 GiB")

    beams.step = fail  # type: ignore[method-assign]
    ended = {outcome.sequence.request_id: outcome.result for outcome in bench.worker._step()}
    assert isinstance(ended["1"], SequenceResult)
    assert ended["1"].hypotheses[0].tokens == (7, 8, 9)
    assert isinstance(ended["2"], OutOfMemoryError)
    assert bench.engine.rows == 0


def test_no_memory_in_the_encoder_is_survived_too(make_pool: MakePool) -> None:
    runtime = FakeRuntime(recite)
    troubles = [MemoryError()]

    def allocate() -> None:
        if troubles:
            raise troubles.pop()

    runtime.encoder.before = allocate
    pool = make_pool(runtime)
    assert isinstance(pool.submit("a", [(7,)], GREEDY)[0].exception(WAIT_S), OutOfMemoryError)
    assert tokens(pool.submit("b", [(8,)], GREEDY)[0]) == (8,)
