"""The engine with caches and scores on a device, against the engine over numpy arrays: the same translations.

With the CPU as the device all of it but the kernels is what runs on CUDA. A GPU, if there is one, takes part.
"""

import collections
import dataclasses
import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from export.bundle import Generation, Golden, Manifest, verify_bundle
from server.engine.dispatch.dispatcher import Dispatcher
from server.engine.ipc.channel import InterruptFlag, MemoryChannel, WorkerPorts
from server.engine.limits import EngineLimits
from server.engine.observer import NullObserver
from server.engine.options import DecodingOptions
from server.engine.sequence import Hypothesis
from server.engine.worker import loop
from server.engine.worker.loop import Worker
from server.errors import InferenceError
from server.runtime.device import cuda_graphs
from server.runtime.device.device import OnnxDevice
from server.runtime.device.sessions import RECORDED_AFTER
from server.runtime.memory import DeviceRanker
from server.runtime.model_runtime import ModelRuntime
from server.runtime.onnx.sessions import Graph
from server.service.models.self_test import warm_up
from tests.server import random_bundle
from tests.server.engine.pools import thread_engine
from tests.server.runtime.devices import CPU_AS_DEVICE, RecordingSession, device_named, needs_cuda
from tests.support.server_process import wait_for

WAIT_S = 60.0
Ids = tuple[int, ...]

PLAIN = DecodingOptions(max_decoding_length=40)
SCORED = DecodingOptions(max_decoding_length=40, return_scores=True)
BEAM = DecodingOptions(beam_size=4, num_hypotheses=4, return_scores=True, max_decoding_length=40)
EACH_WAY = {
    "greedy": PLAIN,
    "scores": SCORED,
    "prefix": DecodingOptions(target_prefix=(7, 9), return_scores=True, max_decoding_length=40),
    "repetition penalty": DecodingOptions(repetition_penalty=1.3, max_decoding_length=40),
    "required": DecodingOptions(required=((7, 9), (8,)), return_scores=True, max_decoding_length=40),
    "beams with required": DecodingOptions(beam_size=4, required=((7, 9), (8,)), max_decoding_length=40),
    "least length": DecodingOptions(min_decoding_length=9, return_scores=True, max_decoding_length=40),
    "sampling": DecodingOptions(sampling_topk=5, seed=3, return_scores=True, max_decoding_length=40),
    "two beams": DecodingOptions(beam_size=2, length_penalty=0.6, max_decoding_length=40),
    "four beams": BEAM,
    "transformers": DecodingOptions(
        beam_size=4, num_hypotheses=4, early_stopping=False, max_decoding_length=40
    ),
    "beams with a prefix": DecodingOptions(beam_size=4, target_prefix=(7, 9), max_decoding_length=40),
    "beams without repetition": DecodingOptions(beam_size=2, no_repeat_ngram_size=2, max_decoding_length=40),
    "transformers without repetition": DecodingOptions(
        beam_size=4, no_repeat_ngram_size=2, early_stopping=True, max_decoding_length=40
    ),
    "samples": DecodingOptions(
        beam_size=4, num_hypotheses=3, sampling_topk=0, sampling_topp=0.9, seed=5, max_decoding_length=40
    ),
}


def with_special_tokens(manifest: Manifest, **changes: object) -> Manifest:
    content = manifest.model_dump()
    content["special_tokens"] |= changes
    return Manifest.model_validate(content)


def sources(vocabulary: int, count: int) -> list[Ids]:
    draw = np.random.default_rng(0)
    return [tuple(draw.integers(4, vocabulary, draw.integers(1, 45)).tolist()) for _ in range(count)]


@pytest.fixture(scope="module", autouse=True)
def recordings() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ort, "InferenceSession", RecordingSession)
        yield


class Both:
    """A model over numpy arrays and on a device."""

    def __init__(self, directory: Path, manifest: Manifest, device: OnnxDevice) -> None:
        limits = EngineLimits(max_rows=12, max_queue_tokens=100_000)
        runtimes = (
            ModelRuntime(directory, manifest),
            ModelRuntime(directory, manifest, device=device),
        )
        self.host, self.device = (thread_engine(runtime, limits) for runtime in runtimes)
        self.sources = sources(manifest.architecture.vocab_size, 20)

    def translate(self, pool: Dispatcher, each: list[DecodingOptions]) -> list[tuple[Hypothesis, ...]]:
        futures = pool.submit("request", self.sources[: len(each)], each)
        return [future.result(WAIT_S).hypotheses for future in futures]

    def compare(self, each: list[DecodingOptions]) -> None:
        expected, found = self.translate(self.host, each), self.translate(self.device, each)
        for ours, theirs, options in zip(expected, found, each, strict=True):
            assert [h.tokens for h in theirs] == [h.tokens for h in ours], options
            assert [h.score for h in theirs] == pytest.approx([h.score for h in ours], abs=1e-4), options

    def close(self) -> None:
        self.host.close(WAIT_S)
        self.device.close(WAIT_S)


@pytest.fixture(scope="module", params=["plain", "with tokens that are never written", "with a forced end"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    directory = tmp_path_factory.mktemp("random")
    manifest = random_bundle.write(directory)
    if request.param == "with tokens that are never written":
        manifest = with_special_tokens(manifest, suppressed_ids=(0, 7, 21, 40))
    elif request.param == "with a forced end":
        manifest = with_special_tokens(manifest, forced_end=True)
    both = Both(directory, manifest, CPU_AS_DEVICE)
    yield both
    both.close()


@pytest.mark.parametrize("options", EACH_WAY.values(), ids=EACH_WAY.keys())
def test_the_same_translations_as_over_numpy_arrays(both: Both, options: DecodingOptions) -> None:
    both.compare([options] * 20)


@pytest.mark.parametrize("seed", range(4))
def test_the_same_translations_when_neighbours_have_other_options(both: Both, seed: int) -> None:
    draw = random.Random(seed)
    both.compare(draw.choices(list(EACH_WAY.values()), k=20))


@pytest.mark.parametrize("options", [PLAIN, SCORED, BEAM], ids=["greedy", "scores", "beams"])
def test_sentences_alone_and_documents_share_a_session_and_no_recording(
    both: Both, options: DecodingOptions
) -> None:
    """A document's sentences and those that come alone are decoded in caches of their own, in turns."""
    everything = both.sources
    for _ in range(2):
        both.compare([options] * 20)
        for source in everything[:6]:
            both.sources = [source]
            both.compare([options])
        both.sources = everything


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny_bundle", "tiny_bundle_fp16", "recurrent_bundle"])
def test_a_trained_model_translates_alike(name: str, request: pytest.FixtureRequest) -> None:
    directory = request.getfixturevalue(name)
    both = Both(directory, verify_bundle(directory), CPU_AS_DEVICE)
    golden = [golden.source_ids for golden in verify_bundle(directory).golden]
    both.sources = (golden * 8)[:24]
    for options in (PLAIN, SCORED, BEAM, EACH_WAY["repetition penalty"]):
        both.compare([options] * len(both.sources))
    both.close()


@pytest.mark.slow
@needs_cuda
def test_a_trained_model_translates_alike_on_cuda(tiny_bundle_fp16: Path) -> None:
    both = Both(tiny_bundle_fp16, verify_bundle(tiny_bundle_fp16), device_named("cuda"))
    golden = [golden.source_ids for golden in verify_bundle(tiny_bundle_fp16).golden]
    both.sources = (golden * 8)[:24]
    for options in (PLAIN, BEAM, EACH_WAY["repetition penalty"]):
        expected, found = (
            both.translate(both.host, [options] * 24),
            both.translate(both.device, [options] * 24),
        )
        same = sum(a[0].tokens == b[0].tokens for a, b in zip(expected, found, strict=True))
        assert same >= 22  # half precision is rounded elsewhere in another kernel
    both.close()


@pytest.mark.parametrize("options", [PLAIN, BEAM], ids=["greedy", "beams"])
def test_scores_that_are_no_numbers_fail_their_sentence_alone(
    tmp_path: Path, options: DecodingOptions
) -> None:
    manifest = random_bundle.write(tmp_path)
    encoder = onnx.load(tmp_path / "encoder.onnx")
    embedding = numpy_helper.to_array(encoder.graph.initializer[0]).copy()
    embedding[9] = np.nan
    encoder.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(embedding, encoder.graph.initializer[0].name)
    )
    onnx.save(encoder, tmp_path / "encoder.onnx")
    runtime = ModelRuntime(tmp_path, manifest, device=CPU_AS_DEVICE)
    pool = thread_engine(runtime, EngineLimits(max_rows=8))
    futures = pool.submit("request", [(5, 6, 7), (5, 9, 7)], options)
    assert futures[0].result(WAIT_S).hypotheses
    assert isinstance(futures[1].exception(WAIT_S), InferenceError)
    pool.close(WAIT_S)


def test_only_a_sentence_that_looks_at_the_whole_row_makes_it_come_to_the_host(tmp_path: Path) -> None:
    runtime = ModelRuntime(tmp_path, random_bundle.write(tmp_path), device=CPU_AS_DEVICE)
    assert runtime.device is not None
    made: list[DeviceRanker] = []
    make = runtime.device.ranker
    runtime.device.ranker = lambda *sizes: made.append(make(*sizes)) or made[-1]  # type: ignore[method-assign,func-returns-value]
    pool = thread_engine(runtime, EngineLimits(max_rows=4))
    for options, whole in ((PLAIN, False), (SCORED, False), (EACH_WAY["prefix"], False), (BEAM, False)):
        pool.submit("request", [(5, 6, 7)], options)[0].result(WAIT_S)
        assert any("_whole" in vars(ranker) for ranker in made) is whole
    pool.submit("request", [(5, 6, 7)], EACH_WAY["sampling"])[0].result(WAIT_S)
    assert any("_whole" in vars(ranker) for ranker in made)
    pool.close(WAIT_S)


def test_caches_on_a_device_are_kept_while_nobody_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "IDLE_S", 0.1)
    both = Both(tmp_path, random_bundle.write(tmp_path), CPU_AS_DEVICE)
    both.compare([PLAIN] * 4)
    wait_for(lambda: both.host.stats().kv_cache_bytes == 0)
    time.sleep(0.3)
    assert both.device.stats().kv_cache_bytes > 0
    both.compare([PLAIN] * 4)
    both.close()


def test_encoder_runs_are_of_sizes_that_are_met_again(tmp_path: Path) -> None:
    manifest = random_bundle.write(tmp_path)
    host = ModelRuntime(tmp_path, manifest).encoder
    device = ModelRuntime(tmp_path, manifest, device=CPU_AS_DEVICE).encoder
    draw, met = np.random.default_rng(0), set()
    for count, longest in itertools.product((1, 2, 5, 7, 9), (1, 5, 11, 12, 40, random_bundle.LONGEST)):
        lengths = draw.integers(1, longest + 1, count).astype(np.int32)
        lengths[0] = longest
        ids = draw.integers(4, manifest.architecture.vocab_size, (count, longest))
        for ours, theirs in zip(host.encode(ids, lengths), device.encode(ids, lengths), strict=True):
            met.add(theirs.shape)
            found = theirs.memory.numpy()
            for row, length in enumerate(lengths):
                assert found[row, :, :length] == pytest.approx(ours[row, :, :length], abs=1e-5)
    assert {shape[0] for shape in met} == {1, 2, 6, 8, 12}
    assert {shape[2] for shape in met} == {8, 12, 48, random_bundle.LONGEST}


class Sizes(NullObserver):
    """Notes how many rows are decoded together, as often as they are."""

    def __init__(self) -> None:
        self.met: collections.Counter[int] = collections.Counter()

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        self.met[busy_rows] += 1


def test_a_device_has_met_and_recorded_every_size_of_a_batch_before_the_first_request(tmp_path: Path) -> None:
    golden = Golden(source="", source_ids=(5, 6, 7), target="", target_ids=(5, 6, 7, 8))
    changes = {"generation": Generation(beam_size=4), "golden": (golden,)}
    manifest = random_bundle.write(tmp_path).model_copy(update=changes)
    sizes = Sizes()
    runtime = ModelRuntime(tmp_path, manifest, device=CPU_AS_DEVICE)
    ports = WorkerPorts(MemoryChannel(lambda _: None), InterruptFlag(), [], time.monotonic)
    worker = Worker(runtime, EngineLimits(max_rows=20), ports)
    worker._engine._observer = sizes
    (found,) = worker.decode([golden.source_ids], PLAIN)
    assert len(found.hypotheses[0].tokens) > RECORDED_AFTER + 1
    warm_up(manifest, worker)
    assert all(sizes.met[rows] >= RECORDED_AFTER + 1 for rows in (1, 2, 3, 4, 6, 8, 12, 16, 20))


@pytest.mark.parametrize("changed", [False, True], ids=["renewed", "files changed"])
def test_a_session_full_of_recordings_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    """Each number of sentences and each growth of the caches wants a recording; with room for three, many."""
    monkeypatch.setattr(cuda_graphs, "MOST_RECORDINGS", 3)
    renewed: list[bool] = []
    renew = Graph.renew

    def watched(graph: Graph) -> ort.InferenceSession | None:
        session = renew(graph)
        renewed.append(session is not None)
        return session

    monkeypatch.setattr(Graph, "renew", watched)
    both = Both(tmp_path, random_bundle.write(tmp_path), CPU_AS_DEVICE)
    if changed:
        (tmp_path / "decoder.onnx").touch()
    for longest in (40, 150, 60, 150):
        both.compare([dataclasses.replace(PLAIN, max_decoding_length=longest + k) for k in range(16)])
    both.close()
    assert set(renewed) == {not changed}
    assert len(renewed) > 3 or changed
