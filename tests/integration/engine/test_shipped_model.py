"""The model in `bundles/en-de`, through the engine that serves it."""

import itertools
import random
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from export.bundle import Manifest, verify_bundle
from model.tokenizer import Tokenizer
from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import Hypothesis, SequenceResult
from server.runtime.model_runtime import ModelRuntime
from server.service.translation.file_translation import translate_lines
from tests.server.engine.pools import thread_engine

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
        runtime = ModelRuntime(directory, self.manifest)
        limits = EngineLimits(max_rows=32, max_queue_sentences=4096, max_queue_tokens=200_000)
        self.pool = thread_engine(runtime, limits, workers=2)

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


GREEDY = DecodingOptions(return_scores=True)
BEAMS = DecodingOptions(beam_size=4, num_hypotheses=4, return_scores=True)
DRAWN = DecodingOptions(sampling_topk=10, sampling_temperature=0.8, seed=3, return_scores=True)
CONSTRAINED = DecodingOptions(repetition_penalty=1.3, no_repeat_ngram_size=2, return_scores=True)


@pytest.fixture(scope="module")
def alone(shipped: Shipped) -> dict[str, tuple[Hypothesis, ...]]:
    """1,000 sentences, translated one after the other with nobody else there."""
    return {text: shipped.one(text, GREEDY) for text in mixed_sentences(1000)}


@pytest.mark.slow
def test_1000_mixed_sentences_get_the_same_tokens_alone_and_in_any_batch(
    shipped: Shipped, alone: dict[str, tuple[Hypothesis, ...]]
) -> None:
    texts, draw = list(alone), random.Random(6)
    order = draw.sample(range(len(texts)), len(texts))
    together: dict[int, Future[SequenceResult]] = {}
    others: list[tuple[str, DecodingOptions, Future[SequenceResult]]] = []
    while order:  # requests of 1 to 64 sentences, all in flight at once, with other options between them
        chosen, order = order[: (size := draw.randint(1, 64))], order[size:]
        futures = shipped.submit(f"request-{len(together)}", [texts[i] for i in chosen], GREEDY)
        together.update(zip(chosen, futures, strict=True))
        for options in (BEAMS, DRAWN, CONSTRAINED):
            some = [texts[i] for i in draw.sample(range(len(texts)), 4)]
            futures = shipped.submit(f"other-{len(others)}", some, options)
            others += [(text, options, future) for text, future in zip(some, futures, strict=True)]
    assert [together[i].result(WAIT_S).hypotheses for i in range(len(texts))] == list(alone.values())
    for text, options, future in others[:120]:
        assert future.result(WAIT_S).hypotheses == shipped.one(text, options)


@pytest.mark.slow
def test_1000_mixed_sentences_get_the_same_tokens_from_64_clients_at_once(
    shipped: Shipped, alone: dict[str, tuple[Hypothesis, ...]]
) -> None:
    """Sentences come and go all the time; some are given up half-way, some are searched in other ways."""
    texts = list(alone)

    def client(number: int) -> list[tuple[str, tuple[Hypothesis, ...]]]:
        draw, found = random.Random(number), []
        mine = texts[number::64]
        while mine:
            some, mine = mine[: (size := draw.randint(1, 5))], mine[size:]
            futures = shipped.submit(f"client-{number}", some, GREEDY)
            if draw.random() < 0.3:
                given_up = f"given-up-{number}"
                shipped.submit(given_up, draw.sample(texts, 3), draw.choice([BEAMS, DRAWN, GREEDY]))
                futures[0].result(WAIT_S)
                shipped.pool.abort(given_up)
            found += [
                (text, future.result(WAIT_S).hypotheses) for text, future in zip(some, futures, strict=True)
            ]
        return found

    with ThreadPoolExecutor(64) as clients:
        found = dict(itertools.chain.from_iterable(clients.map(client, range(64))))
    assert found == alone


def test_capitals_are_translated_as_the_same_words_without(repository: Path) -> None:
    found = translate_lines(
        repository / "bundles" / "en-de",
        [
            "WHERE IS THE TRAIN STATION?",
            "Where is the train station?",
            "HELLO, how are you",
            "Hello, how are you",
            "I CANT FIND MY KEYS",
            "I cant find my keys",
        ],
        split=False,
    )
    assert found[0] == found[1].upper()
    assert found[2] == found[3]
    assert found[4] == found[5].upper()
