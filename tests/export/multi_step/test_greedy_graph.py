"""The graph of several steps: wide products taken apart with the same bits, and the gate that compares."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.assemble import multi_step_file
from export.bundle import load_manifest, verify_bundle
from export.graph.runner import GraphRunner, open_session
from export.int8.quantize import ActivationRange, quantize_graph
from export.multi_step import build
from export.multi_step.beam_graph import block_size
from export.multi_step.greedy_graph import WIDE, with_wide_products_apart
from export.multi_step.loop_graph import Nodes, with_bans
from export.pipeline import ExportError
from export.quality_gates import is_same_in_multi_step
from tests.export.int8.test_quantize import graph, run, weights
from tests.export.test_quality_gates import open_decoder


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("columns", [WIDE, 3001])
def test_a_wide_product_taken_apart_has_the_same_bits(columns: int, with_bias: bool) -> None:
    weight, x = weights(64, columns), weights(7, 64)
    constants = {"w": weight}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m" if with_bias else "y"])]
    if with_bias:
        constants["b"] = weights(columns)
        nodes.append(helper.make_node("Add", ["m", "b"], ["y"]))
    whole = quantize_graph(graph(nodes, constants, columns=64), [ActivationRange(-2.5, 3.0)], 7)
    apart = onnx.ModelProto()
    apart.CopyFrom(whole)
    before, made, kept = with_wide_products_apart(whole.graph)
    del apart.graph.node[:], apart.graph.initializer[:]
    apart.graph.node.extend([*before, *made])
    apart.graph.initializer.extend(kept)
    assert [node.op_type for node in made][1:3] == ["MatMulIntegerToFloat", "Mul"]
    for rows in (1, 2, 7):
        np.testing.assert_array_equal(run(whole, x[:rows])[0], run(apart, x[:rows])[0])


def test_narrow_products_stay_as_they_are() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    whole = quantize_graph(graph(nodes, {"w": weights(16, WIDE - 1)}), [ActivationRange(-2.5, 3.0)], 7)
    before, made, kept = with_wide_products_apart(whole.graph)
    assert before == []
    assert made == list(whole.graph.node)
    assert {tensor.name for tensor in kept} == {tensor.name for tensor in whole.graph.initializer}


def body_of(graph: onnx.ModelProto) -> onnx.GraphProto:
    (loop,) = (node for node in graph.graph.node if node.op_type == "Loop")
    return next(attribute.g for attribute in loop.attribute if attribute.name == "body")


@pytest.mark.parametrize(
    ("last", "maker"),
    [
        ([("MatMul", ["x", "w"], "logits")], "logits"),
        ([("MatMul", ["x", "w"], "m"), ("Add", ["m", "b"], "logits")], "logits"),
        ([("MatMul", ["x", "wide"], "logits")], "logits_sums"),
        ([("MatMul", ["x", "wide"], "m"), ("Add", ["m", "wide_b"], "logits")], "logits"),
        ([("MatMul", ["x", "w"], "m"), ("Neg", ["m"], "logits")], "logits"),
    ],
)
def test_banned_words_have_minus_infinity_and_the_others_their_bits(
    last: list[tuple[str, list[str], str]], maker: str
) -> None:
    """Whatever computes the scores, and without a pass over them unless nothing else helps."""
    known = {"w": weights(64, 40), "b": weights(40), "wide": weights(64, WIDE), "wide_b": weights(WIDE)}
    used = {name for _, inputs, _ in last for name in inputs}
    constants = {name: value for name, value in known.items() if name in used}
    columns = WIDE if "wide" in used else 40
    nodes = [helper.make_node(operator, inputs, [output]) for operator, inputs, output in last]
    made = graph(nodes, constants, ("logits",), columns=64)
    whole = quantize_graph(made, [ActivationRange(-2.5, 3.0)], 7)
    before, apart, kept = with_wide_products_apart(whole.graph)
    around = Nodes(kept)
    around.nodes = before
    each = with_bans(apart, around)
    (node,) = (node for node in each if maker in node.output)
    assert {"bans", "bias_with_bans"} & {*node.input}
    assert len(each) - len(apart) == (last[-1][0] == "Neg")
    bans = np.where(np.arange(columns) % 7 == 3, -np.inf, 0).astype(np.float32)
    changed = onnx.ModelProto()
    changed.CopyFrom(whole)
    del changed.graph.node[:], changed.graph.initializer[:]
    changed.graph.node.extend([*around.nodes, *each])
    changed.graph.initializer.extend([*around.weights, numpy_helper.from_array(bans, "bans")])
    x = weights(5, 64)
    np.testing.assert_array_equal(run(whole, x)[0] + bans, run(changed, x)[0])


def runner(bundle: Path) -> GraphRunner:
    return GraphRunner.of_bundle(bundle, load_manifest(bundle))


def sources(bundle: Path) -> list[tuple[int, ...]]:
    return [golden.source_ids for golden in load_manifest(bundle).golden]


def test_an_int8_bundle_has_the_graph_over_the_weights_that_are_there(tiny_bundle_int8: Path) -> None:
    manifest = verify_bundle(tiny_bundle_int8)
    assert manifest.graphs.multi_step == multi_step_file(1)
    assert multi_step_file(1) in manifest.graph_files
    stored = onnx.load(tiny_bundle_int8 / multi_step_file(1), load_external_data=False)
    own = {tensor.name for tensor in stored.graph.initializer if len(tensor.raw_data) > 1024}
    assert own == set()
    (body,) = stored.graph.node[-1].attribute
    assert not any(node.doc_string or node.metadata_props for node in body.g.node)


def test_other_precisions_have_none(tiny_bundle: Path, tiny_bundle_fp16: Path) -> None:
    for bundle in (tiny_bundle, tiny_bundle_fp16):
        assert load_manifest(bundle).graphs.multi_step is None
        assert not (bundle / multi_step_file(1)).exists()


def test_sentences_are_the_same_in_several_steps(tiny_bundle_int8: Path) -> None:
    multi_step = open_session(tiny_bundle_int8 / multi_step_file(1))
    chosen = sources(tiny_bundle_int8)
    assert is_same_in_multi_step(runner(tiny_bundle_int8), multi_step, chosen, [20] * len(chosen))


def test_another_models_graph_is_found_out(tiny_bundle_int8: Path, tmp_path: Path) -> None:
    graph = onnx.load(tiny_bundle_int8 / multi_step_file(1))
    for tensor in graph.graph.initializer:
        if tensor.data_type == TensorProto.INT8 and tensor.dims[-1] > 16:
            values = np.ascontiguousarray(numpy_helper.to_array(tensor)[..., ::-1])
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    multi_step = open_session(graph.SerializeToString())
    chosen = sources(tiny_bundle_int8)
    assert not is_same_in_multi_step(runner(tiny_bundle_int8), multi_step, chosen, [20] * len(chosen))


def test_a_graph_that_is_right_for_one_sentence_only_is_found_out(tiny_bundle_int8: Path) -> None:
    graph = onnx.load(tiny_bundle_int8 / multi_step_file(1))
    (some_end,) = (node for node in body_of(graph).node if "some_end" in node.output)
    assert some_end.op_type == "ReduceMax"
    some_end.op_type = "ReduceMin"  # it goes on until all have ended
    multi_step, chosen = open_session(graph.SerializeToString()), sources(tiny_bundle_int8)
    assert is_same_in_multi_step(runner(tiny_bundle_int8), multi_step, chosen[:1], [20])
    assert not is_same_in_multi_step(runner(tiny_bundle_int8), multi_step, chosen, [20] * len(chosen))


@pytest.mark.usefixtures("each_graph_once")
def test_a_graph_that_is_not_the_same_is_left_out_of_the_bundle(
    tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support import factories

    monkeypatch.setattr(build, "is_same_in_multi_step", lambda *_: False)
    bundle = factories.tiny_bundle(tmp_path, tiny_checkpoint, precision="int8")
    graphs = verify_bundle(bundle).graphs
    assert graphs.multi_step is None
    assert graphs.beam_multi_step != {}
    assert not (bundle / multi_step_file(1)).exists()
    shutil.rmtree(bundle)


# --- Beam search


def test_an_int8_bundle_has_one_for_each_beam_width(tiny_bundle_int8: Path) -> None:
    graphs = verify_bundle(tiny_bundle_int8).graphs
    widths = [width for width in graphs.beam_widths if width > 1]
    assert graphs.beam_multi_step == {str(width): multi_step_file(width) for width in widths} != {}
    stored = onnx.load(tiny_bundle_int8 / multi_step_file(widths[0]), load_external_data=False)
    assert not [tensor for tensor in stored.graph.initializer if len(tensor.raw_data) > 1024]
    onnx.checker.check_model(str(tiny_bundle_int8 / multi_step_file(widths[0])))


def test_what_is_banned_is_part_of_the_bias_of_the_product(tiny_bundle_int8: Path) -> None:
    """A sum over all scores would cost as much as a third of the ranking."""
    stored = onnx.load(tiny_bundle_int8 / multi_step_file(2), load_external_data=False)
    (product,) = (node for node in body_of(stored).node if "logits" in node.output)
    assert product.op_type == "MatMulIntegerToFloat"
    assert product.input[6] in ("bans", "bias_with_bans")


@pytest.mark.parametrize("width", [2, 4])
def test_beams_are_the_same_in_several_steps(tiny_bundle_int8: Path, width: int) -> None:
    multi_step = open_session(tiny_bundle_int8 / multi_step_file(width))
    chosen = sources(tiny_bundle_int8)
    assert open_decoder(tiny_bundle_int8, width).agrees_in_beams(chosen[:3], 12, multi_step)


@pytest.mark.parametrize("what", ["weights", "chosen", "parents"])
def test_a_graph_of_beams_that_does_something_else_is_found_out(tiny_bundle_int8: Path, what: str) -> None:
    graph = onnx.load(tiny_bundle_int8 / multi_step_file(2))
    body = body_of(graph)
    if what == "weights":
        for tensor in graph.graph.initializer:
            if tensor.data_type == TensorProto.INT8 and tensor.dims[-1] > 16:
                values = np.ascontiguousarray(numpy_helper.to_array(tensor)[..., ::-1])
                tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    elif what == "chosen":  # the second best column of a row is called the best
        (gains,) = (node for node in body.node if "gains" in node.output)
        gains.input[0] = "logits"
    else:  # caches stay where they are
        for node in body.node:
            if node.op_type == "Gather" and node.input[1] == "order_now":
                node.input[1] = "step_rows"
        step_rows = helper.make_node("Add", ["parent_rows_of_none", "parent_rows_of_none"], ["step_rows"])
        none = numpy_helper.from_array(np.zeros(6, np.int64), "parent_rows_of_none")
        body.node.insert(0, step_rows)
        graph.graph.initializer.append(none)
    multi_step = open_session(graph.SerializeToString())
    assert not open_decoder(tiny_bundle_int8, 2).agrees_in_beams(
        sources(tiny_bundle_int8)[:3], 12, multi_step
    )


@pytest.mark.usefixtures("each_graph_once")
def test_a_graph_of_beams_that_is_not_the_same_is_left_out_of_the_bundle(
    tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support import factories

    monkeypatch.setattr(GraphRunner, "agrees_in_beams", lambda *_: False)
    bundle = factories.tiny_bundle(tmp_path, tiny_checkpoint, precision="int8")
    graphs = verify_bundle(bundle).graphs
    assert graphs.beam_multi_step == {}
    assert graphs.multi_step == multi_step_file(1)


@pytest.mark.usefixtures("each_graph_once")
@pytest.mark.parametrize(("asked", "made"), [(None, []), ([], []), ([4], ["4"])])
def test_only_the_widths_that_are_named_get_one(
    tiny_checkpoint: Path, tmp_path: Path, asked: list[int] | None, made: list[str]
) -> None:
    """The tiny model is meant for greedy search, so by default there is none."""
    from tests.support import factories

    bundle = factories.tiny_bundle(tmp_path, tiny_checkpoint, "int8", multi_step_widths=asked)
    graphs = verify_bundle(bundle).graphs
    assert list(graphs.beam_multi_step) == made
    assert graphs.multi_step == multi_step_file(1)


def test_a_width_without_a_decoder_is_refused(tiny_checkpoint: Path, tmp_path: Path) -> None:
    from tests.support import factories

    with pytest.raises(ExportError, match="--multi-step-widths: beam width 3 has no decoder graph"):
        factories.tiny_bundle(tmp_path, tiny_checkpoint, "int8", multi_step_widths=[2, 3])


@pytest.mark.parametrize(("columns", "best"), [(6000, 8), (32000, 4), (101, 8), (50, 8)])
def test_the_server_searches_the_same_blocks(columns: int, best: int) -> None:
    from server.runtime.onnx import top_k_ranker

    assert block_size(columns, best) == (top_k_ranker.block_size(columns, best) or 1)
