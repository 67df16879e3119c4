"""Short requests beside a document, counted: a test of order, not of time."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from server.settings import Settings
from tests.support.server_process import RunningServer, serving

FIELDS = {"source": "en", "target": "de"}
SHORT = FIELDS | {"q": "the cat sees a bird.", "min_decoding_length": 5, "max_decoding_length": 5}
# On 8 rows: 8 times 120 steps. In one batch with it, a short request waits for the end of a sentence, so that
# fewer than 10 of them are answered before the document is.
DOCUMENT = FIELDS | {
    "q": [f"the cat sees {n} birds." for n in range(64)],
    "min_decoding_length": 120,
    "max_decoding_length": 120,
}


@pytest.fixture(scope="module")
def server(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(tiny_bundle, tmp_path_factory.mktemp("server") / "log", max_rows=8) as server:
        yield server


def test_short_requests_do_not_wait_for_a_document(server: RunningServer) -> None:
    answered = 0
    with ThreadPoolExecutor(1) as callers, httpx.Client(base_url=server.url, timeout=60) as client:
        document = callers.submit(httpx.post, f"{server.url}/translate", json=DOCUMENT, timeout=120)
        while "dragoman_queue_sentences 0.0" in client.get("/metrics").text and not document.done():
            pass
        while not document.done():
            assert client.post("/translate", json=SHORT).status_code == 200
            answered += 1
        assert len(document.result().json()["translatedText"]) == 64
    assert answered > 20


def test_an_array_of_500_is_answered_in_order(
    server: RunningServer, tiny_bundle: Path, tmp_path: Path
) -> None:
    texts = [f"the cat sees {n} birds." for n in range(500)]
    with serving(tiny_bundle, tmp_path / "log") as large:
        together = httpx.post(f"{large.url}/translate", json=FIELDS | {"q": texts}, timeout=120).json()
    for place in (0, 77, 250, 499):
        alone = httpx.post(f"{server.url}/translate", json=FIELDS | {"q": texts[place]}, timeout=60).json()
        assert together["translatedText"][place] == alone["translatedText"]
    assert len(together["translatedText"]) == 500


def test_as_many_texts_as_the_default_allows_and_one_more(tiny_bundle: Path, tmp_path: Path) -> None:
    """1,000 texts again and again take no more memory than twice; the 1,001st text is one too many."""
    most = Settings.model_fields["max_texts"].default
    body = FIELDS | {"q": ["the cat sees a bird."] * most, "max_decoding_length": 8}
    with serving(tiny_bundle, tmp_path / "log") as server, httpx.Client(base_url=server.url) as client:
        resident = []
        for _ in range(6):
            answer = client.post("/translate", json=body, timeout=120)
            assert len(answer.json()["translatedText"]) == most
            resident.append(psutil.Process(server.process.pid).memory_info().rss)
        refused = client.post("/translate", json=body | {"q": ["a"] * (most + 1)})
    assert resident[-1] - resident[1] < 8 << 20
    assert (refused.status_code, refused.json()["code"]) == (400, "too_many_texts")
