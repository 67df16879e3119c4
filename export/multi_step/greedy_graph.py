"""The multi-step graph: several greedy steps of a few sentences in one run of ONNX Runtime.

Between two steps there is more than the steps: Python chooses tokens, starts the next run and wakes its
threads, and with one sentence and 6+2 layers of 256 that is a quarter of the time. Here the whole int8
decoder of beam width 1 is the body of a ``Loop`` that takes the best token of each sentence itself and ends
when one of them does.

**Products of few rows.** ``MatMulIntegerToFloat`` with a scale for each column multiplies it by the scale of
the activations in every run, one column after the other on one thread: 3 ns each, 0.1 ms of the 0.27 that one
row of 256 x 32,000 takes. With both scales 1 it converts its sums only, and a ``Mul`` with the products of
both scales, known beforehand, does the rest: 0.17 ms, with two threads 0.10 instead of 0.20 (AVX2). From 16
rows on the scores are read and written once too often, so this is done for multi_step alone. The bits are the
same: a sum of products of 8-bit numbers is a float without rounding, and both forms multiply it by the same
number once.

No id is in the graph: what ends a sentence and what is never written comes from the manifest, at run time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.graph.cache_names import updated_cache
from export.graph.products import BIAS, INTEGER_PRODUCT, ROW_SCALE, ROW_ZERO_POINT, ROWS, SCALE, WEIGHT
from export.multi_step.loop_graph import (
    BANS,
    END,
    STEPS,
    STOP,
    UNIT,
    VECTORS,
    Nodes,
    block_size,
    described,
    go_on_unless_stopped,
    never_changing,
    next_position,
    renamed_nodes,
    self_caches,
    value,
    vocabulary_size,
    with_bans,
)

TOKENS = "tokens"
"""Output int64 [M, N, 1]."""

WIDE = 1024
"""Columns from which on a product is taken apart: fewer cost less than the node that it takes."""


def greedy_multi_step_graph(decoder: onnx.ModelProto) -> onnx.ModelProto:
    """Make the multi-step graph.

    Its inputs are the decoder's and: ``steps``, how many at most; ``stop``, looked at after every step, which
    is the last one unless that is 0 (the caller may write it while the graph runs); ``end_id``, the token
    that ends a sentence, and with it the run; ``bans``, what is added to the scores of every step, 0 or
    minus infinity. Its outputs are ``tokens``, of the M steps that were made, and the self-attention caches.
    Between equal scores the lowest token wins, as in the server's search.

    Args:
        decoder: int8, of beam width 1, weights inside.

    Returns:
        A graph for any number of sentences, with the decoder's weights.
    """
    inputs = {entry.name: entry for entry in decoder.graph.input}
    caches = self_caches(decoder.graph)
    state = [*VECTORS, *caches]
    before, nodes, weights = with_wide_products_apart(decoder.graph)
    around = Nodes(weights)
    columns = vocabulary_size(decoder.graph)
    body = _step(nodes, before, around, {name: inputs[name] for name in state}, columns)
    left = [*(f"{name}_left" for name in VECTORS), *map(updated_cache, caches)]
    going = around.weight(np.bool_(True))
    around.add("Loop", [STEPS, going, *state], [*left, TOKENS], name="multi_step", body=body)
    graph = helper.make_graph(
        around.nodes,
        "multi_step",
        [
            *inputs.values(),
            *(value(name, TensorProto.INT64) for name in (STEPS, STOP, END)),
            value(BANS, TensorProto.FLOAT, columns),
        ],
        [
            value(TOKENS, TensorProto.INT64, "steps_made", "sentences", 1),
            *(described(inputs[name], updated_cache(name)) for name in caches),
        ],
        around.weights,
    )
    return helper.make_model(graph, opset_imports=decoder.opset_import, ir_version=decoder.ir_version)


def _step(
    nodes: list[onnx.NodeProto],
    before: list[onnx.NodeProto],
    around: Nodes,
    state: Mapping[str, onnx.ValueInfoProto],
    columns: int,
) -> onnx.GraphProto:
    """Make the body of the loop, one step.

    Args:
        nodes: of the decoder.
        before: nodes whose results it needs.
        around: receives those, and what of the decoder is the same in every step.
        state: what goes from step to step, by its name.
        columns: of the scores.
    """
    # A name stands for one tensor in both graphs: what the loop takes and gives has another one inside.
    inside = {name: f"{name}_now" for name in state}
    after = {name: f"{name}_after" for name in state}
    names = inside | {updated_cache(name): after[name] for name in state if name not in VECTORS}
    each = Nodes(around.weights)
    fixed, each.nodes = never_changing(renamed_nodes(nodes, names), {*inside.values()})
    around.nodes = before + fixed
    each.nodes = with_bans(each.nodes, around)
    _take_best(each, columns)
    _go_on(each)
    return helper.make_graph(
        each.nodes,
        "step",
        [
            value("step", TensorProto.INT64),
            value("going_on", TensorProto.BOOL),
            *(described(entry, inside[name]) for name, entry in state.items()),
        ],
        [
            value("goes_on", TensorProto.BOOL),
            *(described(entry, after[name]) for name, entry in state.items()),
            value("written", TensorProto.INT64, "sentences", 1),
        ],
    )


def _take_best(nodes: Nodes, columns: int) -> None:
    """Find the best token of every sentence: of equal ones the lowest, ``input_ids_after`` [N, 1].

    ``ArgMax`` looks at one number after the other, ``ReduceMax`` at many at once: so only the block of
    columns with the largest maximum is searched.
    """
    block = block_size(columns, 1)
    if block == 1:
        nodes.add("ArgMax", ["logits"], ["input_ids_after"], axis=1)
    else:
        nodes.add("Reshape", ["logits", nodes.ints(0, columns // block, block)], ["blocks"])
        nodes.add("ReduceMax", ["blocks", nodes.ints(2)], ["maxima"], keepdims=0)
        nodes.add("ArgMax", ["maxima"], ["best_block"], axis=1)
        nodes.add("GatherND", ["blocks", "best_block"], ["few_columns"], batch_dims=1)
        nodes.add("ArgMax", ["few_columns"], ["place"], axis=1)
        nodes.add("Mul", ["best_block", nodes.number(block)], ["first_column"])
        nodes.add("Add", ["first_column", "place"], ["input_ids_after"])
    nodes.add("Identity", ["input_ids_after"], ["written"])


def _go_on(nodes: Nodes) -> None:
    """Decide whether there is to be another step, and make what it needs."""
    nodes.add("Equal", ["input_ids_after", END], ["ends"])
    nodes.add("Cast", ["ends"], ["ends_int32"], to=TensorProto.INT32)
    nodes.add("ReduceMax", ["ends_int32"], ["some_end"], keepdims=0)
    nodes.add("Equal", ["some_end", nodes.weight(np.int32(0))], ["unfinished"])
    go_on_unless_stopped(nodes)
    next_position(nodes)


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
        weights[UNIT] = numpy_helper.from_array(np.array(1, np.float32), UNIT)
        del copy.input[:]
        copy.input.extend([inputs[ROWS], inputs[WEIGHT], UNIT, UNIT, *inputs[ROW_ZERO_POINT:BIAS]])
        copy.output[0] = f"{output}_sums"
        bias = inputs[BIAS]
        scaled = f"{output}_scaled" if bias else output
        nodes += [copy, helper.make_node("Mul", [copy.output[0], both], [scaled])]
        if bias:
            nodes.append(helper.make_node("Add", [scaled, bias], [output]))
    used = {name for node in (*before, *nodes) for name in node.input}
    return before, nodes, [tensor for tensor in weights.values() if tensor.name in used]
