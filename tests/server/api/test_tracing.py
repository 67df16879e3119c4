"""The `traceparent` header, strictly, and the end."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from server.api import tracing
from server.api.tracing import Tracing, read_traceparent

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


def test_the_end_does_not_wait_for_a_collector_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_CLOSE_TIMEOUT_S", 0.01)
    answered = threading.Event()

    class Silent(SpanProcessor):
        def shutdown(self) -> None:
            answered.wait()

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Silent())
    Tracing(provider).close()
    (closing,) = (thread for thread in threading.enumerate() if thread.name == "tracing-close")
    assert closing.daemon  # the end of the process would wait for it otherwise
    answered.set()
    closing.join()


@given(st.binary(max_size=80))
def test_any_bytes_are_borne(value: bytes) -> None:
    assert read_traceparent(value) in (None, value[:55].decode("latin-1"))
