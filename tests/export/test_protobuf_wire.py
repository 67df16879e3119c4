"""The protobuf reader agrees with the real libraries and survives anything."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from export.protobuf_wire import WireError, count_pieces, summarise_onnx
from model.tokenizer import Tokenizer


def test_summary_of_a_real_graph(tiny_bundle: Path) -> None:
    content = (tiny_bundle / "decoder.onnx").read_bytes()
    model = onnx.load_from_string(content)
    summary = summarise_onnx(content)
    assert summary.ir_version == model.ir_version
    assert summary.opsets == {entry.domain: entry.version for entry in model.opset_import}
    assert summary.node_domains == {"", "com.microsoft"}
    assert summary.external_files == {"model.weights"}


def test_every_opset_import_is_seen() -> None:
    node = helper.make_node("Thing", ["x"], ["y"], domain="somewhere")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("somewhere", 7)]
    summary = summarise_onnx(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    assert summary.opsets == {"": 21, "somewhere": 7}
    assert summary.node_domains == {"somewhere"}


def test_pieces_are_counted_as_sentencepiece_does(tiny_bundle: Path) -> None:
    path = tiny_bundle / "source.spm"
    assert count_pieces(path.read_bytes()) == Tokenizer.load(path).source_vocab_size


@given(st.binary(max_size=400))
def test_any_bytes_give_a_summary_or_an_error(content: bytes) -> None:
    for read in (summarise_onnx, count_pieces):
        try:
            read(content)
        except WireError:
            continue


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_graph_is_an_error(tiny_bundle: Path, share: float) -> None:
    content = (tiny_bundle / "encoder.onnx").read_bytes()
    with pytest.raises(WireError):
        summarise_onnx(content[: int(len(content) * share)])
