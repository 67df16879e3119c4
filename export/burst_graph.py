"""The graph of a burst: several greedy steps of one sentence in one run of ONNX Runtime.

Between two steps of a lone sentence there is more than the steps: Python chooses a token, starts the next
run and wakes its threads, and with 6+2 layers of 256 that is a quarter of the time. Here the whole int8
decoder of beam width 1 is the body of a ``Loop`` that takes the best token itself and ends after the end
token.

**Products of one row.** ``MatMulIntegerToFloat`` with a scale for each column multiplies it by the scale of
the activations in every run, one column after the other on one thread: 3 ns each, 0.1 ms of the 0.27 that one
row of 256 x 32,000 takes. With both scales 1 it converts its sums only, and a ``Mul`` with the products of
both scales, known beforehand, does the rest: 0.17 ms, with two threads 0.10 instead of 0.20 (AVX2). From 16
rows on the scores are read and written once too often, so this is done for bursts alone. The bits are the
same: a sum of products of 8-bit numbers is a float without rounding, and both forms multiply it by the same
number once.

No id is in the graph: what ends a sentence and what is never written comes from the manifest, at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.products import BIAS, INTEGER_PRODUCT, ROW_SCALE, ROW_ZERO_POINT, ROWS, SCALE, WEIGHT
from export.runner import updated_cache

STEPS, STOP, END, ENDLESS, BANS, TOKENS = "steps", "stop", "end_id", "endless", "bans", "tokens"
"""Inputs int64 [], int64 [], int64 [], int64 [], float32 [V]; output int64 [M, 1, 1]."""

WIDE = 1024
"""Columns from which on a product is taken apart: fewer cost less than the node that it takes."""

_STATE = ("input_ids", "positions", "self_lengths", "self_total")


def burst_graph(decoder: onnx.ModelProto) -> onnx.ModelProto:
    """Make the graph of a burst.

    Its inputs are the decoder's and: ``steps``, how many at most; ``stop``, looked at after every step, which
    is the last one unless that is 0 (whoever runs the graph may write it meanwhile); ``end_id``, the token
    that ends the sentence; ``endless``, how many of the steps must not yield it; ``bans``, what is added to
    the scores of every step, 0 or minus infinity. Its outputs are ``tokens``, of the M steps that were made,
    and the self-attention caches. Between equal scores the lowest token wins, as in the server's search.

    Args:
        decoder: int8, of beam width 1, weights inside.

    Returns:
        A graph for one sentence, with the decoder's weights.
    """
    inputs = {entry.name: entry for entry in decoder.graph.input}
    caches = [name for name in inputs if name.startswith(("self_key_", "self_value_"))]
    state = [*_STATE, *caches]
    before, nodes, constants = with_wide_products_apart(decoder.graph)
    # A name stands for one tensor in both graphs: what the loop takes and gives has another one inside.
    inside = {name: f"{name}_now" for name in state}
    following = {name: f"{name}_next" for name in _STATE} | {
        name: f"{updated_cache(name)}_now" for name in caches
    }
    renamed = inside | {updated_cache(name): following[name] for name in caches}
    nodes = renamed_nodes(nodes, renamed)
    constants += [
        numpy_helper.from_array(np.array(value), name)
        for name, value in (
            ("true", True),
            ("zero", np.int64(0)),
            ("one", np.int64(1)),
            ("one_int32", np.int32(1)),
            ("two", np.array([2], np.int64)),
            ("first", np.array([0], np.int64)),
            ("second", np.array([1], np.int64)),
        )
    ]
    make = helper.make_node
    nodes += [
        make("Add", ["logits", BANS], ["allowed_logits"]),
        make("TopK", ["allowed_logits", "two"], ["best_scores", "best_two"], axis=1),
        make("Gather", ["best_two", "first"], ["best"], axis=1),
        make("Gather", ["best_two", "second"], ["runner_up"], axis=1),
        make("Equal", ["best", END], ["would_end"]),
        make("Less", ["step", ENDLESS], ["must_go_on"]),
        make("And", ["would_end", "must_go_on"], ["overruled"]),
        make("Where", ["overruled", "runner_up", "best"], ["input_ids_next"]),
        make("Equal", ["input_ids_next", END], ["ends"]),
        make("Not", ["ends"], ["unfinished"]),
        make("Equal", [STOP, "zero"], ["undisturbed"]),
        make("And", ["unfinished", "undisturbed"], ["continues"]),
        make("Squeeze", ["continues"], ["goes_on"]),
        make("Identity", ["input_ids_next"], ["written"]),
        make("Add", ["positions_now", "one"], ["positions_next"]),
        make("Add", ["self_lengths_now", "one_int32"], ["self_lengths_next"]),
        make("Add", ["self_total_now", "one_int32"], ["self_total_next"]),
    ]
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        nodes,
        "step",
        [
            value("step", TensorProto.INT64, []),
            value("going_on", TensorProto.BOOL, []),
            *(described(inputs[name], inside[name]) for name in state),
        ],
        [
            value("goes_on", TensorProto.BOOL, []),
            *(described(inputs[name], following[name]) for name in state),
            value("written", TensorProto.INT64, ["sentences", 1]),
        ],
    )
    left = [*(f"{name}_left" for name in _STATE), *map(updated_cache, caches)]
    loop = make("Loop", [STEPS, "true", *state], [*left, TOKENS], name="burst", body=body)
    vocabulary = next(entry for entry in decoder.graph.output if entry.name == "logits")
    graph = helper.make_graph(
        [*before, loop],
        "burst",
        [
            *inputs.values(),
            value(STEPS, TensorProto.INT64, []),
            value(STOP, TensorProto.INT64, []),
            value(END, TensorProto.INT64, []),
            value(ENDLESS, TensorProto.INT64, []),
            value(BANS, TensorProto.FLOAT, [vocabulary.type.tensor_type.shape.dim[-1].dim_value]),
        ],
        [
            value(TOKENS, TensorProto.INT64, ["steps_made", "sentences", 1]),
            *(described(inputs[name], updated_cache(name)) for name in caches),
        ],
        constants,
    )
    return helper.make_model(graph, opset_imports=decoder.opset_import, ir_version=decoder.ir_version)


def with_wide_products_apart(
    graph: onnx.GraphProto,
) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Copy nodes and weights, wide products with scales of 1 and a multiplication behind them.

    Args:
        graph: int8.

    Returns:
        Nodes that multiply scales, which ONNX Runtime does once, when it loads them; the others; the weights.
    """
    weights = {tensor.name: tensor for tensor in graph.initializer}
    before: list[onnx.NodeProto] = []
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        inputs = [*node.input, *[""] * (BIAS + 1 - len(node.input))]
        scale = weights.get(inputs[SCALE])
        is_wide = scale is not None and len(scale.dims) == 1 and scale.dims[0] >= WIDE
        if node.op_type != INTEGER_PRODUCT or not is_wide:
            nodes.append(copy)
            continue
        (output,) = node.output
        both = f"{output}_both_scales"
        before.append(helper.make_node("Mul", [inputs[ROW_SCALE], inputs[SCALE]], [both]))
        unit = numpy_helper.from_array(np.array(1, np.float32), "unit_scale")
        weights[unit.name] = unit
        del copy.input[:]
        copy.input.extend([inputs[ROWS], inputs[WEIGHT], unit.name, unit.name, *inputs[ROW_ZERO_POINT:BIAS]])
        copy.output[0] = f"{output}_sums"
        bias = inputs[BIAS]
        scaled = f"{output}_scaled" if bias else output
        nodes += [copy, helper.make_node("Mul", [copy.output[0], both], [scaled])]
        if bias:
            nodes.append(helper.make_node("Add", [scaled, bias], [output]))
    used = {name for node in (*before, *nodes) for name in node.input}
    return before, nodes, [tensor for tensor in weights.values() if tensor.name in used]


def renamed_nodes(nodes: Iterable[onnx.NodeProto], names: Mapping[str, str]) -> list[onnx.NodeProto]:
    """Copy nodes, tensors called differently, without what the exporter noted about them.

    Args:
        nodes: of a graph.
        names: new names by old ones; tensors that are not among them keep theirs.
    """
    copies = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.ClearField("doc_string")
        del copy.metadata_props[:]
        for of_node in (copy.input, copy.output):
            for i, name in enumerate(of_node):
                of_node[i] = names.get(name, name)
        copies.append(copy)
    return copies


def described(entry: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    """Describe a tensor like another one."""
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(entry)
    copy.name = name
    return copy
