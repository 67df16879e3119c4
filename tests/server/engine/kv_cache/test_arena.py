import dataclasses

import numpy as np
import pytest

from server.engine.kv_cache.arena import FIRST_CAPACITY, KEPT_CAPACITY, Arena
from tests.server.engine.fakes import HEAD_SIZE, HEADS, LAYERS, START, VOCABULARY, spec


def encoded(draw: np.random.Generator, lengths: np.ndarray) -> list[np.ndarray]:
    shape = (len(lengths), HEADS, int(lengths.max()), HEAD_SIZE)
    return [draw.standard_normal(shape).astype(np.float32) for _ in range(2 * LAYERS)]


def admit(arena: Arena, draw: np.random.Generator, *lengths: int) -> list[np.ndarray]:
    cross = encoded(draw, np.array(lengths, np.int32))
    arena.admit(cross, np.array(lengths, np.int32))
    return cross


def step(arena: Arena, draw: np.random.Generator) -> np.ndarray:
    """Write one position of every row, as a decoder does; returns it."""
    arena.prepare_step()
    buffers = arena.buffers(0, arena.count)
    written = draw.standard_normal((arena.rows, HEADS, HEAD_SIZE)).astype(np.float32)
    rows = np.arange(arena.rows)
    buffers.outputs["self_value_out_1"][rows, :, buffers.inputs["self_lengths"]] = written
    arena.finish_step()
    return written


def test_buffers_have_the_names_shapes_and_dtypes_of_the_decoder_graph() -> None:
    arena, draw = Arena(spec(), 4, 5), np.random.default_rng(0)
    admit(arena, draw, 3, 7)
    buffers = arena.buffers(0, 2)
    shapes = {name: (array.dtype.name, array.shape) for name, array in buffers.inputs.items()}
    self_shape = ("float32", (8, HEADS, FIRST_CAPACITY, HEAD_SIZE))
    cross_shape = ("float32", (2, HEADS, FIRST_CAPACITY, HEAD_SIZE))
    last_shape = ("float32", (2, 1, HEADS * HEAD_SIZE))
    expected = {
        "input_ids": ("int64", (8, 1)),
        "positions": ("int64", (8, 1)),
        "self_lengths": ("int32", (8,)),
        "self_total": ("int32", ()),
        "cross_lengths": ("int32", (2,)),
        "cross_total": ("int32", ()),
    }
    for layer in range(LAYERS):
        for part in ("key", "value"):
            expected[f"self_{part}_{layer}"] = self_shape
            expected[f"cross_{part}_{layer}"] = cross_shape
            expected[f"cross_last_{part}_{layer}"] = last_shape
    assert shapes == expected
    assert buffers.outputs["logits"].shape == (8, VOCABULARY)
    for name, array in buffers.outputs.items():
        if name != "logits":
            assert array.ctypes.data == buffers.inputs[name.replace("_out", "")].ctypes.data


def test_admission_copies_the_encoder_and_the_last_token() -> None:
    arena, draw = Arena(spec(), 2, 4), np.random.default_rng(0)
    cross = admit(arena, draw, 3, 7)
    inputs = arena.buffers(0, 2).inputs
    assert (inputs["cross_value_1"][0, :, :3] == cross[3][0, :, :3]).all()
    assert (
        inputs["cross_last_value_1"][:, 0] == [cross[3][0, :, 2].ravel(), cross[3][1, :, 6].ravel()]
    ).all()
    assert inputs["cross_lengths"].tolist() == [2, 6]
    assert inputs["input_ids"].tolist() == [[START]] * 4


def test_the_same_batch_size_gives_the_same_object_until_the_arena_grows() -> None:
    arena, draw = Arena(spec(), 1, 4), np.random.default_rng(0)
    admit(arena, draw, 3, 7, 2)
    first = arena.buffers(0, 3)
    assert arena.buffers(0, 3) is first
    assert arena.buffers(0, 2) is not first
    admit(arena, draw, FIRST_CAPACITY + 1)
    assert arena.buffers(0, 3) is not first


def test_a_part_of_the_batch_is_the_same_memory() -> None:
    arena, draw = Arena(spec(), 2, 4), np.random.default_rng(0)
    admit(arena, draw, 3, 7, 2)
    whole, part = arena.buffers(0, 3), arena.buffers(1, 2)
    assert part.inputs["self_key_0"].ctypes.data == whole.inputs["self_key_0"][2:].ctypes.data
    assert part.outputs["logits"].ctypes.data == whole.outputs["logits"][2:].ctypes.data
    assert part.inputs["cross_lengths"].tolist() == [6, 1]


def test_growth_keeps_what_is_filled_and_is_bounded_by_the_model() -> None:
    arena, draw = Arena(spec(max_source_tokens=70, max_target_tokens=45), 1, 2), np.random.default_rng(0)
    admit(arena, draw, 3, 4)
    steps = [step(arena, draw) for _ in range(45)]
    assert arena.target_capacity == 45
    assert (arena.buffers(0, 2).inputs["self_value_1"] == np.stack(steps, axis=2)).all()
    arena.retire(1)
    admit(arena, draw, 70)
    assert arena.source_capacity == 70


def test_retiring_moves_the_last_sentence_into_the_hole() -> None:
    arena, draw = Arena(spec(), 2, 4), np.random.default_rng(0)
    admit(arena, draw, 3, 5)
    step(arena, draw)
    admit(arena, draw, 9)
    written = [step(arena, draw) for _ in range(3)]
    arena.input_ids[:6, 0] = [10, 11, 12, 13, 14, 15]
    inputs = arena.buffers(0, 3).inputs
    last = {name: inputs[name][2].copy() for name in ("cross_key_0", "cross_last_key_1", "cross_lengths")}
    arena.retire(0)
    inputs = arena.buffers(0, 2).inputs
    assert arena.count == 2
    assert (inputs["cross_key_0"][0, :, :9] == last["cross_key_0"][:, :9]).all()
    assert (inputs["cross_last_key_1"][0] == last["cross_last_key_1"]).all()
    assert inputs["cross_lengths"].tolist() == [8, 4]
    assert inputs["input_ids"].ravel().tolist() == [14, 15, 12, 13]
    assert inputs["self_lengths"].tolist() == [3, 3, 4, 4]
    assert inputs["positions"].ravel().tolist() == [3, 3, 4, 4]
    assert (inputs["self_value_1"][:2, :, :3] == np.stack(written, axis=2)[4:6]).all()


def test_reorder_is_simultaneous_and_copies_only_what_is_filled() -> None:
    arena, draw = Arena(spec(), 3, 2), np.random.default_rng(0)
    admit(arena, draw, 3, 5)
    written = np.stack([step(arena, draw) for _ in range(4)], axis=2)
    cache = arena.buffers(0, 2).inputs["self_value_1"]
    cache[:, :, 4:] = 7.0
    arena.reorder(np.array([0, 1, 5]), np.array([1, 0, 3]))
    assert (cache[:, :, :4] == written[[1, 0, 2, 3, 4, 3]]).all()
    assert (cache[:, :, 4:] == 7.0).all()


def test_bytes_are_counted_and_an_empty_arena_gives_them_back() -> None:
    arena, draw = Arena(spec(), 2, 4), np.random.default_rng(0)
    position = HEADS * HEAD_SIZE * 4 * LAYERS * 2
    smallest = position * (8 * FIRST_CAPACITY + 4 * FIRST_CAPACITY + 4)
    assert arena.cache_bytes == smallest
    admit(arena, draw, 2 * KEPT_CAPACITY)
    assert arena.cache_bytes == position * (8 * FIRST_CAPACITY + 4 * 2 * KEPT_CAPACITY + 4)
    arena.retire(0)
    assert arena.cache_bytes == smallest


@pytest.mark.parametrize("length", [1, FIRST_CAPACITY, FIRST_CAPACITY + 1, 512])
def test_any_legal_source_fits(length: int) -> None:
    arena, draw = Arena(spec(), 1, 1), np.random.default_rng(0)
    admit(arena, draw, length)
    assert length <= arena.source_capacity <= 512


def test_a_state_is_kept_in_place_of_keys_and_values_however_long_targets_get() -> None:
    model = dataclasses.replace(spec(), state_size=6, cache_dtype=np.dtype(np.int8))
    arena, draw = Arena(model, 2, 4), np.random.default_rng(0)
    cross = [array.astype(np.int8) for array in encoded(draw, np.array([3, 4, 5]))]
    arena.admit(cross, np.array([3, 4, 5], np.int32))
    for steps in range(100):
        arena.prepare_step()
        arena.finish_step()
        assert arena.target_capacity >= steps + 1
    inputs = arena.buffers(0, 3).inputs
    state = inputs["self_state_1"]
    assert (state.shape, state.dtype) == ((6, 1, 1, 6), np.float32)
    assert arena.buffers(0, 3).outputs["self_state_out_1"] is state
    assert not any(name.startswith(("self_key", "self_value")) for name in inputs)
    state[:] = numbered = draw.standard_normal(state.shape).astype(np.float32)
    arena.reorder(np.array([2, 3]), np.array([3, 2]))
    assert (state == numbered[[0, 1, 3, 2, 4, 5]]).all(), "beams take their states with them"
    arena.retire(0)
    moved = arena.buffers(0, 2).inputs["self_state_1"]
    assert (moved == numbered[[4, 5, 3, 2]]).all(), "the last sentence moved into the hole with its states"
