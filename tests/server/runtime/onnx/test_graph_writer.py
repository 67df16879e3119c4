"""Graphs that the server writes by itself, against the library that defines them."""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

from server.runtime.device.kv_cache import moving_graph
from server.runtime.onnx.graph_writer import IR_VERSION, OPSET, GraphWriter


def test_everything_written_is_read_back() -> None:
    graph = GraphWriter()
    float16 = np.dtype(np.float16)
    value = graph.input("x", float16, ["rows", 300])
    constant = graph.weight(np.arange(300, dtype=np.float16))
    graph.node("Gather", [graph.node("Add", [value, constant]), "where"], ["y"], axis=-1)
    graph.input("where", np.dtype(np.int64), [])
    graph.output("y", float16, ["rows"])
    model = onnx.load_from_string(graph.serialise())
    onnx.checker.check_model(model)
    assert (model.ir_version, model.opset_import[0].version) == (IR_VERSION, OPSET)
    assert [node.op_type for node in model.graph.node] == ["Add", "Gather"]
    assert model.graph.node[1].attribute[0].i == -1
    assert (numpy_helper.to_array(model.graph.initializer[0]) == np.arange(300)).all()
    first, second = model.graph.input
    assert first.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    assert [axis.dim_param or axis.dim_value for axis in first.type.tensor_type.shape.dim] == ["rows", 300]
    assert second.type.tensor_type.HasField("shape") and not second.type.tensor_type.shape.dim
    session = ort.InferenceSession(graph.serialise(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": np.ones((2, 300), np.float16), "where": np.array(7)})
    assert found.tolist() == [8.0, 8.0]


def test_the_graphs_of_the_device_are_valid() -> None:
    onnx.checker.check_model(onnx.load_from_string(moving_graph((2, 3), np.dtype(np.int32), 4)), True)
