"""The shipped model in processes of their own says what it says in threads, whatever is asked of it."""

import asyncio
import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from server.engine.dispatch.dispatcher import Dispatcher
from server.engine.observer import NullObserver
from server.engine.options import DecodingOptions
from server.engine.sequence import Hypothesis
from server.service.models.loading import load_model
from server.service.models.served_model import ServedModel
from server.settings import Settings
from tests.integration.engine.test_shipped_model import mixed_sentences
from tests.support.server_process import wait_for

WAIT_S = 120.0
OPTIONS = {
    "greedy": DecodingOptions(max_decoding_length=80),
    "beam search": DecodingOptions(beam_size=4, num_hypotheses=2, max_decoding_length=80),
    "sampling": DecodingOptions(sampling_topk=20, seed=7, max_decoding_length=40),
    "constraints": DecodingOptions(
        repetition_penalty=1.2, no_repeat_ngram_size=3, min_decoding_length=6, max_decoding_length=60
    ),
}


@pytest.fixture(scope="module")
def threads(repository: Path) -> Iterator[ServedModel]:
    model = load_model(Settings(bundle=(repository / "bundles/en-de",), workers=1), NullObserver())
    yield model
    model.engine.close(WAIT_S)


@pytest.fixture(scope="module")
def processes(repository: Path) -> Iterator[ServedModel]:
    settings = Settings(bundle=(repository / "bundles/en-de",), workers=2, max_rows=32)
    model = load_model(settings, NullObserver(), served=True)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    loop.call_soon_threadsafe(model.engine.attach, loop)
    yield model
    model.engine.close(WAIT_S)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def translate(
    model: ServedModel, request: str, texts: list[str], options: DecodingOptions
) -> list[tuple[Hypothesis, ...]]:
    suffix = model.manifest.special_tokens.source_suffix_ids
    sources = [(*ids, *suffix) for ids in model.tokenizer.encode_batch(texts)]
    futures = model.engine.submit(request, sources, options)
    return [future.result(WAIT_S).hypotheses for future in futures]


def test_a_small_model_gets_processes_of_one_thread(processes: ServedModel) -> None:
    """What is forked must have one thread only, and ONNX Runtime or BLAS could start some."""
    assert isinstance(processes.engine, Dispatcher)
    pids = processes.engine.stats().engine_pids
    assert len(pids) == 4
    each = [psutil.Process(pid) for pid in pids]
    assert [process.ppid() for process in each] == [os.getpid(), pids[0], pids[1], pids[1]]
    assert [process.num_threads() for process in each] == [1] * 4


@pytest.mark.parametrize("name", OPTIONS)
def test_many_at_once_get_the_same_translations(
    threads: ServedModel, processes: ServedModel, name: str
) -> None:
    texts, options = mixed_sentences(120), OPTIONS[name]
    alone = dict(zip(texts, translate(threads, "all", texts, options), strict=True))
    draw = random.Random(3)

    def client(number: int) -> bool:
        some = draw.sample(texts, draw.randint(1, 12))
        found = translate(processes, f"{name}-{number}", some, replace(options))
        return found == [alone[text] for text in some]

    with ThreadPoolExecutor(24) as clients:
        assert all(clients.map(client, range(60)))
    wait_for(lambda: processes.engine.stats().rows_busy == 0)
