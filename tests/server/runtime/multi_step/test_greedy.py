"""Several steps in one run of ONNX Runtime, over graphs with random weights: the bits of single steps."""

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from export.bundle import Manifest
from server.engine.kv_cache.arena import Arena
from server.errors import InferenceError
from server.runtime.model_runtime import ModelRuntime
from server.runtime.onnx.sessions import PROCESS_TRAFFIC
from tests.server import random_bundle
from tests.server.random_bundle import EOS, MULTI_STEP, VOCABULARY


class Sentences:
    """A few sentences in an arena of their own; none leaves when it ends."""

    def __init__(self, runtime: ModelRuntime, seed: int = 0, count: int = 1) -> None:
        self.runtime = runtime
        self.arena = Arena(runtime.spec, 1, 4)
        self.decoder = runtime.decoder(1)
        self.stop = np.zeros((), np.int64)
        multi_step = runtime.multi_step(1, self.stop)
        assert multi_step is not None
        self.multi_step = multi_step
        draw = np.random.default_rng(seed)
        source = draw.integers(4, VOCABULARY, (count, 9))
        lengths = draw.integers(1, 10, count).astype(np.int32)
        lengths[0] = 9
        self.arena.admit(runtime.encoder.encode(source, lengths), lengths)
        self.steps: list[list[int]] = []

    @property
    def tokens(self) -> list[int]:
        return [token for step in self.steps for token in step]

    def step(self, *, may_end: bool = True) -> None:
        self.arena.prepare_step()
        self.decoder.step(self.arena.buffers(0, self.arena.count))
        logits = self.arena.logits[: self.arena.count].copy()
        logits[:, [*self.runtime.spec.suppressed_ids, *([] if may_end else [EOS])]] = -np.inf
        self._wrote(logits.argmax(axis=1)[None, :])

    def leap(self, steps: int, *, may_end: bool = True) -> int:
        self.arena.prepare_step()
        steps = min(steps, self.arena.free_positions)
        tokens = self.multi_step.run(self.arena.buffers(0, self.arena.count), may_end, steps)
        assert tokens is not None
        self._wrote(tokens)
        return len(tokens)

    def step_up_to(self, other: "Sentences", *, may_end: bool = True) -> None:
        while len(self.steps) < len(other.steps):
            self.step(may_end=may_end)

    def _wrote(self, tokens: NDArray[np.int64]) -> None:
        self.arena.finish_step(len(tokens))
        self.steps += tokens.tolist()
        self.arena.input_ids[: self.arena.count, 0] = tokens[-1]

    @property
    def caches(self) -> list[NDArray[np.float32]]:
        inputs = self.arena.buffers(0, self.arena.count).inputs
        return [
            inputs[f"self_{part}_{n}"][:, :, : len(self.steps)] for n in (0, 1) for part in ("key", "value")
        ]


def same(one: Sentences, other: Sentences) -> bool:
    pairs = zip(one.caches, other.caches, strict=True)
    return one.steps == other.steps and all(np.array_equal(*pair) for pair in pairs)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("seed", range(6))
def test_steps_in_one_run_leave_what_single_steps_leave(runtime: ModelRuntime, seed: int, count: int) -> None:
    single, several = Sentences(runtime, seed, count), Sentences(runtime, seed, count)
    several.step()
    while len(several.steps) < 40 and EOS not in several.tokens:
        several.leap(min(7, 40 - len(several.steps)))
    single.step_up_to(several)
    assert same(single, several)
    assert EOS not in several.tokens[:-count]


@pytest.mark.parametrize("count", [1, 3])
def test_the_end_token_ends_a_run_unless_it_is_not_allowed_yet(runtime: ModelRuntime, count: int) -> None:
    ended = []
    for seed in range(40):
        sentences = Sentences(runtime, seed, count)
        if sentences.leap(30) < 30:
            assert EOS in sentences.steps[-1]
            ended.append(seed)
    assert ended  # or the rest would show nothing
    for seed in ended:
        single, several = Sentences(runtime, seed, count), Sentences(runtime, seed, count)
        assert several.leap(30, may_end=False) == 30
        single.step_up_to(several, may_end=False)
        assert same(single, several)
        assert EOS not in several.tokens


def test_tokens_that_are_never_written_are_not_written_here_either(bundle: tuple[Path, Manifest]) -> None:
    directory, manifest = bundle
    first = Sentences(ModelRuntime(directory, manifest))
    first.leap(20)
    banned = tuple(set(first.tokens) - {EOS})[:3]
    tokens = manifest.special_tokens.model_copy(update={"suppressed_ids": banned})
    runtime = ModelRuntime(directory, manifest.model_copy(update={"special_tokens": tokens}))
    assert runtime.spec.suppressed_ids == banned
    single, several = Sentences(runtime), Sentences(runtime)
    several.leap(20)
    single.step_up_to(several)
    assert same(single, several)
    assert not {*banned} & {*several.tokens}


def test_a_run_sees_that_it_is_to_stop(runtime: ModelRuntime) -> None:
    sentence = Sentences(runtime)
    sentence.stop[...] = 1
    assert [sentence.leap(9, may_end=False), sentence.leap(9, may_end=False)] == [1, 1]
    sentence.stop[...] = 0
    assert sentence.leap(5, may_end=False) == 5


def test_with_several_threads_it_is_for_who_is_alone(bundle: tuple[Path, Manifest]) -> None:
    runtime = ModelRuntime(*bundle, solo_threads=2)
    single, several = Sentences(runtime), Sentences(runtime)
    several.leap(10)
    single.step_up_to(several)
    assert same(single, several)
    other = PROCESS_TRAFFIC._ended_s
    other[-1] = float("inf")  # a thread that runs something
    try:
        assert several.multi_step.run(several.arena.buffers(0, 1), True, 2) is None
    finally:
        del other[-1]


def test_it_is_loaded_with_the_model_for_who_forks(tmp_path: Path) -> None:
    manifest = random_bundle.write(tmp_path)
    late, early = (ModelRuntime(tmp_path, manifest, multi_step=multi_step) for multi_step in (False, True))
    (tmp_path / MULTI_STEP).unlink()
    assert Sentences(early).leap(2, may_end=False) == 2
    sentence = Sentences(late)
    assert sentence.multi_step.run(sentence.arena.buffers(0, 1), True, 2) is None


def test_a_graph_that_is_none_of_it_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manifest = random_bundle.write(tmp_path)
    (tmp_path / MULTI_STEP).write_bytes((tmp_path / "encoder.onnx").read_bytes())
    sentence = Sentences(ModelRuntime(tmp_path, manifest))
    for _ in range(2):
        assert sentence.multi_step.run(sentence.arena.buffers(0, 1), True, 4) is None
    assert (
        caplog.text.count(
            "few sentences are decoded step by step: decoder.multi_step.onnx: the graph is none"
        )
        == 1
    )


def test_files_that_are_another_bundles_by_now_are_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = ModelRuntime(tmp_path, random_bundle.write(tmp_path))
    (tmp_path / "aside").write_bytes((tmp_path / MULTI_STEP).read_bytes())
    (tmp_path / "aside").replace(tmp_path / MULTI_STEP)
    sentence = Sentences(runtime)
    assert sentence.multi_step.run(sentence.arena.buffers(0, 1), True, 4) is None
    assert "the bundle's files have changed since it was loaded" in caplog.text


def test_memory_that_an_arena_lets_go_is_free(runtime: ModelRuntime) -> None:
    sentence = Sentences(runtime)
    sentence.leap(2, may_end=False)
    caches = weakref.ref(sentence.arena.buffers(0, 1).inputs["self_key_0"].base)
    assert caches() is not None
    sentence.arena.retire(0)
    sentence.arena._allocate_smallest()
    gc.collect()
    assert caches() is None


def test_terminate_ends_a_run(bundle: tuple[Path, Manifest]) -> None:
    runtime = ModelRuntime(*bundle)
    sentence = Sentences(runtime)
    sentence.leap(2)
    runtime.terminate()
    with pytest.raises(InferenceError):
        sentence.leap(2)


def test_bundles_without_the_graph_have_no_multi_step(bundle: tuple[Path, Manifest]) -> None:
    directory, manifest = bundle
    without = manifest.model_copy(update={"graphs": manifest.graphs.model_copy(update={"multi_step": None})})
    assert ModelRuntime(directory, without).multi_step(1, np.zeros((), np.int64)) is None
