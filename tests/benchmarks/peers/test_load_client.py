"""The client process of the HTTP benchmark against a real server whose behaviour is known."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.peers import load_client
from tests.support.known_server import KnownServer, serving


@pytest.fixture
def server() -> Iterator[KnownServer]:
    with serving(KnownServer()) as server:
        yield server


def ask(texts: list[str], **question: Any) -> Any:
    prepared: dict[str, Any] = {}
    load_client.answer({"op": "prepare", "texts": texts, "fields": {"source": "en"}}, prepared)
    return load_client.answer(question, prepared)


@pytest.mark.parametrize("clients", [1, 5])
def test_a_closed_loop_keeps_as_many_requests_under_way(server: KnownServer, clients: int) -> None:
    server.delay_s = 0.02
    texts = [f"text {n}" for n in range(7)]
    window_s = 2.0  # longer than a busy machine lets a process wait
    found = ask(texts, op="closed", port=server.port, clients=clients, warm_s=0.1, seconds=window_s)
    assert server.most_at_once == clients == server.connections
    assert server.texts[:14] == list(itertools.islice(itertools.cycle(texts), min(14, len(server.texts))))
    assert found["failures"] == {}
    assert min(found["latencies_s"]) >= server.delay_s
    # Who waits 20 ms for each answer gets at most 50 a second, and only those of the window count.
    assert 0 < found["per_s"] == len(found["latencies_s"]) / window_s <= 50 * clients + clients / window_s
    assert found["words_per_s"] == pytest.approx(2 * found["per_s"], rel=0.2)
    assert found["client_cpu_s"] > 0


def test_an_open_loop_does_not_wait_for_answers(server: KnownServer) -> None:
    server.delay_s = 0.3
    found = ask(["text"], op="open", port=server.port, rate=60.0, seconds=0.5)
    assert server.most_at_once > 10
    assert len(found["latencies_s"]) == len(server.texts) > 15
    assert min(found["latencies_s"]) >= server.delay_s


def test_an_open_loop_always_draws_the_same_times(server: KnownServer) -> None:
    for _ in range(2):
        ask(["text"], op="open", port=server.port, rate=40.0, seconds=0.5)
    half = len(server.texts) // 2
    assert len(server.texts) == 2 * half
    first, second = (
        [at - times[0] for at in times] for times in (server.arrived_s[:half], server.arrived_s[half:])
    )
    assert first == pytest.approx(second, abs=0.15)


def test_failures_are_counted_and_give_no_latency(server: KnownServer) -> None:
    found = ask(["good", "refuse", "hang up"], op="open", port=server.port, rate=60.0, seconds=0.5)
    expected = {
        kind: server.texts.count(text) for kind, text in (("503", "refuse"), ("connection closed", "hang up"))
    }
    assert found["failures"] == expected
    assert len(found["latencies_s"]) == server.texts.count("good")


def test_an_array_is_one_request(server: KnownServer) -> None:
    texts = [f"text {n}" for n in range(500)]
    found = ask(texts, op="array", port=server.port)
    assert server.texts == [texts]
    assert len(found["latencies_s"]) == 1
