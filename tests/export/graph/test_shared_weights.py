"""Weights files: nothing twice, nothing of the exporter's machine, loadable from anywhere."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.bundle import load_manifest
from export.graph.runner import GraphRunner, open_session
from export.graph.shared_weights import save_graphs


def chain(width: int, layers: int) -> onnx.ModelProto:
    """A chain of products ``x @ w0 @ w1 ...``, float [rows, width]."""
    draw, kind = np.random.default_rng(0), TensorProto.FLOAT
    weights = [draw.standard_normal((width, width)).astype(np.float32) for _ in range(layers)]
    names = ["x", *(f"h{i}" for i in range(layers - 1)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(layers)]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", kind, ["rows", width])],
        [helper.make_tensor_value_info("y", kind, ["rows", width])],
        [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_equal_tensors_of_several_graphs_are_stored_once(tmp_path: Path) -> None:
    model = chain(width=40, layers=2)
    save_graphs(tmp_path, {"a.onnx": model, "b.onnx": model}, "shared.weights")
    content = sum(40 * 40 * 4 for _ in range(2))
    assert content <= (tmp_path / "shared.weights").stat().st_size <= content + 128
    x = np.ones((3, 40), np.float32)
    first, second = (open_session(tmp_path / name).run(None, {"x": x})[0] for name in ("a.onnx", "b.onnx"))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, open_session(model.SerializeToString()).run(None, {"x": x})[0])


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save_graphs(tmp_path / name, {"a.onnx": chain(width=40, layers=3)}, "a.weights")
    for file in ("a.onnx", "a.weights"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_beam_graphs_cost_next_to_nothing(request: pytest.FixtureRequest, precision: str) -> None:
    bundle = request.getfixturevalue("tiny_bundle" if precision == "fp32" else "tiny_bundle_int8")
    for path in bundle.glob("*.onnx"):
        assert path.stat().st_size < 64_000


def test_graphs_hold_nothing_of_the_machine_that_made_them(tiny_bundle: Path, repository: Path) -> None:
    for path in tiny_bundle.glob("*.onnx"):
        content = path.read_bytes()
        for trace in (b"stack_trace", b".py", str(repository).encode(), b"torch"):
            assert trace not in content, (path.name, trace)
        model = onnx.load(path, load_external_data=False)
        assert not model.metadata_props
        assert all(not node.metadata_props and not node.doc_string for node in model.graph.node)


def test_a_bundle_loads_from_any_working_directory(
    tmp_path: Path, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = Path(os.path.relpath(tiny_bundle))
    tokens = load_manifest(relative).special_tokens
    runner = GraphRunner(
        relative / "encoder.onnx",
        relative / "decoder.onnx",
        start_id=tokens.decoder_start_id,
        eos_id=tokens.eos_id,
        pad_id=tokens.pad_id,
    )
    assert len(list(runner.greedy([[5, 6, tokens.eos_id]]))) == 1
