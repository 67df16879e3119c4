"""The model in `bundles/en-de`, through the engine that serves it."""

import itertools
import random
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from export.bundle import Manifest, verify_bundle
from model.tokenizer import Tokenizer
from server.engine.sequence import DecodingOptions, EngineLimits, Hypothesis, SequenceResult
from server.engine.worker import WorkerPool
from server.runtime.onnx_runtime import ModelRuntime

WAIT_S = 120.0
CLAUSES = [
    f"{who} {what} {where}"
    for who, what, where in itertools.product(
        ("my sister", "the dentist", "nobody", "an old friend of ours", "she"),
        ("has bought a car", "is waiting", "wrote 14 letters", "didn't sleep", "wants to learn Spanish"),
        ("in Boston", "at the station", "because of the rain", "since Monday", "without telling Anna"),
    )
]


def mixed_sentences(count: int) -> list[str]:
    """Different sentences of 3 to about 60 words."""
    draw = random.Random(5)
    made: dict[str, None] = {}
    while len(made) < count:
        clauses = draw.sample(CLAUSES, draw.choice((1, 1, 1, 2, 2, 3, 8)))
        made[", and ".join(clauses).capitalize() + draw.choice(".?!")] = None
    return list(made)


class Shipped:
    """The bundle behind a running pool."""

    def __init__(self, directory: Path) -> None:
        self.manifest: Manifest = verify_bundle(directory)
        self._tokenizer = Tokenizer.load(directory / self.manifest.tokenizer.source)
        runtime = ModelRuntime.load(directory, self.manifest)
        limits = EngineLimits(workers=2, max_rows=32, max_queue_sentences=4096, max_queue_tokens=200_000)
        self.pool = WorkerPool(runtime, limits)
        self.pool.start()

    def submit(
        self, request: str, texts: list[str], options: DecodingOptions
    ) -> list[Future[SequenceResult]]:
        tokens = self.manifest.special_tokens
        sources = [
            (*tokens.source_prefix_ids, *ids, *tokens.source_suffix_ids)
            for ids in self._tokenizer.encode_batch(texts)
        ]
        return self.pool.submit(request, sources, options)

    def one(self, text: str, options: DecodingOptions) -> tuple[Hypothesis, ...]:
        (future,) = self.submit("alone", [text], options)
        return future.result(WAIT_S).hypotheses

    def translate(self, text: str) -> str:
        return self._tokenizer.decode(self.one(text, DecodingOptions())[0].tokens)


@pytest.fixture(scope="module")
def shipped(repository: Path) -> Iterator[Shipped]:
    loaded = Shipped(repository / "bundles" / "en-de")
    yield loaded
    loaded.pool.close(WAIT_S)


def test_it_is_small_and_says_what_it_is(shipped: Shipped, repository: Path) -> None:
    manifest = shipped.manifest
    assert sum(file.size_bytes for file in manifest.files.values()) <= 20_000_000
    assert manifest.precision == "int8"
    assert manifest.batch_invariant
    assert manifest.quality is not None
    card = (repository / "bundles" / "en-de" / "MODEL_CARD.md").read_text(encoding="utf-8")
    notice = (repository / "bundles" / "en-de" / "NOTICE").read_text(encoding="utf-8")
    assert "Tatoeba" in card
    assert "CC BY 2.0 FR" in notice


def test_it_translates(shipped: Shipped) -> None:
    assert shipped.translate("Where is the train station?") == "Wo ist der Bahnhof?"
    assert "4820193" in shipped.translate("The number is 4820193.")
    assert "1987" in shipped.translate("I was born in 1987.")


@pytest.mark.slow
def test_1000_mixed_sentences_get_the_same_tokens_alone_and_in_any_batch(shipped: Shipped) -> None:
    texts = mixed_sentences(1000)
    options = DecodingOptions(return_scores=True)
    alone = [shipped.one(text, options) for text in texts]

    draw = random.Random(6)
    order = draw.sample(range(len(texts)), len(texts))
    beams = DecodingOptions(beam_size=4, num_hypotheses=4, return_scores=True)
    together: dict[int, Future[SequenceResult]] = {}
    others: list[tuple[str, Future[SequenceResult]]] = []
    while order:  # requests of 1 to 64 sentences, all in flight at once, with beam search between them
        chosen, order = order[: (size := draw.randint(1, 64))], order[size:]
        futures = shipped.submit(f"request-{len(together)}", [texts[i] for i in chosen], options)
        together.update(zip(chosen, futures, strict=True))
        some = [texts[i] for i in draw.sample(range(len(texts)), 4)]
        others += zip(some, shipped.submit(f"beam-{len(together)}", some, beams), strict=True)
    assert [together[i].result(WAIT_S).hypotheses for i in range(len(texts))] == alone
    for text, future in others[:60]:
        assert future.result(WAIT_S).hypotheses == shipped.one(text, beams)
