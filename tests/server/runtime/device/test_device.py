"""The device's side of an arena and of a search, against numpy's."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.engine.kv_cache.arena import KEPT_CAPACITY, Arena
from server.engine.search.log_sum_exp import log_sum_exp
from server.errors import SettingError
from server.runtime.device import device as devices_module
from server.runtime.device.device import DeviceTensor, OnnxDevice, cuda
from server.runtime.device.kv_cache import DeviceCaches
from server.runtime.device.ranker import DeviceRanker
from server.runtime.model_spec import ModelSpec
from tests.server.engine.fakes import VOCABULARY, spec
from tests.server.runtime.devices import CPU_AS_DEVICE, EACH_DEVICE, device_named
from tests.support.examples import examples


def upload(device: OnnxDevice, array: np.ndarray) -> DeviceTensor:
    return DeviceTensor.of(ort.OrtValue.ortvalue_from_numpy(array, device.name, 0), device.name, array.dtype)


def download(tensor: DeviceTensor) -> np.ndarray:
    """Read a tensor that starts where its memory does."""
    assert tensor.address == tensor.memory.data_ptr()
    whole: np.ndarray = tensor.memory.numpy()
    return whole.reshape(-1)[: int(np.prod(tensor.shape))].reshape(tensor.shape)


class Pair:
    """The same arena in numpy and on a device. A "decoder" writes the same numbers into both."""

    def __init__(self, device: OnnxDevice, model: ModelSpec, width: int, sentences: int, seed: int) -> None:
        self.device = device
        self.host = Arena(model, width, sentences)
        caches = DeviceCaches(device, model, width, sentences)
        self.other = Arena(model, width, sentences, caches=caches)
        self.model = model
        self.draw = np.random.default_rng(seed)

    def random(self, *shape: int) -> np.ndarray:
        return self.draw.standard_normal(shape).astype(self.model.cache_dtype)

    def admit(self, lengths: list[int]) -> None:
        counts = np.array(lengths, np.int32)
        shape = (len(lengths), self.model.decoder_heads, max(lengths), self.model.head_size)
        cross = [self.random(*shape) for _ in range(2 * self.model.decoder_layers)]
        self.host.admit(cross, counts)
        self.other.admit([upload(self.device, array) for array in cross], counts)

    def step(self) -> None:
        if not self.host.count:
            return
        self.host.prepare_step()
        self.other.prepare_step()
        rows = np.arange(self.host.rows)
        ours = self.host.buffers(0, self.host.count).outputs
        theirs = self.other.buffers(0, self.other.count).outputs
        past = self.host.buffers(0, self.host.count).inputs["self_lengths"]
        past = np.zeros_like(past) if self.model.state_size else past
        for name, array in ours.items():
            if name.startswith("self_"):
                array[rows, :, past] = self.random(len(rows), array.shape[1], array.shape[3])
                memory = theirs[name].memory
                copy = np.array(memory.numpy())
                copy.reshape(-1, *array.shape[1:])[rows, :, past] = array[rows, :, past]
                memory.update_inplace(copy)
        self.host.finish_step()
        self.other.finish_step()

    def reorder(self, seed: int) -> None:
        draw, width = np.random.default_rng(seed), self.host.beam_width
        if not self.host.count or not self.host.target_lengths[: self.host.count].max():
            return
        rows = np.flatnonzero(draw.random(self.host.rows) < 0.6)
        parents = rows // width * width + draw.integers(0, width, len(rows))
        if len(rows):
            self.host.reorder(rows, parents)
            self.other.reorder(rows, parents)

    def retire(self, places: list[int]) -> None:
        for place in places:
            if self.host.count:
                for arena in (self.host, self.other):
                    arena.retire(place % arena.count)
        self.host.flush_moves()
        self.other.flush_moves()

    def check(self) -> None:
        assert self.host.count == self.other.count
        assert self.host.cache_bytes == self.other.cache_bytes
        assert self.host.target_capacity == self.other.target_capacity
        assert self.host.source_capacity == self.other.source_capacity
        if not self.host.count:
            return
        mine = self.host.buffers(0, self.host.count).inputs
        others = self.other.buffers(0, self.other.count).inputs
        assert mine.keys() == others.keys()
        width = self.host.beam_width
        for name, array in mine.items():
            found: Any = others[name]
            if isinstance(found, DeviceTensor):
                found = download(found)
            if found.ndim:  # a step on a device covers places behind the last sentence, too
                found = found[: len(array)]
            assert (found.shape, found.dtype) == (array.shape, array.dtype)
            kind = name.split("_key")[0].split("_value")[0].split("_state")[0]
            for sentence in range(self.host.count if kind in ("self", "cross") and "len" not in name else 0):
                if kind == "self" and "total" not in name:
                    filled = int(self.host.target_lengths[sentence])
                    part = slice(sentence * width, (sentence + 1) * width)
                    assert (found[part, :, :filled] == array[part, :, :filled]).all(), name
                elif "total" not in name:
                    filled = int(self.host.source_lengths[sentence])
                    assert (found[sentence, :, :filled] == array[sentence, :, :filled]).all(), name
            if kind == "cross_last" or not name.startswith(
                ("self_key", "self_value", "self_state", "cross_")
            ):
                assert (found == array).all(), name


actions = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.lists(st.integers(1, 90), min_size=1, max_size=3)),
        st.tuples(st.just("step"), st.integers(1, 45)),
        st.tuples(st.just("reorder"), st.integers(0, 1000)),
        st.tuples(st.just("retire"), st.lists(st.integers(0, 10), min_size=1, max_size=4)),
    ),
    max_size=14,
)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("device", EACH_DEVICE)
@settings(max_examples=examples(40), deadline=None)
@given(
    width=st.sampled_from([1, 2, 4]),
    head_size=st.sampled_from([1, 3, 4, 8]),
    appends=st.booleans(),
    state_heads=st.sampled_from([0, 0, 3]),
    todo=actions,
)
def test_an_arena_on_a_device_holds_what_one_in_numpy_holds(
    device: str,
    dtype: type,
    width: int,
    head_size: int,
    appends: bool,
    state_heads: int,
    todo: list[tuple[str, Any]],
) -> None:
    if head_size == 1 and dtype == np.float16:
        head_size = 2
    model = dataclasses.replace(
        spec(max_target_tokens=200),
        cache_dtype=np.dtype(dtype),
        head_size=head_size,
        appends_cross=appends,
        state_size=state_heads * head_size,
    )
    pair = Pair(device_named(device), model, width, 6, seed=1)
    for action, what in todo:
        if action == "admit":
            if pair.host.count + len(what) <= 6:
                pair.admit(what)
        elif action == "step":
            longest = int(pair.host.target_lengths[: pair.host.count].max(initial=0))
            for _ in range(min(what, 200 - longest)):
                pair.step()
        elif action == "reorder":
            pair.reorder(what)
        else:
            pair.retire(what)
        pair.check()


@pytest.mark.parametrize("device", EACH_DEVICE)
def test_long_sentences_that_left_together_are_forgotten(device: str) -> None:
    """What they filled must not be moved once the caches are small again: it would cover the neighbours'."""
    pair = Pair(device_named(device), dataclasses.replace(spec(max_target_tokens=200), head_size=4), 1, 6, 1)
    pair.admit([90, 90])
    for _ in range(KEPT_CAPACITY + 1):
        pair.step()
    pair.retire([0, 0])
    pair.admit([3, 9, 1, 7, 5])
    pair.step()
    pair.retire([1])
    pair.check()


@pytest.mark.parametrize("device", EACH_DEVICE)
def test_any_sentences_may_leave_in_one_step(device: str) -> None:
    for size in range(1, 6):
        for leaving in itertools.combinations(range(4, -1, -1), size):
            pair = Pair(device_named(device), dataclasses.replace(spec(), head_size=4), 2, 5, seed=size)
            pair.admit([3, 9, 1, 7, 5])
            pair.step()
            pair.retire(list(leaving))
            pair.check()


def ranked_slowly(logits: np.ndarray, best: int, never: list[int]) -> tuple[np.ndarray, np.ndarray]:
    allowed = logits.copy()
    allowed[:, never] = -np.inf
    columns = np.argsort(-allowed, axis=1, kind="stable")[:, :best]
    values = np.take_along_axis(allowed, columns, axis=1)
    return columns, values - log_sum_exp(allowed, values[:, 0])[:, None]


@pytest.mark.parametrize("device", EACH_DEVICE)
@settings(max_examples=examples(40), deadline=None)
@given(
    rows=st.integers(1, 9),
    best=st.sampled_from([1, 4, 8]),
    never=st.lists(st.integers(0, VOCABULARY - 1), max_size=4, unique=True),
    scale=st.sampled_from([0.1, 3.0, 30.0, 300.0]),
    seed=st.integers(0, 10**6),
)
def test_ranking_on_a_device_gives_what_numpy_gives(
    device: str, rows: int, best: int, never: list[int], scale: float, seed: int
) -> None:
    place = device_named(device)
    model = dataclasses.replace(spec(), suppressed_ids=tuple(never))
    logits = (np.random.default_rng(seed).standard_normal((rows, VOCABULARY)) * scale).astype(np.float32)
    ranker = DeviceRanker(place, model, 9, best)
    columns, log_probabilities = ranker.best(upload(place, logits))
    expected, exact = ranked_slowly(logits, best, never)
    assert (columns == expected).all()
    assert log_probabilities == pytest.approx(exact, rel=1e-6, abs=1e-4)
    assert (ranker.whole(upload(place, logits)) == logits).all()


def test_between_equal_scores_the_lowest_columns_are_found() -> None:
    logits = np.random.default_rng(0).integers(0, 3, (40, VOCABULARY)).astype(np.float32)
    columns, _ = DeviceRanker(CPU_AS_DEVICE, spec(), 40, 4).best(upload(CPU_AS_DEVICE, logits))
    assert (columns == np.argsort(-logits, axis=1, kind="stable")[:, :4]).all()


@pytest.mark.parametrize("device", EACH_DEVICE)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_no_numbers_are_told(device: str, value: float) -> None:
    place = device_named(device)
    logits = np.zeros((3, VOCABULARY), np.float32)
    logits[1, 50 if value > 0 or np.isnan(value) else slice(None)] = value
    _, log_probabilities = DeviceRanker(place, spec(), 3, 1).best(upload(place, logits))
    assert np.isfinite(log_probabilities[:, 0]).tolist() == [True, False, True]


def test_a_part_of_a_tensor_is_the_same_memory() -> None:
    tensor = upload(CPU_AS_DEVICE, np.arange(24, dtype=np.float16).reshape(6, 2, 2))
    part = tensor[2:5]
    assert (part.shape, part.nbytes, part.address) == ((3, 2, 2), 24, tensor.address + 16)
    CPU_AS_DEVICE.clear(part)
    assert tensor.memory.numpy().reshape(6, 4)[:, 0].tolist() == [0, 4, 0, 0, 0, 20]
    with pytest.raises(IndexError):
        tensor[::2]


def test_a_machine_without_cuda_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_module.ort, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(SettingError, match=r"install onnxruntime-gpu .* or use --device cpu"):
        cuda.__wrapped__()  # what it found before must not count


def test_memory_that_is_not_there_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        CPU_AS_DEVICE.zeros([1 << 24, 1 << 24], np.dtype(np.float32))
