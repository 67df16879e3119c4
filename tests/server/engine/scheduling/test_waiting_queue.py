import pytest

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.scheduling.priority import LONG_TOKENS
from server.engine.scheduling.waiting_queue import (
    FAIR_SHARE,
    FAIR_TOKENS_PER_S,
    GUARDED_FOR_S,
    GUARDED_TOKENS,
    MAX_RETRY_S,
    MIN_RETRY_S,
    Load,
    Scheduler,
)
from server.engine.sequence import Sequence as Sentence
from server.engine.worker.encoder_batching import CALL_COST_TOKENS, encoder_batches
from server.errors import QueueFullError, TextTooLongError, TooManyTextsError
from tests.server.engine.fakes import line, sentence

LIMITS = EngineLimits(max_rows=8, max_queue_sentences=300, max_queue_tokens=9000, max_batch_tokens=100)


def request(name: str, count: int, length: int, at_s: float = 0.0, beam_size: int = 1) -> list[Sentence]:
    options = DecodingOptions(beam_size=beam_size)
    return [sentence([7] * length, options, name, at_s) for _ in range(count)]


def names(sentences: list[Sentence]) -> list[str]:
    return [one.request_id for one in sentences]


def test_admits_in_order_of_arrival_what_rows_allow() -> None:
    scheduler = line(*[sentence([7], request=str(n), at_s=n) for n in range(5)])
    assert names(scheduler.admit(5.0, Load(3))) == ["0", "1", "2"]
    assert names(scheduler.admit(5.0, Load(0))) == []
    assert names(scheduler.admit(5.0, Load(8))) == ["3", "4"]
    assert (scheduler.sentences, scheduler.tokens) == (0, 0)
    assert scheduler.rows == {"short": 0, "long": 0}


def test_a_request_of_many_tokens_is_a_document() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("short", 1, LONG_TOKENS))
    scheduler.add(request("wide", 1, LONG_TOKENS // 4 + 1, beam_size=4))
    scheduler.add(request("document", 2, LONG_TOKENS // 2 + 1))
    assert scheduler.rows == {"short": 1, "long": 4 + 2}
    assert names(scheduler.admit(0.0, Load(8))) == ["short"]
    assert names(scheduler.admit(0.0, Load(8, lane="long"))) == ["wide"]


def test_documents_start_in_small_portions_while_there_are_short_requests() -> None:
    scheduler = Scheduler(EngineLimits(max_queue_tokens=10**6))
    scheduler.add(request("document", 200, 20, at_s=0.0))
    of_one_run = Load(32, lane="long", run_tokens=256)
    assert len(scheduler.admit(0.0, Load(32, lane="long"))) == 32
    assert len(scheduler.admit(0.0, of_one_run)) == 256 // 20
    scheduler.add(request("short", 30, 5, at_s=1.0))
    guarded = scheduler.admit(1.0 + GUARDED_FOR_S / 2, of_one_run)
    assert len(guarded) == GUARDED_TOKENS // 20
    assert len(scheduler.admit(1.0 + GUARDED_FOR_S, of_one_run)) == 256 // 20
    assert len(scheduler.admit(1.0, Load(30, run_tokens=20))) == 30, "short ones are all started"


def test_who_lacks_memory_is_not_overtaken_in_either_lane() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("large", 1, 300, at_s=0.0))
    scheduler.add(request("small", 1, 5, at_s=1.0))
    tight = {"fits": lambda one: len(one.source) < 10}
    assert scheduler.admit(1.0, Load(8, lane="long", **tight)) == []
    assert scheduler.lacks_memory
    assert scheduler.admit(1.0, Load(8, **tight)) == []
    assert names(scheduler.admit(2.0, Load(8, lane="long"))) == ["large"]
    assert not scheduler.lacks_memory
    assert names(scheduler.admit(2.0, Load(8, **tight))) == ["small"]


def test_who_gave_up_waiting_for_memory_holds_nobody_up() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("large", 1, 300, at_s=0.0))
    scheduler.add(request("small", 1, 5, at_s=1.0))
    assert scheduler.admit(1.0, Load(8, lane="long", fits=lambda _: False)) == []
    scheduler.abort("large")
    assert not scheduler.lacks_memory
    assert names(scheduler.admit(1.0, Load(8))) == ["small"]


def test_a_small_document_passes_a_large_one() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("large", 200, 20, at_s=0.0))
    for _ in range(4):
        assert set(names(scheduler.admit(1.0, Load(4, lane="long")))) == {"large"}
    scheduler.add(request("small", 13, 20, at_s=1.0))
    assert "small" in names(scheduler.admit(1.0, Load(4, lane="long")))


def test_two_documents_share_alike() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("first", 60, 20, at_s=0.0))
    scheduler.add(request("second", 60, 20, at_s=0.0))
    admitted = [name for _ in range(10) for name in names(scheduler.admit(1.0, Load(4, lane="long")))]
    assert abs(admitted.count("first") - admitted.count("second")) <= 1


@pytest.mark.parametrize(
    ("tick_s", "granted"),
    [(0.1, FAIR_TOKENS_PER_S), (0.01, FAIR_SHARE * 4000)],
    ids=["at least", "a share of what is done"],
)
def test_a_large_document_ages_past_a_stream_of_small_ones(tick_s: float, granted: float) -> None:
    """Two sentences of 20 tokens are admitted a tick, and two of small documents arrive."""
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("large", 200, 20, at_s=0.0))
    served = 0
    for tick in range(100):
        if tick % 10 == 0:
            scheduler.add(request(f"small {tick}", 20, 20, tick * tick_s))
        served += names(scheduler.admit(tick * tick_s, Load(2, lane="long"))).count("large")
    small = 40 / tick_s
    assert served == pytest.approx(200 * granted / (granted + small), abs=8)


def test_within_a_request_the_longest_start_first() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add([sentence([7] * length) for length in (3, 9, 5, 7)])
    assert [len(one.source) for one in scheduler.admit(0.0, Load(8))] == [9, 7, 5, 3]


def test_admission_is_bounded_in_tokens_but_never_stuck() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("many", 5, 60))
    scheduler.add(request("huge", 1, 400, at_s=0.8))
    admitted = [scheduler.admit(0.0, Load(8, lane="long")) for _ in range(6)]
    assert sorted(tuple(len(one.source) for one in step) for step in admitted) == [(60,)] * 5 + [(400,)]


def test_a_wide_sentence_waits_for_its_rows_and_is_not_overtaken() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("wide", 1, 5, at_s=0.0, beam_size=4))
    scheduler.add(request("narrow", 1, 5, at_s=1.0))
    assert names(scheduler.admit(2.0, Load(3))) == []
    assert names(scheduler.admit(2.0, Load(5))) == ["wide", "narrow"]


@pytest.mark.parametrize(("share", "expected"), [(0, 0), (1, 1), (3, 3), (9, 8)])
def test_a_worker_starts_its_share(share: int, expected: int) -> None:
    scheduler = Scheduler(EngineLimits(max_rows=32))
    scheduler.add(request("batch", 8, 5))
    assert len(scheduler.admit(0.0, Load(32, share))) == expected


def test_a_request_is_taken_whole_or_not_at_all() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("first", 250, 1))
    with pytest.raises(QueueFullError) as refused:
        scheduler.add(request("second", 51, 1))
    assert refused.value.retry_after_s >= MIN_RETRY_S
    assert scheduler.sentences == 250
    scheduler.add(request("third", 50, 1))
    with pytest.raises(QueueFullError):
        scheduler.add(request("fourth", 1, 1))


def test_tokens_are_bounded_too() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("first", 1, 8000))
    with pytest.raises(QueueFullError):
        scheduler.add(request("second", 1, 1001))
    assert scheduler.tokens == 8000


def test_a_full_line_is_known_before_a_request_is_read() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("first", 299, 1))
    scheduler.check_room()
    scheduler.add(request("second", 1, 1))
    with pytest.raises(QueueFullError):
        scheduler.check_room()
    scheduler.abort("first")
    scheduler.check_room()
    scheduler.add(request("third", 1, 8999))
    with pytest.raises(QueueFullError):
        scheduler.check_room()


def test_what_never_fits_is_no_matter_of_trying_again() -> None:
    with pytest.raises(TooManyTextsError):
        Scheduler(LIMITS).add(request("crowd", 301, 1))
    with pytest.raises(TextTooLongError):
        Scheduler(LIMITS).add(request("book", 1, 9001))


def test_retry_after_follows_the_measured_rate() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("backlog", 300, 30))
    assert scheduler.retry_after_s(5000) == MIN_RETRY_S
    for tick in range(6):
        scheduler.admit(
            tick * 0.1, Load(8, lane="long")
        )  # 3 sentences of 30 tokens fit in an admission: 900 tokens/s
    assert scheduler.retry_after_s(4500) == pytest.approx(5.0)
    assert scheduler.retry_after_s(10) == MIN_RETRY_S
    assert scheduler.retry_after_s(10**6) == MAX_RETRY_S


def test_idle_time_does_not_count_as_slowness() -> None:
    scheduler = Scheduler(LIMITS)
    for tick in range(5):
        scheduler.add(request(f"rare {tick}", 1, 30, at_s=tick * 100.0))
        scheduler.admit(tick * 100.0, Load(8))
    assert scheduler.retry_after_s(5000) == MIN_RETRY_S


def test_overdue_sentences_leave_the_line() -> None:
    scheduler = line(
        sentence([7], request="a", deadline_s=5.0), sentence([7], request="b"), sentence([7], request="a")
    )
    assert scheduler.expire(4.9) == []
    assert names(scheduler.expire(5.0)) == ["a"]
    assert scheduler.expire(100.0) == []
    assert sorted(names(scheduler.admit(6.0, Load(8)))) == ["a", "b"]


def test_deadlines_of_later_arrivals_are_seen() -> None:
    scheduler = line(sentence([7], request="a", deadline_s=50.0))
    assert scheduler.expire(10.0) == []
    scheduler.add([sentence([7], request="b", deadline_s=20.0)])
    assert names(scheduler.expire(30.0)) == ["b"]
    assert names(scheduler.expire(50.0)) == ["a"]


def test_abort_empties_a_request_which_may_come_again() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request("a", 3, 4))
    scheduler.add(request("b", 2, 4))
    assert len(scheduler.abort("a")) == 3
    assert scheduler.abort("a") == []
    assert scheduler.abort("nobody") == []
    assert (scheduler.sentences, scheduler.tokens) == (2, 8)
    scheduler.add(request("a", 1, 4))
    assert sorted(names(scheduler.admit(0.0, Load(8)))) == ["a", "b", "b"]


def test_sentences_marked_as_aborted_are_never_started() -> None:
    aborted, wanted = sentence([7], request="a"), sentence([7], request="b")
    scheduler = line(aborted, wanted)
    aborted.aborted = True
    assert scheduler.admit(0.0, Load(8)) == [wanted]
    assert scheduler.sentences == 0


def test_drain_and_oldest() -> None:
    scheduler = line(sentence([7], request="a", at_s=3.0), sentence([7], request="b", at_s=2.0))
    assert scheduler.oldest_s() == 2.0
    assert len(scheduler.drain()) == 2
    assert scheduler.oldest_s() is None
    assert scheduler.admit(0.0, Load(8)) == []


def test_encoder_batches_cut_off_padding_where_it_costs_more_than_a_run() -> None:
    sentences = [sentence([7] * length) for length in (50, 3, 49, 4, 5)]
    lengths = [[len(one.source) for one in run] for run in encoder_batches(sentences, 1000)]
    assert lengths == [[50, 49], [5, 4, 3]]
    assert encoder_batches([], 1000) == []
    alike = [sentence([7] * length) for length in (12, 12, 10, 10)]
    assert CALL_COST_TOKENS >= (12 - 10) * 2
    assert len(encoder_batches(alike, 1000)) == 1


def test_encoder_batches_are_bounded_and_of_one_beam_width() -> None:
    sentences = [sentence([7] * 40, DecodingOptions(beam_size=1 + n % 2)) for n in range(9)]
    runs = encoder_batches(sentences, 100)
    assert sorted(len(run) for run in runs) == [1, 2, 2, 2, 2]
    assert all(len({one.beam_size for one in run}) == 1 for run in runs)
    assert {one for run in runs for one in run} == set(sentences)
