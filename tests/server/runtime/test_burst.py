"""Several steps in one run of ONNX Runtime, over graphs with random weights: the bits of single steps."""

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from export.bundle import Manifest
from server.engine.arena import Arena
from server.errors import InferenceError
from server.runtime.onnx_runtime import ModelRuntime
from tests.server import random_bundle
from tests.server.random_bundle import BURST, EOS, VOCABULARY


class Sentence:
    """One sentence in an arena of its own."""

    def __init__(self, runtime: ModelRuntime, seed: int = 0) -> None:
        self.runtime = runtime
        self.arena = Arena(runtime.spec, 1, 4)
        self.decoder = runtime.decoder(1)
        self.stop = np.zeros((), np.int64)
        burst = runtime.burst(self.stop)
        assert burst is not None
        self.burst = burst
        draw = np.random.default_rng(seed)
        source = draw.integers(4, VOCABULARY, (1, 9))
        lengths = np.array([9], np.int32)
        self.arena.admit(runtime.encoder.encode(source, lengths), lengths)
        self.tokens: list[int] = []

    def step(self, *, endless: bool = False) -> None:
        self.arena.prepare_step()
        self.decoder.step(self.arena.buffers(0, 1))
        logits = self.arena.logits[0].copy()
        logits[list(self.runtime.spec.suppressed_ids)] = -np.inf
        if endless:
            logits[EOS] = -np.inf
        self._wrote(np.array([logits.argmax()]))

    def leap(self, steps: int, endless: int = 0) -> int:
        self.arena.prepare_step()
        steps = min(steps, self.arena.free_positions)
        tokens = self.burst.run(self.arena.buffers(0, 1), steps, endless)
        assert tokens is not None
        self._wrote(tokens)
        return len(tokens)

    def _wrote(self, tokens: NDArray[np.int64]) -> None:
        self.arena.finish_step(len(tokens))
        self.tokens += tokens.tolist()
        self.arena.input_ids[0, 0] = tokens[-1]

    @property
    def caches(self) -> list[NDArray[np.float32]]:
        inputs = self.arena.buffers(0, 1).inputs
        return [
            inputs[f"self_{part}_{n}"][:, :, : len(self.tokens)] for n in (0, 1) for part in ("key", "value")
        ]


def same(one: Sentence, other: Sentence) -> bool:
    pairs = zip(one.caches, other.caches, strict=True)
    return one.tokens == other.tokens and all(np.array_equal(*pair) for pair in pairs)


@pytest.mark.parametrize("seed", range(6))
def test_steps_in_one_run_leave_what_single_steps_leave(runtime: ModelRuntime, seed: int) -> None:
    single, several = Sentence(runtime, seed), Sentence(runtime, seed)
    several.step()
    while len(several.tokens) < 40 and EOS not in several.tokens:
        several.leap(min(7, 40 - len(several.tokens)))
    while len(single.tokens) < len(several.tokens):
        single.step()
    assert same(single, several)
    assert EOS not in several.tokens[:-1]


def test_the_end_token_ends_a_run_unless_it_is_not_allowed_yet(runtime: ModelRuntime) -> None:
    ended = []
    for seed in range(40):
        sentence = Sentence(runtime, seed)
        if sentence.leap(30) < 30:
            assert sentence.tokens[-1] == EOS
            ended.append((seed, len(sentence.tokens)))
    assert ended  # or the rest would show nothing
    for seed, steps in ended:
        single, several = Sentence(runtime, seed), Sentence(runtime, seed)
        several.leap(30, endless=steps)
        assert len(several.tokens) > steps
        while len(single.tokens) < len(several.tokens):
            single.step(endless=len(single.tokens) < steps)
        assert same(single, several)


def test_tokens_that_are_never_written_are_not_written_here_either(bundle: tuple[Path, Manifest]) -> None:
    directory, manifest = bundle
    first = Sentence(ModelRuntime.load(directory, manifest))
    first.leap(20)
    banned = tuple(set(first.tokens) - {EOS})[:3]
    tokens = manifest.special_tokens.model_copy(update={"suppressed_ids": banned})
    runtime = ModelRuntime.load(directory, manifest.model_copy(update={"special_tokens": tokens}))
    assert runtime.spec.suppressed_ids == banned
    single, several = Sentence(runtime), Sentence(runtime)
    several.leap(20)
    while len(single.tokens) < len(several.tokens):
        single.step()
    assert same(single, several)
    assert not {*banned} & {*several.tokens}


def test_a_run_sees_that_it_is_to_stop(runtime: ModelRuntime) -> None:
    sentence = Sentence(runtime)
    sentence.stop[...] = 1
    assert [sentence.leap(9, endless=9), sentence.leap(9, endless=9)] == [1, 1]
    sentence.stop[...] = 0
    assert sentence.leap(5, endless=5) == 5


def test_with_several_threads_it_is_for_who_is_alone(bundle: tuple[Path, Manifest]) -> None:
    runtime = ModelRuntime.load(*bundle, solo_threads=2)
    single, several = Sentence(runtime), Sentence(runtime)
    several.leap(10)
    while len(single.tokens) < len(several.tokens):
        single.step()
    assert same(single, several)
    other = runtime._traffic._ended_s
    other[-1] = float("inf")  # a thread that runs something
    try:
        assert several.burst.run(several.arena.buffers(0, 1), 2, 0) is None
    finally:
        del other[-1]


def test_it_is_loaded_with_the_model_for_who_forks(tmp_path: Path) -> None:
    manifest = random_bundle.write(tmp_path)
    late, early = (ModelRuntime.load(tmp_path, manifest, bursts=bursts) for bursts in (False, True))
    (tmp_path / BURST).unlink()
    assert Sentence(early).leap(2, endless=2) == 2
    sentence = Sentence(late)
    assert sentence.burst.run(sentence.arena.buffers(0, 1), 2, 0) is None


def test_a_graph_that_is_none_of_it_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manifest = random_bundle.write(tmp_path)
    (tmp_path / BURST).write_bytes((tmp_path / "encoder.onnx").read_bytes())
    sentence = Sentence(ModelRuntime.load(tmp_path, manifest))
    for _ in range(2):
        assert sentence.burst.run(sentence.arena.buffers(0, 1), 4, 0) is None
    assert (
        caplog.text.count("sentences alone are decoded step by step: decoder.burst.onnx: the graph is none")
        == 1
    )


def test_files_that_are_another_bundles_by_now_are_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = ModelRuntime.load(tmp_path, random_bundle.write(tmp_path))
    (tmp_path / "aside").write_bytes((tmp_path / BURST).read_bytes())
    (tmp_path / "aside").replace(tmp_path / BURST)
    sentence = Sentence(runtime)
    assert sentence.burst.run(sentence.arena.buffers(0, 1), 4, 0) is None
    assert "the bundle's files have changed since it was loaded" in caplog.text


def test_memory_that_an_arena_lets_go_is_free(runtime: ModelRuntime) -> None:
    sentence = Sentence(runtime)
    sentence.leap(2, endless=2)
    caches = weakref.ref(sentence.arena.buffers(0, 1).inputs["self_key_0"].base)
    assert caches() is not None
    sentence.arena.retire(0)
    sentence.arena._allocate_smallest()
    gc.collect()
    assert caches() is None


def test_terminate_ends_a_run(bundle: tuple[Path, Manifest]) -> None:
    runtime = ModelRuntime.load(*bundle)
    sentence = Sentence(runtime)
    sentence.leap(2)
    runtime.terminate()
    with pytest.raises(InferenceError):
        sentence.leap(2)


def test_bundles_without_the_graph_have_no_bursts(bundle: tuple[Path, Manifest]) -> None:
    directory, manifest = bundle
    without = manifest.model_copy(update={"graphs": manifest.graphs.model_copy(update={"burst": None})})
    assert ModelRuntime.load(directory, without).burst(np.zeros((), np.int64)) is None
