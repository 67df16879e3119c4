"""Items made ahead: the same, in order, with their errors, and no thread left behind."""

import threading
from collections.abc import Iterator

import pytest

from model.data.prefetch import prefetched


def test_items_come_in_order_and_made_ahead() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    found = []
    for item in prefetched(items(), depth=4):
        found.append(item)
        assert len(made) <= item + 7
    assert found == list(range(100))


def test_an_error_is_raised_where_the_items_are_read() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    reader = prefetched(items())
    assert next(reader) == 1
    with pytest.raises(ValueError, match="broken"):
        next(reader)


def test_closing_ends_the_thread() -> None:
    before = threading.active_count()
    reader = prefetched(iter(range(10**9)), depth=2)
    assert next(reader) == 0
    reader.close()
    assert threading.active_count() == before
