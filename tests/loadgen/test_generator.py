"""The load generator against a real server whose behaviour is known."""

import asyncio
import itertools
import json
import time
from collections.abc import Iterator

import pytest

from loadgen.connection import Answer, Target, TargetError
from loadgen.generator import Generator, Plan, arrival_times
from loadgen.samples import ANSWERED, Samples
from loadgen.texts import make_bodies
from tests.support.known_server import KnownServer, serving
from tests.support.server_process import free_port


@pytest.fixture
def server() -> Iterator[KnownServer]:
    with serving(KnownServer()) as server:
        yield server


def send(server: KnownServer, *texts: str, plan: Plan, headers: dict[str, str] | None = None) -> Samples:
    target = Target.parse(f"http://127.0.0.1:{server.port}", headers)
    generator = Generator(target, make_bodies(texts or ("some text",), {}), plan)
    asyncio.run(generator.run())
    assert generator.under_way == 0
    return generator.samples


def test_poisson_arrivals_have_their_rate_and_are_always_the_same() -> None:
    times = list(arrival_times(Plan(seconds=90.0, warm_s=10.0, rate=50.0)))
    assert len(times) == pytest.approx(5000, rel=0.05)
    assert times == sorted(times) == list(arrival_times(Plan(seconds=90.0, warm_s=10.0, rate=50.0)))
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    # Of an exponential distribution, 63 % are below the mean.
    assert sum(gap < mean for gap in gaps) / len(gaps) == pytest.approx(0.632, abs=0.03)
    assert times != list(arrival_times(Plan(seconds=90.0, warm_s=10.0, rate=50.0, seed=2)))


def test_fixed_arrivals_are_evenly_spaced() -> None:
    assert list(arrival_times(Plan(seconds=0.5, rate=10.0, arrivals="fixed"))) == pytest.approx(
        [0, 0.1, 0.2, 0.3, 0.4]
    )


def test_a_client_that_was_busy_counts_the_wait_as_latency(server: KnownServer) -> None:
    """What is called coordinated omission: half a second without sending must show in the latencies."""
    plan = Plan(seconds=1.0, rate=100.0, arrivals="fixed")
    generator = Generator(Target.parse(f"127.0.0.1:{server.port}"), make_bodies(["text"], {}), plan)

    async def run() -> None:
        asyncio.get_running_loop().call_later(0.2, time.sleep, 0.5)
        await generator.run()

    asyncio.run(run())
    found = generator.samples
    slow = [
        done - meant
        for done, meant in zip(found.finished_s, found.meant_s, strict=True)
        if done - meant > 0.1
    ]
    assert len(found) == 100
    assert len(slow) >= 35  # those meant for the first 0.4 of the 0.5 s
    assert max(found.late_s) > 0.4


def test_an_open_loop_that_is_behind_gives_others_their_turn() -> None:
    plan = Plan(seconds=0.001, rate=1e6, arrivals="fixed")
    turns, sent = 0, []

    def bodies() -> Iterator[bytes]:
        while True:
            sent.append(turns)
            yield b"{}"

    async def run() -> None:
        nonlocal turns
        load = asyncio.create_task(generator.run())
        while not load.done():
            turns += 1
            await asyncio.sleep(0)

    generator = Generator(Target.parse(f"127.0.0.1:{free_port()}"), bodies(), plan)
    asyncio.run(run())
    assert len(sent) == len(set(sent)) == len(generator.samples) == 1000


def test_an_open_loop_goes_on_while_the_server_stalls(server: KnownServer) -> None:
    server.delay_s = 0.3
    found = send(server, plan=Plan(seconds=0.5, rate=60.0))
    assert server.most_at_once > 10
    assert found.counts == {ANSWERED: len(server.texts)}
    assert server.headers.startswith(b"post /translate http/1.1")


def test_every_way_to_fail_has_a_name(server: KnownServer) -> None:
    texts = ("good", "refuse", "hang up", "never", "nonsense", "later")
    server.refusals = 1000
    found = send(server, *texts, plan=Plan(seconds=0.3, rate=100.0, arrivals="fixed", timeout_s=0.5))
    assert found.counts == {
        ANSWERED: 5,
        "503": 5,
        "connection closed": 5,
        "timeout": 5,
        "unreadable answer": 5,
        "429 queue_full": 5,
    }


def test_nobody_there_has_one_too() -> None:
    found = send(KnownServer(port=free_port()), plan=Plan(seconds=0.1, rate=50.0, arrivals="fixed"))
    assert found.counts == {"connection refused": 5}


def test_refused_requests_are_sent_again_if_that_is_wished(server: KnownServer) -> None:
    server.refusals = 3
    found = send(server, "later", plan=Plan(seconds=0.1, rate=10.0, arrivals="fixed", retries=2))
    assert (found.counts, found.retries) == ({"429 queue_full": 1}, 2)
    found = send(server, "later", plan=Plan(seconds=0.1, rate=10.0, arrivals="fixed", retries=2))
    assert (found.counts, found.retries) == ({ANSWERED: 1}, 0)


def test_a_connection_that_the_server_closed_is_opened_again(server: KnownServer) -> None:
    server.closes = True
    found = send(server, plan=Plan(seconds=0.5, rate=10.0, arrivals="fixed"))
    assert found.counts == {ANSWERED: 5}
    assert server.connections == 5


def test_what_is_under_way_when_it_is_stopped_is_unanswered(server: KnownServer) -> None:
    plan = Plan(seconds=60.0, clients=3)
    generator = Generator(Target.parse(f"127.0.0.1:{server.port}"), make_bodies(["never"], {}), plan)

    async def run() -> None:
        task = asyncio.create_task(generator.run())
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(run())
    assert generator.samples.counts == {"unanswered": 3}


@pytest.mark.parametrize(
    ("translated", "words"), [("eins zwei", 2), (["eins zwei", "drei", ""], 3), ("", 0), ([], 0)]
)
@pytest.mark.parametrize("separators", [None, (",", ":")])
def test_words_are_those_of_the_translations(
    translated: object, words: int, separators: tuple[str, str] | None
) -> None:
    said = {"translatedText": translated, "warnings": ["more than one word"]}
    assert Answer(200, json.dumps(said, separators=separators).encode(), None).words == words


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"ja", b"5", b"[]", b"{}", b'{"translatedText":[5]}', b"[" * 100_000]
)
def test_an_answer_without_a_translation_has_no_words(body: bytes) -> None:
    with pytest.raises(ValueError, match="no translatedText"):
        _ = Answer(200, body, None).words


def test_a_target_has_a_path_and_headers(server: KnownServer) -> None:
    target = Target.parse("https://example.org:444/api/", {"Authorization": "Bearer key"})
    assert (target.host, target.port) == ("example.org", 444)
    assert target.head.startswith(b"POST /api/translate HTTP/1.1\r\nHost: example.org:444\r\n")
    assert target.head.endswith(b"Authorization: Bearer key\r\n")
    assert target.tls is not None
    assert Target.parse("localhost:1/translate").head.startswith(b"POST /translate ")
    assert Target.parse("http://[::1]:9").host == "::1"


@pytest.mark.parametrize(
    "url", ["", "http://", "ftp://x", "http://x:99999", "http://x/?q=1", "http://[", "x/\u4e00"]
)
def test_what_is_no_target_is_refused(url: str) -> None:
    with pytest.raises(TargetError):
        Target.parse(url)


def test_a_header_cannot_break_out() -> None:
    with pytest.raises(TargetError):
        Target.parse("http://x", {"Authorization": "Bearer a\r\nX: y"})


def test_bodies_are_what_is_sent(server: KnownServer) -> None:
    send(server, "eins", "zwei", plan=Plan(seconds=0.2, rate=10.0, arrivals="fixed"))
    assert server.texts == ["eins", "zwei"]
    assert json.loads(next(make_bodies(["eins"], {"beam_size": 2}))) == {"q": "eins", "beam_size": 2}
