"""The `traceparent` header, strictly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.api.tracing import read_traceparent

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize(
    "value", [GOOD, f"00-{TRACE}-{PARENT}-00", f"cc-{TRACE}-{PARENT}-01-what-comes-later"]
)
def test_what_is_one_is_taken(value: str) -> None:
    assert read_traceparent(value.encode()) == value[:55]


@pytest.mark.parametrize(
    "value",
    [
        "",
        GOOD.upper(),
        GOOD[:-1],
        GOOD + "-more",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{PARENT}-zz",
        f" {GOOD}",
        GOOD.replace("-", "_"),
        f"cc-{TRACE}-{PARENT}-01-" + "x" * 300,
        f"00-{TRACE}-{PARENT[:-1]}é-01",
    ],
)
def test_what_is_none_is_ignored(value: str) -> None:
    assert read_traceparent(value.encode()) is None


@given(st.binary(max_size=80))
def test_any_bytes_are_borne(value: bytes) -> None:
    assert read_traceparent(value) in (None, value[:55].decode("latin-1"))
