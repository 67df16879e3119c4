"""Several steps of beam search in one run, over graphs with random weights: the bits of single steps."""

import gc
import math
import weakref
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from export.bundle import Generation, Manifest
from server.engine.kv_cache.arena import Arena
from server.engine.options import DecodingOptions
from server.engine.search.beam import BeamSearch
from server.errors import InferenceError
from server.runtime.model_runtime import ModelRuntime
from server.runtime.onnx.sessions import PROCESS_TRAFFIC
from server.runtime.sessions import BeamSteps
from tests.server import random_bundle
from tests.server.random_bundle import EOS, VOCABULARY, beam_multi_step_file

WIDTH = 4


class Sentences:
    """Some sentences in an arena of their own."""

    def __init__(self, runtime: ModelRuntime, count: int = 3, seed: int = 0, shortest: int = 0) -> None:
        spec = self.spec = runtime.spec
        self.count = count
        self.arena, self.decoder = Arena(spec, WIDTH, 4), runtime.decoder(WIDTH)
        ids = spec.eos_id, spec.suppressed_ids
        self.search = BeamSearch(WIDTH, 4, *ids, ranker=runtime.ranker(2 * WIDTH))
        self.stop = np.zeros((), np.int64)
        multi_step = runtime.multi_step(WIDTH, self.stop)
        assert multi_step is not None
        self.multi_step = multi_step
        lengths = np.arange(5, 5 + count, dtype=np.int32)
        source = np.random.default_rng(seed).integers(4, VOCABULARY, (count, int(lengths.max())))
        self.arena.admit(runtime.encoder.encode(source, lengths), lengths)
        options = DecodingOptions(beam_size=WIDTH, patience=20, min_decoding_length=shortest)
        for place in range(count):
            self.search.admit(place, options, random_bundle.LONGEST)
        self.steps = 0

    def step(self) -> None:
        self.arena.prepare_step()
        self.decoder.step(self.arena.buffers(0, self.count))
        advance = self.search.advance(self.arena.logits[: self.arena.rows])
        self.arena.finish_step()
        if len(advance.rows):
            self.arena.reorder(advance.rows, advance.parents)
        self.arena.input_ids[: self.arena.rows, 0] = advance.tokens
        self.steps += 1

    def run(self, steps: int) -> BeamSteps | None:
        self.arena.prepare_step()
        left, beams = self.search.max_unconstrained_steps(self.count)
        steps = min(steps, left, self.arena.free_positions)
        return self.multi_step.run(self.arena.buffers(0, self.count), beams, steps)

    def leap(self, steps: int) -> int:
        made = self.run(steps)
        assert made is not None
        advance = self.search.apply_steps(made)
        self.arena.finish_step(len(made.chosen))
        self.arena.input_ids[: self.arena.rows, 0] = advance.tokens
        self.steps += len(made.chosen)
        return len(made.chosen)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of all beams, the best beam of a sentence first."""
        order: NDArray[np.int64] = self.search.max_unconstrained_steps(self.count)[1].order.reshape(-1)
        return order

    @property
    def state(self) -> list[NDArray[np.generic]]:
        inputs = self.arena.buffers(0, self.count).inputs
        caches = [inputs[f"self_{part}_{n}"][:, :, : self.steps] for n in (0, 1) for part in ("key", "value")]
        _, beams = self.search.max_unconstrained_steps(self.count)
        return [
            *(array[self.rows] for array in (*caches, inputs["input_ids"])),
            beams.scores,
            beams.remaining,
        ]


def same(one: Sentences, other: Sentences) -> bool:
    return one.steps == other.steps and all(map(np.array_equal, one.state, other.state))


@pytest.mark.parametrize("count", [1, 3])
def test_steps_in_one_run_leave_what_single_steps_leave(runtime: ModelRuntime, count: int) -> None:
    ended = []
    for seed in range(6):
        single, several = (Sentences(runtime, count, seed) for _ in range(2))
        while several.steps < 40:
            several.leap(7)
            if several.steps % 3 == 0:
                several.step()  # its rows are in another order afterwards
        while single.steps < several.steps:
            single.step()
        assert same(single, several)
        expected, found = ([e.ranked() for e in one.search._criteria[:count]] for one in (single, several))
        assert expected == found
        ended += [len(hypotheses) for hypotheses in found]
    assert max(ended) > 1  # or there would have been nothing to compare


def test_the_end_token_is_not_chosen_before_it_may_be(runtime: ModelRuntime) -> None:
    single, several = (Sentences(runtime, shortest=9) for _ in range(2))
    made = several.run(30)
    assert made is not None
    assert len(made.chosen) == 9
    assert EOS not in made.tokens
    free = Sentences(runtime).run(9)
    assert free is not None
    assert EOS in free.tokens  # or the rest would show nothing
    several.leap(30)
    several.leap(5)
    while single.steps < several.steps:
        single.step()
    assert same(single, several)


def test_a_run_ends_with_the_step_that_leaves_no_room(runtime: ModelRuntime) -> None:
    sentences = Sentences(runtime)
    for ending in sentences.search._criteria[:3]:
        ending._needed = 1  # type: ignore[attr-defined]
    made = sentences.run(40)
    assert made is not None
    ended = (made.tokens[:, :, :WIDTH] == EOS).sum(axis=2).max(axis=1).tolist()
    assert ended[-1] >= 1
    assert sum(ended[:-1]) == 0


def test_tokens_that_are_never_written_are_not_written_here_either(bundle: tuple[Path, Manifest]) -> None:
    directory, manifest = bundle
    first = Sentences(ModelRuntime(directory, manifest)).run(20)
    assert first is not None
    banned = tuple({*first.tokens.reshape(-1).tolist()} - {EOS})[:3]
    tokens = manifest.special_tokens.model_copy(update={"suppressed_ids": banned})
    runtime = ModelRuntime(directory, manifest.model_copy(update={"special_tokens": tokens}))
    single, several = Sentences(runtime), Sentences(runtime)
    made = several.run(20)
    assert made is not None
    assert not {*banned} & {*made.tokens.reshape(-1).tolist()}
    several.leap(20)
    while single.steps < several.steps:
        single.step()
    assert same(single, several)


def test_a_run_sees_that_it_is_to_stop(runtime: ModelRuntime) -> None:
    sentences = Sentences(runtime)
    sentences.stop[...] = 1
    assert [sentences.leap(9), sentences.leap(9)] == [1, 1]
    sentences.stop[...] = 0
    assert sentences.leap(5) == 5


def test_a_sentence_without_numbers_is_told_and_the_others_are_as_before(runtime: ModelRuntime) -> None:
    well, ill = Sentences(runtime), Sentences(runtime)
    ill.arena.buffers(0, 3).inputs["cross_value_0"][1] = np.nan
    expected, made = well.run(6), ill.run(6)
    assert expected is not None
    assert made is not None
    assert made.broken.tolist() == [[False, True, False]] * 6
    assert not expected.broken.any()
    for name in ("parents", "tokens", "scores", "chosen"):
        others = [getattr(steps, name)[:, [0, 2]] for steps in (expected, made)]
        np.testing.assert_array_equal(*others)


def test_who_is_alone_has_more_threads_and_who_is_not_has_one(bundle: tuple[Path, Manifest]) -> None:
    runtime = ModelRuntime(*bundle, solo_threads=2)
    single, several = Sentences(runtime), Sentences(runtime)
    several.leap(5)
    other = PROCESS_TRAFFIC._ended_s
    other[-1] = float("inf")  # a thread that runs something
    try:
        several.leap(5)
    finally:
        del other[-1]
    assert len(next(iter(several.multi_step._bound.values()))) == 2  # type: ignore[attr-defined]
    while single.steps < several.steps:
        single.step()
    assert same(single, several)


def test_a_graph_that_is_none_of_it_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manifest = random_bundle.write(tmp_path)
    (tmp_path / beam_multi_step_file(WIDTH)).write_bytes((tmp_path / "decoder.multi_step.onnx").read_bytes())
    sentences = Sentences(ModelRuntime(tmp_path, manifest))
    for _ in range(2):
        assert sentences.run(4) is None
    assert caplog.text.count("decoder.beam4.multi_step.onnx: the graph is none that makes several steps") == 1


def test_that_of_the_models_own_width_is_loaded_with_the_model_for_who_forks(tmp_path: Path) -> None:
    manifest = random_bundle.write(tmp_path)
    own = manifest.model_copy(update={"generation": Generation(beam_size=WIDTH)})
    early, late = (ModelRuntime(tmp_path, one, multi_step=True) for one in (own, manifest))
    (tmp_path / beam_multi_step_file(WIDTH)).unlink()
    assert Sentences(early).leap(2) == 2
    assert Sentences(late).run(2) is None


@pytest.mark.parametrize("quiet", [True, False])
def test_those_of_other_widths_are_loaded_with_the_first_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    runtime = ModelRuntime(tmp_path, random_bundle.write(tmp_path), solo_threads=2)
    sentences = Sentences(runtime)
    (tmp_path / beam_multi_step_file(WIDTH)).unlink()
    if not quiet:
        monkeypatch.setitem(PROCESS_TRAFFIC._ended_s, -1, math.inf)  # another thread's run
    assert sentences.leap(2) == 2


def test_memory_that_an_arena_lets_go_is_free(runtime: ModelRuntime) -> None:
    sentences = Sentences(runtime)
    sentences.leap(2)
    caches = weakref.ref(sentences.arena.buffers(0, 3).inputs["self_key_0"].base)
    assert caches() is not None
    for place in (2, 1, 0):
        sentences.arena.retire(place)
    sentences.arena._allocate_smallest()
    gc.collect()
    assert caches() is None


def test_terminate_ends_a_run_and_leaves_everything_as_it_was(bundle: tuple[Path, Manifest]) -> None:
    runtime = ModelRuntime(*bundle)
    sentences = Sentences(runtime)
    sentences.leap(2)
    before = [array.copy() for array in sentences.state]
    runtime.terminate()
    with pytest.raises(InferenceError):
        sentences.run(2)
    assert all(map(np.array_equal, before, sentences.state))


def test_bundles_without_the_graph_have_no_multi_step(bundle: tuple[Path, Manifest]) -> None:
    directory, manifest = bundle
    graphs = manifest.graphs.model_copy(update={"beam_multi_step": {}})
    runtime = ModelRuntime(directory, manifest.model_copy(update={"graphs": graphs}))
    assert runtime.multi_step(WIDTH, np.zeros((), np.int64)) is None
