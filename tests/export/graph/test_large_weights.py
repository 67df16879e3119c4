"""Graphs over files of weights: the same as with their weights inside, at any size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.graph.large_weights import LARGE_BYTES, move_out, refer, values_of, write_graph
from export.graph.onnx_export import export_encoder
from export.graph.products import GraphIndex, find_products
from export.graph.runner import open_session
from export.graph.shared_weights import save_graphs
from export.int8.quantize import ActivationRange, quantize_graph
from model.transformer import Transformer
from tests.support.factories import tiny_config


def product(weight: TensorProto, rows: int) -> onnx.ModelProto:
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", weight.name], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", kind, ["n", rows])],
        [helper.make_tensor_value_info("y", kind, ["n", weight.dims[1]])],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def large(columns: int = 1024) -> tuple[np.ndarray, onnx.ModelProto]:
    values = np.random.default_rng(0).standard_normal((512, columns)).astype(np.float32)
    return values, product(numpy_helper.from_array(values, "w"), 512)


def test_a_moved_weight_is_read_and_computed_with_as_before(tmp_path: Path) -> None:
    values, model = large()
    x = np.random.default_rng(1).standard_normal((3, 512)).astype(np.float32)
    expected = open_session(model.SerializeToString()).run(None, {"x": x})[0]
    move_out(model, tmp_path / "w.bin")
    assert model.ByteSize() < 1000 < LARGE_BYTES <= (tmp_path / "w.bin").stat().st_size
    np.testing.assert_array_equal(values_of(model.graph.initializer[0], tmp_path), values)
    path = write_graph(model, tmp_path / "graph.onnx")
    np.testing.assert_array_equal(open_session(path).run(None, {"x": x})[0], expected)


def test_int8_and_the_bundle_are_the_same_over_files(tmp_path: Path) -> None:
    _, inside = large(2048)
    _, beside = large(2048)
    move_out(beside, tmp_path / "fp32.weights")
    interval = [ActivationRange(-3, 3)]
    made = quantize_graph(inside, interval, 7), quantize_graph(beside, interval, 7, folder=tmp_path)
    assert made[0].SerializeToString(deterministic=True) == made[1].SerializeToString(deterministic=True)
    move_out(made[1], tmp_path / "int8.weights")
    for name, graph in zip(("inside", "beside"), made, strict=True):
        (tmp_path / name).mkdir()
        save_graphs(tmp_path / name, {"a.onnx": graph}, "a.weights", tmp_path)
    for file in ("a.onnx", "a.weights"):
        assert (tmp_path / "inside" / file).read_bytes() == (tmp_path / "beside" / file).read_bytes()


def test_the_exporter_writes_large_weights_to_the_file(tmp_path: Path) -> None:
    model = Transformer(tiny_config(6000)).eval()  # a table of 6000 x 48 is more than 1 MiB
    inside, beside = export_encoder(model), export_encoder(model, weights=tmp_path / "encoder.weights")
    assert beside.ByteSize() < inside.ByteSize() - 6000 * 48 * 4 + LARGE_BYTES / 10
    first, second = (
        find_products(graph.graph, GraphIndex(graph.graph, tmp_path)) for graph in (inside, beside)
    )
    assert [one.output for one in first] == [one.output for one in second]
    tables = [
        values_of(tensor, tmp_path)
        for graph in (inside, beside)
        for tensor in graph.graph.initializer
        if tensor.dims == [6000, 48]
    ]
    np.testing.assert_array_equal(tables[0], tables[1])
    ids = {"input_ids": np.array([[5, 9, 3]]), "lengths": np.array([3], np.int32)}
    path = write_graph(beside, tmp_path / "encoder.onnx")
    for one, other in zip(
        open_session(inside.SerializeToString()).run(None, ids),
        open_session(path).run(None, ids),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("rows", [600_000])
def test_a_graph_has_more_than_2_gib(rows: int, tmp_path: Path) -> None:
    with (tmp_path / "holes.weights").open("wb") as stream:  # a file of holes takes no room
        stream.truncate(rows * 1024 * 4)
        stream.seek((rows - 1) * 1024 * 4)
        stream.write(np.arange(1024, dtype=np.float32).tobytes())
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[rows, 1024])
    refer(table, "holes.weights", 0, rows * 1024 * 4)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "look-up",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1024])],
        [table],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    assert values_of(table, tmp_path).nbytes > 2 << 30
    session = open_session(write_graph(model, tmp_path / "graph.onnx"))
    found = session.run(None, {"ids": np.array([0, rows - 1])})[0]
    np.testing.assert_array_equal(found, np.stack([np.zeros(1024), np.arange(1024)]))
