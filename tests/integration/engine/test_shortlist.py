"""Decoding over candidates on an exported bundle: exact in any company, and as the exporter judged it."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest

from export.bundle import Limits, Manifest, verify_bundle
from export.graph.runner import GraphRunner
from export.shortlist.build import decode_within, shortlist_bundle
from export.shortlist.lexical_table import Candidates, LexicalTable
from model.tokenizer import Tokenizer
from server.engine.dispatch.dispatcher import Dispatcher
from server.engine.kv_cache.budget import largest_request_bytes
from server.engine.limits import EngineLimits
from server.engine.observer import EngineObserver, NullObserver
from server.engine.options import DecodingOptions
from server.engine.sequence import Hypothesis
from server.engine.shortlist.lexical_table import Shortlist, extra_bytes_of
from server.runtime.model_runtime import ModelRuntime
from tests.server.engine.pools import thread_engine
from tests.support import factories

WAIT_S = 60.0
Ids = tuple[int, ...]
Over = Literal["candidates", "everything, bound", "the whole vocabulary"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, tiny_bundle_int8: Path) -> Path:
    """A bundle with so few candidates that some sentences become others."""
    directory = tmp_path_factory.mktemp("shortlist")
    options = factories.shortlist_options(directory, per_piece=2, frequent=4, allow_quality_loss=True)
    shortlist_bundle(tiny_bundle_int8, directory / "bundle", options)
    return directory / "bundle"


@pytest.fixture(scope="module")
def manifest(bundle: Path) -> Manifest:
    return verify_bundle(bundle)


@pytest.fixture(scope="module")
def sources(bundle: Path, manifest: Manifest) -> list[Ids]:
    texts, _ = factories.parallel_text(60, seed=11)
    tokenizer = Tokenizer.load(*manifest.tokenizer.paths(bundle))
    return [(*ids, *manifest.special_tokens.source_suffix_ids) for ids in tokenizer.encode_batch(texts)]


@pytest.fixture(scope="module")
def candidates(bundle: Path, sources: list[Ids]) -> list[list[int]]:
    """What the exporter finds, with its own lookup."""
    with np.load(bundle / "shortlist.npz", allow_pickle=False) as stored:
        table = LexicalTable(**{name: stored[name] for name in stored.files})
    return [Candidates(table).of(source) for source in sources]


class Company(NullObserver):
    """Notes the fullest batches that decoded together."""

    most_rows = 0

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        self.most_rows = max(self.most_rows, busy_rows)


@contextlib.contextmanager
def running(
    bundle: Path,
    manifest: Manifest,
    over: Over = "candidates",
    observer: EngineObserver | None = None,
) -> Iterator[Dispatcher]:
    runtime = ModelRuntime(bundle, manifest, shortlist=over != "the whole vocabulary")
    size, shortlist = manifest.architecture.vocab_size, None
    if runtime.columns is not None:
        assert manifest.shortlist is not None
        table = bundle / manifest.shortlist.table
        shortlist = Shortlist.load(table, size, [3], runtime.columns)
        if over == "everything, bound":
            shortlist = Shortlist(range(size), {}, size, runtime.columns)
    limits = EngineLimits(max_rows=16, max_queue_tokens=100_000)
    pool = thread_engine(runtime, limits, observer, shortlist=shortlist, workers=2)
    yield pool
    pool.close(WAIT_S)


def translate(pool: Dispatcher, sources: list[Ids], options: DecodingOptions) -> list[tuple[Hypothesis, ...]]:
    return [future.result(WAIT_S).hypotheses for future in pool.submit("request", sources, options)]


@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(return_scores=True),
        DecodingOptions(beam_size=4, num_hypotheses=4),
        DecodingOptions(beam_size=2, repetition_penalty=1.3, no_repeat_ngram_size=2, min_decoding_length=6),
        DecodingOptions(beam_size=2, num_hypotheses=2, sampling_topk=5, sampling_temperature=1.5, seed=7),
    ],
)
def test_sentences_alone_and_together_are_the_same_to_the_last_bit(
    bundle: Path,
    manifest: Manifest,
    sources: list[Ids],
    candidates: list[list[int]],
    options: DecodingOptions,
) -> None:
    with running(bundle, manifest) as pool:
        alone = [translate(pool, [source], options)[0] for source in sources]
        assert translate(pool, sources, options) == alone
        assert translate(pool, sources[::-1], options) == alone[::-1]
    for hypotheses, allowed in zip(alone, candidates, strict=True):
        assert all(set(hypothesis.tokens) <= set(allowed) for hypothesis in hypotheses)


@pytest.fixture(scope="module")
def requests(sources: list[Ids]) -> list[tuple[list[Ids], DecodingOptions]]:
    """64 requests of all beam widths and many options, one to four sentences each."""
    kinds = [
        DecodingOptions(return_scores=True),
        DecodingOptions(beam_size=2, num_hypotheses=2),
        DecodingOptions(beam_size=4, num_hypotheses=4),
        DecodingOptions(beam_size=4, early_stopping="never", length_penalty=2.0),
        DecodingOptions(repetition_penalty=1.5, min_decoding_length=9, return_scores=True),
        DecodingOptions(beam_size=2, num_hypotheses=2, sampling_topk=0, sampling_temperature=1.5, seed=3),
        DecodingOptions(beam_size=4, target_prefix=(300, 301), no_repeat_ngram_size=2),
        DecodingOptions(required=((300, 302), (303,)), return_scores=True),
        DecodingOptions(beam_size=2, required=((300, 302), (303,))),
    ]
    kind = itertools.cycle(replace(one, max_decoding_length=30) for one in kinds)
    return [(sources[n : n + 1 + n % 4], next(kind)) for n in [*range(56), *range(8)]]


Found = list[tuple[Hypothesis, ...]]


@pytest.fixture(scope="module")
def alone(bundle: Path, manifest: Manifest, requests: list[tuple[list[Ids], DecodingOptions]]) -> list[Found]:
    """What each sentence of the requests becomes when there is no other, over bound columns."""
    with running(bundle, manifest) as pool:
        return [[translate(pool, [one], options)[0] for one in some] for some, options in requests]


def test_64_requests_at_once_get_what_each_gets_alone(
    bundle: Path,
    manifest: Manifest,
    requests: list[tuple[list[Ids], DecodingOptions]],
    alone: list[Found],
) -> None:
    """Again and again, to the last bit."""
    company, together = Company(), threading.Barrier(len(requests))
    with (
        running(bundle, manifest, observer=company) as pool,
        ThreadPoolExecutor(len(requests)) as clients,
    ):

        def client(number: int) -> list[Found]:
            some, options = requests[number]
            together.wait(WAIT_S)
            found = []
            for again in range(2):
                futures = pool.submit(f"{number}: {again}", some, options)
                found.append([future.result(WAIT_S).hypotheses for future in futures])
            return found

        answers = list(clients.map(client, range(len(requests))))
    assert answers == [[one, one] for one in alone]
    assert company.most_rows == 16
    assert all(h.score < 0 for some in alone for hypotheses in some for h in hypotheses)


def test_memory_stays_within_its_bound_and_everyone_is_served(
    bundle: Path,
    manifest: Manifest,
    requests: list[tuple[list[Ids], DecodingOptions]],
    alone: list[Found],
) -> None:
    """The least that a server starts with: what one sentence of the largest size needs."""

    class Watch(NullObserver):
        bytes_seen: ClassVar[set[int]] = set()

        def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
            self.bytes_seen.add(pool.stats().kv_cache_bytes)

    small = manifest.model_copy(update={"limits": Limits(max_source_tokens=64, max_target_tokens=30)})
    runtime = ModelRuntime(bundle, small, shortlist=True)
    assert manifest.shortlist is not None and runtime.columns is not None
    size, table = manifest.architecture.vocab_size, bundle / manifest.shortlist.table
    shortlist = Shortlist.load(table, size, [3], runtime.columns)
    limits = EngineLimits(max_rows=8)
    most = largest_request_bytes(runtime.spec, limits, extra_bytes_of(shortlist, runtime.spec))
    caches = largest_request_bytes(runtime.spec, limits)
    bounded = replace(limits, max_cache_bytes=2 * most)
    pool = thread_engine(runtime, bounded, Watch(), shortlist=shortlist, workers=2)
    try:
        submitted = [pool.submit(str(n), *request) for n, request in enumerate(requests[:24])]
        found = [[future.result(WAIT_S).hypotheses for future in futures] for futures in submitted]
    finally:
        pool.close(WAIT_S)
    assert found == alone[:24]
    assert caches / 4 < max(Watch.bytes_seen) <= 2 * most


def test_what_a_shortlist_takes_is_shown(bundle: Path, manifest: Manifest, sources: list[Ids]) -> None:
    shown = []
    ways: tuple[Over, ...] = ("the whole vocabulary", "candidates")
    for over in ways:
        with running(bundle, manifest, over) as pool:
            translate(pool, sources[:1], DecodingOptions())
            shown.append(pool.stats().kv_cache_bytes)
    assert shown[1] - shown[0] > 4 * 16 * manifest.architecture.vocab_size / 2  # scores and columns


def test_greedy_is_what_the_exporter_judged(
    bundle: Path, manifest: Manifest, sources: list[Ids], candidates: list[list[int]]
) -> None:
    graphs, special = manifest.graphs, manifest.special_tokens
    runner = GraphRunner(
        bundle / graphs.encoder,
        bundle / graphs.decoders["1"],
        start_id=special.decoder_start_id,
        eos_id=special.eos_id,
        pad_id=special.pad_id,
    )
    size = manifest.architecture.vocab_size
    within = decode_within(runner, sources, candidates, size)
    with running(bundle, manifest) as pool:
        found = translate(pool, sources, DecodingOptions())
    longest = max(map(len, within))
    assert [list(h[0].tokens)[:longest] for h in found] == within
    assert within != decode_within(runner, sources, None, size)


@pytest.mark.parametrize("width", [1, 4])
def test_all_columns_bound_are_the_whole_vocabulary(
    bundle: Path, manifest: Manifest, sources: list[Ids], width: int
) -> None:
    options = DecodingOptions(beam_size=width, num_hypotheses=width, return_scores=True)
    results = []
    for over in ("everything, bound", "the whole vocabulary"):
        with running(bundle, manifest, over) as pool:
            results.append(translate(pool, sources, options))
    for ours, theirs in zip(*results, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        # Sums of exponentials are added up in another order.
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-5)


def test_a_prefix_may_hold_what_is_no_candidate(
    bundle: Path, manifest: Manifest, sources: list[Ids], candidates: list[list[int]]
) -> None:
    strange = next(i for i in range(manifest.architecture.vocab_size) if i not in candidates[0])
    with running(bundle, manifest) as pool:
        for width in (1, 2):
            options = DecodingOptions(beam_size=width, target_prefix=(strange,), return_scores=True)
            (found,) = translate(pool, sources[:1], options)
            assert found[0].tokens[0] == strange
            assert set(found[0].tokens[1:]) <= set(candidates[0])
