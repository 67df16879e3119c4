"""Packed weights on disk: the same bits, one file for all decoders, and what replaces a damaged one."""

import logging
import os
import time
from pathlib import Path

import numpy as np
import pytest

from export.bundle import BundleError, Manifest, load_manifest
from server.engine.kv_cache.arena import Arena
from server.runtime.model_runtime import ModelRuntime
from server.runtime.model_spec import Array
from server.runtime.onnx.packed_weights import packed_graphs


@pytest.fixture(scope="module")
def shipped(repository: Path) -> tuple[Path, Manifest]:
    directory = repository / "bundles/en-de"
    return directory, load_manifest(directory)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, shipped: tuple[Path, Manifest]) -> Path:
    """A cache that has the shipped bundle; read only."""
    directory: Path = tmp_path_factory.mktemp("weights") / "cache"
    assert packed_graphs(directory, *shipped)
    return directory


def logits(runtime: ModelRuntime, width: int) -> Array:
    """Scores of the first step of two sentences."""
    arena, lengths = Arena(runtime.spec, width, 2 * width), np.array([5, 3], np.int32)
    input_ids = np.array([[9, 8, 7, 6, 5], [11, 12, 13, 0, 0]], np.int64)
    arena.admit(runtime.encoder.encode(input_ids, lengths), lengths)
    arena.prepare_step()
    buffers = arena.buffers(0, 2)
    runtime.decoder(width).step(buffers)
    return np.array(buffers.outputs["logits"])


@pytest.mark.parametrize("width", [1, 4])
def test_packed_weights_give_the_same_bits(shipped: tuple[Path, Manifest], root: Path, width: int) -> None:
    shared = ModelRuntime(*shipped, weights_cache=root)
    assert np.array_equal(logits(shared, width), logits(ModelRuntime(*shipped), width))


def test_all_decoder_graphs_share_one_file(shipped: tuple[Path, Manifest], root: Path) -> None:
    graphs = packed_graphs(root, *shipped)
    assert set(graphs) == set(shipped[1].graph_files)
    files = {path.with_name(f"{path.name}.weights").stat().st_ino for path in graphs.values()}
    assert len(files) == 2  # the encoder's and the decoders'
    assert all(graph.stat().st_size < 1 << 19 for graph in graphs.values())


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists what is mapped")
def test_sessions_map_the_file(shipped: tuple[Path, Manifest], root: Path) -> None:
    runtime = ModelRuntime(*shipped, weights_cache=root)
    assert str(root) in Path("/proc/self/maps").read_text(encoding="utf-8")
    assert runtime.spec.decoder_layers


def test_nothing_is_packed_twice(shipped: tuple[Path, Manifest], root: Path) -> None:
    graph = packed_graphs(root, *shipped)["decoder.onnx"]
    inode = graph.stat().st_ino
    assert packed_graphs(root, *shipped)["decoder.onnx"].stat().st_ino == inode


@pytest.mark.parametrize("damage", ["truncated", "changed", "missing", "no index"])
def test_a_damaged_folder_is_made_anew(shipped: tuple[Path, Manifest], tmp_path: Path, damage: str) -> None:
    graph = packed_graphs(tmp_path, *shipped)["decoder.onnx"]
    weights = graph.with_name(f"{graph.name}.weights")
    whole = weights.read_bytes()
    if damage == "missing":
        weights.unlink()
    elif damage == "no index":
        (graph.parent / "index.json").write_text("{", encoding="utf-8")
    else:
        weights.write_bytes(whole[:4096] if damage == "truncated" else whole[:-1] + b"\x55")
    assert packed_graphs(tmp_path, *shipped)["decoder.onnx"] == graph
    assert weights.read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == [graph.parent.name]


def test_a_folder_that_cannot_be_used_costs_memory_and_a_line(
    shipped: tuple[Path, Manifest], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "file"
    root.write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        runtime = ModelRuntime(*shipped, weights_cache=root)
    assert len(caplog.records) == 1
    assert "every session packs its weights for itself" in caplog.text
    assert logits(runtime, 1).shape == (2, shipped[1].architecture.vocab_size)


def test_sessions_that_come_later_do_without_the_folder(
    shipped: tuple[Path, Manifest], tmp_path: Path, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = ModelRuntime(*shipped, weights_cache=tmp_path / "cache")
    (tmp_path / "cache").rename(tmp_path / "gone")
    expected = logits(ModelRuntime(*shipped, weights_cache=root), 4)
    assert np.array_equal(logits(runtime, 4), expected)
    assert "decoder.beam4.onnx packs its weights for itself" in caplog.text


def test_folders_that_no_start_has_used_for_a_month_are_removed(
    shipped: tuple[Path, Manifest], tmp_path: Path
) -> None:
    long_ago = time.time() - 31 * 86400
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / "old", (long_ago, long_ago))
    packed_graphs(tmp_path, *shipped)
    assert not (tmp_path / "old").exists()
    assert (tmp_path / "new").exists()


def test_a_graph_that_does_not_load_is_refused(shipped: tuple[Path, Manifest], tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for file in shipped[0].iterdir():
        (bundle / file.name).symlink_to(file)
    (bundle / "encoder.onnx").unlink()
    (bundle / "encoder.onnx").write_bytes(b"not a graph")
    with pytest.raises(BundleError) as refused:
        ModelRuntime(bundle, shipped[1], weights_cache=tmp_path / "cache")
    assert "encoder.onnx" in str(refused.value)
    assert [*(tmp_path / "cache").iterdir()] == []
