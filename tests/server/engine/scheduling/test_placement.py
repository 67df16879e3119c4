import pytest

from server.engine.options import DecodingOptions
from server.engine.scheduling.placement import Placement
from server.engine.scheduling.waiting_queue import Rivalry
from server.engine.sequence import Priority
from server.engine.sequence import Sequence as Sentence
from tests.server.engine.fakes import sentence


def one(beam_size: int = 1, priority: Priority = "interactive") -> Sentence:
    return sentence([7], DecodingOptions(beam_size=beam_size), priority=priority)


def fill(placement: Placement, count: int, *, rivalry: Rivalry = "none", **asked: object) -> list[int | None]:
    """Place so many sentences; gives their workers, None from the first that has no place on."""
    workers = []
    for _ in range(count):
        each = one(**asked)
        worker = placement.choose(each, rivalry)
        workers.append(worker)
        if worker is not None:
            placement.place(each, worker)
    return workers


def test_the_worker_with_the_fewest_rows_is_next() -> None:
    placement = Placement(3, 4, 0, 1)
    assert fill(placement, 5) == [0, 1, 2, 0, 1]


def test_few_rows_stay_together_where_that_pays() -> None:
    placement = Placement(2, 16, 0, 6)
    assert fill(placement, 14) == [0] * 6 + [1] * 6 + [0, 1]


def test_together_are_at_most_half_of_the_rows() -> None:
    assert fill(Placement(2, 4, 0, 6), 5) == [0, 0, 1, 1, 0]


def test_rows_ahead_are_given_and_then_none() -> None:
    placement = Placement(2, 2, 1, 1)
    assert fill(placement, 7) == [0, 1, 0, 1, 0, 1, None]
    assert (placement.busy_rows, placement.rows_ahead) == (4, 2)


def test_rows_of_one_that_has_left_are_given_again() -> None:
    placement = Placement(1, 1, 0, 1)
    first = one()
    placement.place(first, 0)
    assert placement.choose(one(), "none") is None
    placement.remove(first, 0)
    assert placement.choose(one(), "none") == 0


def test_a_sentence_with_more_rows_than_there_are_free_waits() -> None:
    placement = Placement(1, 8, 0, 1)
    assert fill(placement, 5) == [0] * 5
    assert placement.choose(one(beam_size=4), "none") is None
    assert placement.choose(one(beam_size=3), "none") == 0


def test_a_dead_worker_gets_nothing_and_has_nothing_when_it_comes_back() -> None:
    placement = Placement(2, 4, 0, 1)
    fill(placement, 4)
    placement.set_available(0, available=False)
    assert fill(placement, 3) == [1, 1, None]
    assert placement.busy_rows == 4
    placement.set_available(0, available=True)
    assert fill(placement, 2) == [0, 0]


@pytest.mark.parametrize(("rivalry", "placed"), [("present", 4), ("expected", 12), ("none", 16)])
def test_bulk_sentences_leave_rows_to_interactive_ones(rivalry: Rivalry, placed: int) -> None:
    placement = Placement(1, 16, 0, 1)
    assert fill(placement, 20, rivalry=rivalry, priority="bulk").count(0) == placed


def test_interactive_sentences_leave_bulk_ones_their_quarter() -> None:
    placement = Placement(1, 16, 0, 1)
    assert fill(placement, 20, rivalry="present").count(0) == 12
    assert fill(placement, 20, rivalry="present", priority="bulk").count(0) == 4


def test_however_few_rows_there_are_each_class_gets_one() -> None:
    placement = Placement(1, 2, 0, 1)
    assert fill(placement, 1, rivalry="present", priority="bulk") == [0]
    assert fill(placement, 1, rivalry="present") == [0]
