"""Which engine process a sentence goes to."""

from concurrent.futures import Future

import pytest

from server.engine.options import DecodingOptions
from server.engine.scheduling.placement import PACKED_AGAIN_ROWS, PACKED_ROWS, QUIET_ROWS, Packing
from server.engine.scheduling.priority import Lane
from server.engine.sequence import Sequence

MAX_ROWS = 64


class Processes:
    """So many processes, and the rows that they have."""

    def __init__(self, count: int, max_rows: int = MAX_ROWS) -> None:
        self.rows: dict[Lane, list[int]] = {"short": [0] * count, "long": [0] * count}
        self.packing = Packing(self.rows, max_rows)

    def send(self, sentences: int = 1, beam_size: int = 1, lane: Lane = "short") -> list[int]:
        """Send sentences that come together; the processes that they went to."""
        self.packing.arrive(sentences)
        chosen = []
        for _ in range(sentences):
            sequence = Sequence("r", (5, 2), DecodingOptions(beam_size=beam_size), 0.0, 1.0, Future())
            chosen.append(self.packing.choose(sequence, lane))
            self.rows[lane][chosen[-1]] += beam_size
        return chosen


def test_sentences_that_come_one_by_one_leave_a_core_to_the_others() -> None:
    two, four = Processes(2), Processes(4)
    assert [two.send() for _ in range(20)] == [[0]] * 20
    assert [four.send() for _ in range(20)] == [[0], [1], [2]] * 6 + [[0], [1]]


def test_one_process_gets_everything() -> None:
    one = Processes(1)
    assert one.send() + one.send(80) + one.send(beam_size=4) == [0] * 82


def test_too_many_are_spread_until_there_are_far_fewer() -> None:
    two = Processes(2)
    for _ in range(PACKED_ROWS):
        two.send()
    assert two.rows["short"] == [PACKED_ROWS, 0]
    for _ in range(PACKED_ROWS):
        two.send()
    assert two.rows["short"] == [PACKED_ROWS, PACKED_ROWS]
    two.rows["short"][:] = [PACKED_AGAIN_ROWS, 0]
    assert two.send() == [1]
    two.rows["short"][:] = [PACKED_AGAIN_ROWS - 1, 0]
    assert two.send() == [0]
    assert two.send() == [0]  # though there are more now


def test_no_process_gets_more_than_it_has_rows() -> None:
    two = Processes(2, max_rows=8)
    for _ in range(16):
        two.send()
    assert two.rows["short"] == [8, 8]


def test_an_array_is_spread_while_it_is_quiet() -> None:
    two = Processes(2)
    assert two.send(4) == [0, 1, 0, 1]
    two.rows["short"][:] = [QUIET_ROWS, 0]
    assert two.send(4) == [0] * 4


@pytest.mark.parametrize(("beam_size", "lane"), [(4, "short"), (1, "long"), (4, "long")])
def test_beams_and_documents_are_spread(beam_size: int, lane: Lane) -> None:
    two = Processes(2)
    assert [two.send(beam_size=beam_size, lane=lane) for _ in range(4)] == [[0], [1], [0], [1]]


def test_beside_a_document_everyone_helps() -> None:
    two = Processes(2)
    two.send(4, lane="long")
    assert [two.send() for _ in range(4)] == [[0], [1], [0], [1]]


def test_of_equals_the_one_with_less_in_the_other_lane_is_first() -> None:
    two = Processes(2)
    two.rows["short"][:] = [3, 1]
    assert two.send(lane="long") == [1]
