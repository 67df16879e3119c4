import itertools
from collections.abc import Callable

import pytest

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.scheduling.waiting_queue import (
    BULK_TOKENS,
    EXPECTED_FOR_S,
    FAIR_SHARE,
    FAIR_TOKENS_PER_S,
    MAX_RETRY_S,
    MIN_RETRY_S,
    PRESENT_FOR_S,
    Rivalry,
    WaitingQueue,
    priority_of,
)
from server.engine.sequence import Priority
from server.engine.sequence import Sequence as Sentence
from server.errors import QueueFullError, TextTooLongError, TooManyTextsError
from tests.server.engine.fakes import sentence

LIMITS = EngineLimits(max_rows=8, max_queue_sentences=300, max_queue_tokens=9000)


def request(
    name: str, count: int, length: int, at_s: float = 0.0, beam_size: int = 1, priority: Priority = "bulk"
) -> list[Sentence]:
    options = DecodingOptions(beam_size=beam_size)
    return [sentence([7] * length, options, name, at_s, priority=priority) for _ in range(count)]


def queue_of(*sentences: Sentence) -> WaitingQueue:
    queue = WaitingQueue(LIMITS)
    for one in sentences:
        queue.add([one])
    return queue


def room(rows: int) -> Callable[[Sentence, Rivalry], int | None]:
    """A worker with so many free rows, whatever the priority."""
    left = rows

    def place(one: Sentence, rivalry: Rivalry) -> int | None:
        nonlocal left
        if one.beam_size > left:
            return None
        left -= one.beam_size
        return 0

    return place


def take(queue: WaitingQueue, rows: int, now_s: float = 0.0) -> list[Sentence]:
    return [one for one, _ in queue.take(now_s, room(rows))]


def names(sentences: list[Sentence]) -> list[str]:
    return [one.request_id for one in sentences]


def test_takes_in_order_of_arrival_what_rows_allow() -> None:
    queue = queue_of(*[sentence([7], request=str(n), at_s=n) for n in range(5)])
    assert names(take(queue, 3)) == ["0", "1", "2"]
    assert names(take(queue, 0)) == []
    assert names(take(queue, 8)) == ["3", "4"]
    assert (queue.sentences, queue.tokens) == (0, 0)


def test_a_request_of_many_tokens_is_bulk() -> None:
    greedy, wide = DecodingOptions(), DecodingOptions(beam_size=4)
    assert priority_of([[7] * BULK_TOKENS], [greedy]) == "interactive"
    assert priority_of([[7] * (BULK_TOKENS // 4 + 1)], [wide]) == "bulk"
    assert priority_of([[7] * (BULK_TOKENS // 2 + 1)] * 2, [greedy] * 2) == "bulk"


def test_interactive_requests_are_served_first() -> None:
    queue = WaitingQueue(LIMITS)
    queue.add(request("document", 5, 9, at_s=0.0))
    queue.add(request("short", 2, 3, at_s=1.0, priority="interactive"))
    assert names(take(queue, 3)) == ["short", "short", "document"]


def test_classes_compete_while_both_wait_and_a_while_after_an_interactive_request() -> None:
    seen: list[tuple[str, Rivalry]] = []

    def place(one: Sentence, rivalry: Rivalry) -> int:
        seen.append((one.request_id, rivalry))
        return 0

    queue = WaitingQueue(LIMITS)
    queue.add(request("a", 1, 3, at_s=0.0, priority="interactive"))
    queue.take(0.0, place)
    queue.add(request("b", 1, 3, at_s=0.1))
    queue.take(PRESENT_FOR_S / 2, place)
    queue.add(request("c", 1, 3, at_s=0.2))
    queue.take(PRESENT_FOR_S, place)
    queue.add(request("d", 1, 3, at_s=0.3))
    queue.take(EXPECTED_FOR_S, place)
    queue.add(request("e", 1, 3, at_s=99.0))
    queue.add(request("f", 1, 3, at_s=99.0, priority="interactive"))
    queue.take(99.0, place)
    assert seen == [
        ("a", "none"),
        ("b", "present"),
        ("c", "expected"),
        ("d", "none"),
        ("f", "present"),
        ("e", "present"),
    ]


def test_short_requests_of_several_sentences_are_not_overtaken_by_later_ones() -> None:
    queue = WaitingQueue(LIMITS)
    queue.add(request("four", 4, 60, at_s=0.0, priority="interactive"))
    for number in range(8):
        queue.add(request(f"one {number}", 1, 5, at_s=0.01 * number, priority="interactive"))
    served = [name for _ in range(6) for name in names(take(queue, 2))]
    assert served[:4] == ["four"] * 4


def test_a_small_document_passes_a_large_one() -> None:
    queue = WaitingQueue(LIMITS)
    queue.add(request("large", 200, 20, at_s=0.0))
    for _ in range(4):
        assert set(names(take(queue, 4, 1.0))) == {"large"}
    queue.add(request("small", 13, 20, at_s=1.0))
    assert "small" in names(take(queue, 4, 1.0))


def test_two_documents_share_alike() -> None:
    queue = WaitingQueue(LIMITS)
    queue.add(request("first", 60, 20, at_s=0.0))
    queue.add(request("second", 60, 20, at_s=0.0))
    served = [name for _ in range(10) for name in names(take(queue, 4, 1.0))]
    assert abs(served.count("first") - served.count("second")) <= 1


@pytest.mark.parametrize(
    ("tick_s", "granted"),
    [(0.1, FAIR_TOKENS_PER_S), (0.01, FAIR_SHARE * 4000)],
    ids=["at least", "a share of what is done"],
)
def test_a_large_document_ages_past_a_stream_of_small_ones(tick_s: float, granted: float) -> None:
    """Two sentences of 20 tokens are served a tick, and two of small documents arrive."""
    queue = WaitingQueue(LIMITS)
    queue.add(request("large", 200, 20, at_s=0.0))
    served = 0
    for tick in range(100):
        if tick % 10 == 0:
            queue.add(request(f"small {tick}", 20, 20, tick * tick_s))
        served += names(take(queue, 2, tick * tick_s)).count("large")
    small = 40 / tick_s
    assert served == pytest.approx(200 * granted / (granted + small), abs=8)


def test_within_a_request_the_longest_start_first() -> None:
    queue = WaitingQueue(LIMITS)
    queue.add([sentence([7] * length) for length in (3, 9, 5, 7)])
    assert [len(one.source) for one in take(queue, 8)] == [9, 7, 5, 3]


def test_a_wide_sentence_waits_for_its_rows_and_is_not_overtaken() -> None:
    queue = WaitingQueue(LIMITS)
    queue.add(request("wide", 1, 5, at_s=0.0, beam_size=4))
    queue.add(request("narrow", 1, 5, at_s=1.0))
    assert names(take(queue, 3, 2.0)) == []
    assert names(take(queue, 5, 2.0)) == ["wide", "narrow"]


def test_a_request_is_taken_whole_or_not_at_all() -> None:
    queue = WaitingQueue(LIMITS)
    queue.add(request("first", 250, 1))
    with pytest.raises(QueueFullError) as refused:
        queue.add(request("second", 51, 1))
    assert refused.value.retry_after_s >= MIN_RETRY_S
    assert queue.sentences == 250
    queue.add(request("third", 50, 1))
    with pytest.raises(QueueFullError):
        queue.add(request("fourth", 1, 1))


def test_tokens_are_bounded_too() -> None:
    queue = WaitingQueue(LIMITS)
    queue.add(request("first", 1, 8000))
    with pytest.raises(QueueFullError):
        queue.add(request("second", 1, 1001))
    assert queue.tokens == 8000


def test_a_full_queue_is_known_before_a_request_is_read() -> None:
    queue = WaitingQueue(LIMITS)
    queue.add(request("first", 299, 1))
    queue.check_room()
    queue.add(request("second", 1, 1))
    with pytest.raises(QueueFullError):
        queue.check_room()
    queue.abort("first")
    queue.check_room()
    queue.add(request("third", 1, 8999))
    with pytest.raises(QueueFullError):
        queue.check_room()


def test_what_never_fits_is_no_matter_of_trying_again() -> None:
    with pytest.raises(TooManyTextsError):
        WaitingQueue(LIMITS).add(request("crowd", 301, 1))
    with pytest.raises(TextTooLongError):
        WaitingQueue(LIMITS).add(request("book", 1, 9001))


def test_retry_after_follows_the_measured_rate() -> None:
    queue = WaitingQueue(LIMITS)
    queue.add(request("backlog", 300, 30))
    assert queue.retry_after_s(5000) == MIN_RETRY_S
    for tick in range(6):
        take(queue, 3, tick * 0.1)  # 3 sentences of 30 tokens: 900 tokens/s
    assert queue.retry_after_s(4500) == pytest.approx(5.0)
    assert queue.retry_after_s(10) == MIN_RETRY_S
    assert queue.retry_after_s(10**6) == MAX_RETRY_S


def test_idle_time_does_not_count_as_slowness() -> None:
    queue = WaitingQueue(LIMITS)
    for tick in range(5):
        queue.add(request(f"rare {tick}", 1, 30, at_s=tick * 100.0))
        take(queue, 8, tick * 100.0)
    assert queue.retry_after_s(5000) == MIN_RETRY_S


def test_overdue_sentences_leave_the_queue() -> None:
    queue = queue_of(
        sentence([7], request="a", deadline_s=5.0), sentence([7], request="b"), sentence([7], request="a")
    )
    assert queue.expire(4.9) == []
    assert names(queue.expire(5.0)) == ["a"]
    assert queue.expire(100.0) == []
    assert sorted(names(take(queue, 8, 6.0))) == ["a", "b"]


def test_deadlines_of_later_arrivals_are_seen() -> None:
    queue = queue_of(sentence([7], request="a", deadline_s=50.0))
    assert queue.expire(10.0) == []
    queue.add([sentence([7], request="b", deadline_s=20.0)])
    assert names(queue.expire(30.0)) == ["b"]
    assert names(queue.expire(50.0)) == ["a"]


def test_abort_empties_a_request_which_may_come_again() -> None:
    queue = WaitingQueue(LIMITS)
    queue.add(request("a", 3, 4))
    queue.add(request("b", 2, 4))
    assert len(queue.abort("a")) == 3
    assert queue.abort("a") == []
    assert queue.abort("nobody") == []
    assert (queue.sentences, queue.tokens) == (2, 8)
    queue.add(request("a", 1, 4))
    assert sorted(names(take(queue, 8))) == ["a", "b", "b"]


def test_one_sentence_of_a_request_may_be_taken_out() -> None:
    queue = WaitingQueue(LIMITS)
    first, second = request("a", 2, 4)
    queue.add([first, second])
    queue.remove([first, sentence([7], request="never heard of")])
    assert take(queue, 8) == [second]


def test_drain_and_oldest() -> None:
    queue = queue_of(sentence([7], request="a", at_s=3.0), sentence([7], request="b", at_s=2.0))
    assert queue.oldest_s() == 2.0
    assert len(queue.drain()) == 2
    assert queue.oldest_s() is None
    assert take(queue, 8) == []


def test_requests_that_come_and_go_leave_nothing_behind() -> None:
    queue = WaitingQueue(LIMITS)
    for number, priority in itertools.product(range(50), ("interactive", "bulk")):
        queue.add(request(f"{priority} {number}", 2, 3, at_s=number, priority=priority))
        queue.abort(f"{priority} {number - 1}")
        take(queue, 3, number)
    take(queue, 300, 99.0)
    assert (queue.sentences, queue.tokens) == (0, 0)
    assert queue._requests == {}
