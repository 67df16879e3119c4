"""The sentence cache of a real server process: what clients and operators see of it, and what it bounds."""

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.factories import parallel_text, renamed
from tests.support.server_process import RunningServer, free_port, serving, wait_for

SENTENCES, _ = parallel_text(60, seed=5)
# Makes the model write until it may not any more: a sentence that takes a while.
LONG = {"beam_size": 4, "min_decoding_length": 120, "max_decoding_length": 120}


@dataclass(frozen=True)
class Cached:
    """A server with a cache and two models, en-de and fr-en."""

    server: RunningServer
    admin_port: int
    bundle: Path

    def translate(
        self, q: str | list[str], source: str = "en", target: str = "de", **fields: Any
    ) -> httpx.Response:
        body = {"q": q, "source": source, "target": target, **fields}
        return httpx.post(f"{self.server.url}/translate", json=body, timeout=60)

    def value(self, series: str) -> float:
        return self.server.metrics()[series]

    def counts(self) -> dict[str, float]:
        found = self.server.metrics()
        return {
            result: found[f'dragoman_cache_sentences_total{{result="{result}"}}']
            for result in ("hit", "miss")
        }

    def computed(self) -> float:
        return self.value('dragoman_model_sentences_total{model="tiny-en-de"}')


@pytest.fixture(scope="module")
def cached(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cached]:
    directory, port = tmp_path_factory.mktemp("cached"), free_port()
    bundles = [
        renamed(tiny_bundle, directory / "a", "tiny-en-de", "en-de"),
        renamed(tiny_bundle, directory / "b", "tiny-fr-en", "fr-en"),
    ]
    with serving(bundles, directory / "log", admin_port=port, cache_bytes=1 << 20) as server:
        yield Cached(server, port, bundles[0])


def test_an_answer_says_what_was_in_the_cache(cached: Cached) -> None:
    first = cached.translate(SENTENCES[:2])
    assert first.headers["x-cache"] == "miss"
    assert first.headers["server-timing"].endswith('cache;desc="0/2"')
    again = cached.translate(SENTENCES[:2])
    assert (again.headers["x-cache"], again.json()) == ("hit", first.json())
    assert again.headers["server-timing"].endswith('cache;desc="2/2"')
    some = cached.translate(SENTENCES[1:4])
    assert some.headers["x-cache"] == "partial"
    assert some.headers["server-timing"].endswith('cache;desc="1/3"')
    assert some.json()["translatedText"][0] == first.json()["translatedText"][1]

    def logged() -> list[int]:
        lines = cached.server.log.read_text().splitlines()
        return [json.loads(line)["cached"] for line in lines if '"cached"' in line]

    wait_for(lambda: logged()[-3:] == [0, 2, 1])  # lines of a turn are written after its answers


def test_operators_see_hits_misses_and_bytes(cached: Cached) -> None:
    before, computed, held = cached.counts(), cached.computed(), cached.value("dragoman_cache_bytes")
    for _ in range(3):
        cached.translate(SENTENCES[10:14])
    after = cached.counts()
    assert {name: after[name] - before[name] for name in after} == {"hit": 8, "miss": 4}
    assert cached.computed() == computed + 4
    assert (
        held
        < cached.value("dragoman_cache_bytes")
        <= cached.value("dragoman_cache_capacity_bytes")
        == 1 << 20
    )
    assert cached.value("dragoman_cache_entries") >= 4


def test_drawn_sentences_are_always_drawn(cached: Cached) -> None:
    computed = cached.computed()
    for _ in range(3):
        assert "x-cache" not in cached.translate(SENTENCES[20], sampling_topk=0).headers
    assert cached.computed() == computed + 3
    seeded = [cached.translate(SENTENCES[20], sampling_topk=0, seed=7) for _ in range(2)]
    assert [answer.headers["x-cache"] for answer in seeded] == ["miss", "hit"]
    assert seeded[0].json() == seeded[1].json()


def test_the_same_at_the_same_time_has_the_same_answer(cached: Cached) -> None:
    together = threading.Barrier(8)

    def send() -> httpx.Response:
        together.wait(30)
        return cached.translate(SENTENCES[30:33], **LONG)

    with ThreadPoolExecutor(8) as clients:
        answers = [sent.result(60) for sent in [clients.submit(send) for _ in range(8)]]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert cached.translate(SENTENCES[30:33], **LONG).headers["x-cache"] == "hit"


def test_a_client_that_leaves_takes_nothing_from_the_others(cached: Cached) -> None:
    texts = [f"the cat sees {number} birds." for number in range(30)]
    body = json.dumps({"q": texts, "source": "en", "target": "de", **LONG}).encode()
    head = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    cancelled = cached.value('dragoman_sentences_finished_total{reason="cancelled"}')
    with ThreadPoolExecutor(1) as clients:
        with socket.create_connection(("127.0.0.1", cached.server.port)) as leaving:
            leaving.sendall(head.encode() + body)
            wait_for(lambda: cached.value('dragoman_decode_slots{state="busy"}') > 0)
            staying = clients.submit(cached.translate, texts[-2:], **LONG)
        answer = staying.result(60)
    assert answer.status_code == 200
    wait_for(lambda: cached.value('dragoman_decode_slots{state="busy"}') == 0)
    wait_for(lambda: cached.value("dragoman_queue_sentences") == 0)
    assert cached.value('dragoman_sentences_finished_total{reason="cancelled"}') > cancelled
    assert cached.translate(texts[-2:], **LONG).json() == answer.json()


def test_both_halves_of_a_pivot_are_cached(cached: Cached) -> None:
    first = cached.translate(SENTENCES[40:43], "fr", "de")
    again = cached.translate(SENTENCES[40:43], "fr", "de")
    assert (first.json(), first.json()["pivotLanguage"]) == (again.json(), "en")
    assert again.headers["x-cache"] == "hit"
    assert first.headers["x-cache"] in (
        "miss",
        "partial",
    )  # the first half may write a sentence that is known


def test_a_reload_leaves_no_entry_of_the_old_model(cached: Cached) -> None:
    cached.translate(SENTENCES[50])
    assert cached.translate(SENTENCES[50]).headers["x-cache"] == "hit"
    url = f"http://127.0.0.1:{cached.admin_port}/admin/reload?model=tiny-en-de"
    assert httpx.post(url, timeout=60).status_code == 200
    assert cached.translate(SENTENCES[50]).headers["x-cache"] == "hit"  # it is the same bundle
    file = cached.bundle / "manifest.json"
    aside = cached.bundle.with_name("aside")
    aside.write_text(json.dumps(json.loads(file.read_text()) | {"version": "2"}))
    aside.replace(file)
    assert httpx.post(url, timeout=60).status_code == 200
    assert cached.translate(SENTENCES[50]).headers["x-cache"] == "miss"
    assert cached.translate(SENTENCES[50]).headers["x-cache"] == "hit"


def test_memory_is_bounded_and_the_oldest_go(tiny_bundle: Path, tmp_path: Path) -> None:
    with serving(tiny_bundle, tmp_path / "log", cache_bytes=20_000) as server:
        small = Cached(server, 0, tiny_bundle)
        for start in range(0, 60, 4):
            assert small.translate(SENTENCES[start : start + 4]).status_code == 200
        found = server.metrics()
        assert found["dragoman_cache_capacity_bytes"] == 20_000
        assert 10_000 < found["dragoman_cache_bytes"] <= 20_000
        assert found["dragoman_cache_evictions_total"] == 60 - found["dragoman_cache_entries"] > 20
        assert small.translate(SENTENCES[-1]).headers["x-cache"] == "hit"
        assert small.translate(SENTENCES[0]).headers["x-cache"] == "miss"


def test_one_flag_turns_it_off(tiny_bundle: Path, tmp_path: Path) -> None:
    with serving(tiny_bundle, tmp_path / "log", cache_bytes=0) as server:
        off = Cached(server, 0, tiny_bundle)
        for _ in range(2):
            answer = off.translate(SENTENCES[0])
            assert "x-cache" not in answer.headers
            assert "cache" not in answer.headers["server-timing"]
        assert off.counts() == {"hit": 0, "miss": 0}
