"""The peer that we compare with: real CTranslate2, and every request gets its own answer."""

import asyncio
import random
from typing import Any

import ctranslate2
import httpx
import pytest

from benchmarks.inputs.workload import tokenize
from benchmarks.models import Model
from benchmarks.peers import http_servers
from benchmarks.peers.peer_server import Batcher, create_app, split

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def translator(counting_model: Model) -> ctranslate2.Translator:
    return ctranslate2.Translator(
        str(counting_model.ctranslate2), device="cpu", inter_threads=2, intra_threads=1
    )


def ask_all(app: Any, bodies: list[Any]) -> list[httpx.Response]:
    """Send all requests at once to an application that runs in this process."""

    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as client:
            url = "http://peer/translate"
            return list(await asyncio.gather(*(client.post(url, json={"q": q}) for q in bodies)))

    return asyncio.run(run())


@pytest.mark.parametrize("max_batch", [1, 3, 64])
@pytest.mark.parametrize("wait_s", [0.0, 0.005])
def test_every_request_gets_its_own_answer(
    translator: ctranslate2.Translator,
    counting_model: Model,
    countdowns: Pairs,
    max_batch: int,
    wait_s: float,
) -> None:
    pairs = random.Random(max_batch).sample(countdowns, len(countdowns))
    app = create_app(translator, counting_model.huggingface, 2, max_batch, wait_s)
    answers = ask_all(app, [text for text, _ in pairs])
    assert [answer.json()["translatedText"] for answer in answers] == [count for _, count in pairs]


def test_arrays_come_back_in_order(
    translator: ctranslate2.Translator, counting_model: Model, countdowns: Pairs
) -> None:
    app = create_app(translator, counting_model.huggingface, 2, 8, 0.0)
    halves = [countdowns[:20], countdowns[20:]]
    answers = ask_all(app, [[text for text, _ in half] for half in halves])
    assert [answer.json()["translatedText"] for answer in answers] == [
        [count for _, count in half] for half in halves
    ]


def test_a_batch_is_the_one_that_waits_longest_and_those_nearest_in_length(
    translator: ctranslate2.Translator, counting_model: Model, countdowns: Pairs
) -> None:
    """Three workers' worth of texts wait; the batch of the first is of its length."""
    sizes: list[list[int]] = []

    async def run() -> None:
        batcher = Batcher(translator, 1, 4, 0.0)
        batcher_call = batcher._call

        def call(batch: Any, beam_size: int) -> Any:
            sizes.append(sorted(len(item.pieces) for item in batch))
            return batcher_call(batch, beam_size)

        batcher._call = call  # type: ignore[method-assign]
        pieces = [[*p, "</s>"] for p in tokenize(counting_model, [text for text, _ in countdowns])]
        ordered = sorted(pieces, key=len)
        texts = [
            ordered[0],
            ordered[-1],
            ordered[1],
            ordered[-2],
            ordered[2],
            ordered[-3],
            ordered[3],
            ordered[-4],
        ]
        running = asyncio.create_task(batcher.run())
        await batcher.translate(texts, 1)
        running.cancel()
        assert sizes == [sorted(map(len, ordered[:4])), sorted(map(len, ordered[-4:]))]

    asyncio.run(run())


def test_texts_of_several_sentences_are_split_and_joined(
    translator: ctranslate2.Translator, counting_model: Model, countdowns: Pairs
) -> None:
    """The invented language has no full stops: they are unknown words, and the length word comes first."""
    assert split("It rains. Take this! Why?", "en") == ["It rains.", "Take this!", "Why?"]
    assert split("It rains.", "en") == ["It rains."]
    app = create_app(translator, counting_model.huggingface, 2, 8, 0.0)
    pairs = countdowns[1:4]
    answers = ask_all(app, [" ".join(f"{text} ." for text, _ in pairs)])
    assert answers[0].json()["translatedText"].split() == [
        word for _, count in pairs for word in count.split()
    ]


def test_an_error_reaches_its_callers_and_no_other(
    translator: ctranslate2.Translator, counting_model: Model, countdowns: Pairs
) -> None:
    """No worker is lost with it: the next texts are translated."""
    pieces = [[*p, "</s>"] for p in tokenize(counting_model, [text for text, _ in countdowns[:4]])]

    async def run() -> None:
        batcher = Batcher(translator, 1, 4, 0.0)
        running = asyncio.create_task(batcher.run())
        for _ in range(3):
            with pytest.raises(ValueError):
                await batcher.translate(pieces, 0)
        found = await batcher.translate(pieces, 1)
        assert [len(p) for p in found] == [len(count.split()) for _, count in countdowns[:4]]
        running.cancel()

    asyncio.run(run())


def test_the_command_serves_and_is_ended(counting_model: Model, countdowns: Pairs) -> None:
    server = http_servers.ctranslate2(counting_model, "peer", 8, 1.0, {})
    with http_servers.serving(server) as (port, pid):
        answer = httpx.post(f"http://127.0.0.1:{port}/translate", json={"q": countdowns[7][0]}, timeout=30)
        assert answer.json() == {"translatedText": countdowns[7][1]}
        assert http_servers.memory_bytes(pid) > 1 << 20
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/readyz")
