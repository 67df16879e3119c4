"""The graph of a burst of beam search: several steps of a few sentences in one run of ONNX Runtime.

Between two steps of a beam search there is a second run, which ranks the scores, and some twenty calls of
numpy: half of a step of one sentence with a small decoder. Here the whole int8 decoder of one beam width is
the body of a ``Loop`` that makes the step of `server.engine.beam` itself: of each beam the 2K best words, of
those the 2K best candidates of each sentence, of those the K best that do not end as its beams. What the
candidates were is an output, so that whoever runs the graph can look for the hypotheses that ended.

**Caches.** Every step puts the caches in the order of the beams and copies them, as a loop cannot write in
place. So they are as long as what is in them, and grow by a position with every step.

**Ranking.** As in `server.runtime.ranking`, where it is explained: only the 2K blocks of columns with the
largest maxima are searched.

No id is in the graph: what ends a sentence and what is never written comes at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from export.burst_graph import BANS, END, STEPS, STOP, described, renamed_nodes
from export.products import BIAS, INTEGER_PRODUCT
from export.runner import updated_cache

ORDER, SCORES, ROOM, FIRST_ROWS = "order", "scores", "room", "first_rows"
"""Inputs int64 [R], float64 [R, 1], int64 [N], int64 [N, 1], beside those that `burst_graph` has, too."""

OFFERS, TOKENS, TOTALS, CHOSEN, SUMS = "offers", "tokens", "totals", "chosen", "sums"
"""Outputs int64, int64, float64 [M, N, 2K], int64 [M, N, K], float32 [M, R]."""

_VECTORS = ("input_ids", "positions", "self_lengths", "self_total")


def beam_burst_graph(decoder: onnx.ModelProto, width: int) -> onnx.ModelProto:
    """Make the graph of a burst of beam search.

    Its inputs are the decoder's and: ``steps``, how many at most, none of which is the last of a sentence;
    ``stop``, looked at after every step, which is the last one unless that is 0; ``end_id``, the token that
    ends a hypothesis; ``order``, the row of every beam, the best beam of a sentence first; ``scores``, their
    log-probabilities; ``room``, of how many hypotheses of a sentence the end makes a step the last one;
    ``first_rows``, the first row of every sentence; ``bans``, what is added to the scores of every step, 0 or
    minus infinity, 0 for 2K words at least.

    Its outputs are, of the M steps that were made, the candidates of every sentence, best first: ``offers``,
    2K times the beam that is continued plus which of its words it is, ``tokens`` and ``totals``, their
    log-probabilities; ``chosen``, the candidates that became beams; ``sums``, not finite for beams whose
    scores were not; and the self-attention caches in the order of the beams, of all positions that are
    filled.

    Args:
        decoder: int8, of this beam width, weights inside.
        width: beams K per sentence, at least 2.

    Returns:
        A graph for any number of sentences, with the decoder's weights.
    """
    inputs = {entry.name: entry for entry in decoder.graph.input}
    caches = [name for name in inputs if name.startswith(("self_key_", "self_value_"))]
    vocabulary = next(entry for entry in decoder.graph.output if entry.name == "logits")
    columns = vocabulary.type.tensor_type.shape.dim[-1].dim_value
    around = _Nodes(list(decoder.graph.initializer))
    nodes = _Nodes(around.weights)
    for name in caches:
        nodes.add("Gather", [f"{name}_before", "order_now"], [f"{name}_now"], axis=0)
    inside = {name: f"{name}_now" for name in (*_VECTORS, *caches)}
    renamed = renamed_nodes(
        decoder.graph.node, inside | {updated_cache(name): f"{name}_after" for name in caches}
    )
    around.nodes, each = _never_changing(renamed, {*inside.values()})
    nodes.nodes += _with_bans(each, around)
    _rank(nodes, columns, 2 * width)
    _choose(nodes, width)
    _go_on(nodes, width)
    body = helper.make_graph(
        nodes.nodes,
        "step",
        [
            _value("step", TensorProto.INT64),
            _value("going_on", TensorProto.BOOL),
            *_state(inputs, "now"),
            *(_of_any_length(inputs[name], f"{name}_before") for name in caches),
        ],
        [
            _value("goes_on", TensorProto.BOOL),
            *_state(inputs, "after"),
            *(_of_any_length(inputs[name], f"{name}_after") for name in caches),
            *_found("_now", width),
        ],
    )
    around.add("Gather", ["input_ids", ORDER], ["input_ids_in_order"], axis=0)
    around.add("Sub", ["self_total", around.weight(np.int32(1))], ["filled_int32"])
    around.add("Cast", ["filled_int32"], ["filled_scalar"], to=TensorProto.INT64)
    around.add("Reshape", ["filled_scalar", around.ints(1)], ["filled"])
    for name in caches:
        around.add("Slice", [name, around.ints(0), "filled", around.ints(2)], [f"{name}_filled"])
    state = ["input_ids_in_order", *_VECTORS[1:], ORDER, SCORES, ROOM, *(f"{name}_filled" for name in caches)]
    left = [f"{name}_left" for name in (*_VECTORS, ORDER, SCORES, ROOM, *caches)]
    going = around.weight(np.bool_(True))
    around.add(
        "Loop", [STEPS, going, *state], [*left, OFFERS, TOKENS, TOTALS, CHOSEN, SUMS], name="burst", body=body
    )
    for name in caches:
        around.add("Gather", [f"{name}_left", f"{ORDER}_left"], [updated_cache(name)], axis=0)
    graph = helper.make_graph(
        around.nodes,
        "burst",
        [
            *inputs.values(),
            *(_value(name, TensorProto.INT64) for name in (STEPS, STOP, END)),
            _value(ORDER, TensorProto.INT64, "R"),
            _value(SCORES, TensorProto.DOUBLE, "R", 1),
            _value(ROOM, TensorProto.INT64, "N"),
            _value(FIRST_ROWS, TensorProto.INT64, "N", 1),
            _value(BANS, TensorProto.FLOAT, columns),
        ],
        [
            *_found("", width, "steps_made"),
            *(_of_any_length(inputs[name], updated_cache(name)) for name in caches),
        ],
        around.weights,
    )
    return helper.make_model(graph, opset_imports=decoder.opset_import, ir_version=decoder.ir_version)


class _Nodes:
    """Nodes and weights of one graph, in the order in which they are added."""

    def __init__(self, weights: list[onnx.TensorProto]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights = weights
        self._named: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def add(self, operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        self.nodes.append(helper.make_node(operator, inputs, outputs, **attributes))

    def weight(self, value: NDArray[Any] | np.generic) -> str:
        """Give the name of a constant, the same for the same one."""
        array = np.asarray(value)
        key = (array.dtype.name, array.tobytes(), array.shape)
        if key not in self._named:
            self._named[key] = f"burst_constant_{len(self.weights)}"
            self.weights.append(numpy_helper.from_array(array, self._named[key]))
        return self._named[key]

    def ints(self, *values: int) -> str:
        return self.weight(np.array(values, np.int64))

    def number(self, value: int) -> str:
        return self.weight(np.int64(value))


def _never_changing(
    nodes: list[onnx.NodeProto], changing: set[str]
) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]]:
    """Separate nodes whose results are the same in every step.

    Args:
        nodes: in the order of their computation.
        changing: tensors that differ from step to step.

    Returns:
        Those nodes, and the others.
    """
    fixed, others = [], []
    for node in nodes:
        if changing.isdisjoint(node.input):
            fixed.append(node)
        else:
            others.append(node)
            changing.update(node.output)
    return fixed, others


def _with_bans(nodes: list[onnx.NodeProto], around: _Nodes) -> list[onnx.NodeProto]:
    """Let the bans be part of the scores: where it can be of the product's bias, which costs nothing."""
    (last,) = (node for node in nodes if "logits" in node.output)
    if last.op_type != INTEGER_PRODUCT:
        last.output[0] = "scores_before_bans"
        return [*nodes, helper.make_node("Add", ["scores_before_bans", BANS], ["logits"])]
    inputs = [*last.input, *[""] * (BIAS + 1 - len(last.input))]
    if inputs[BIAS]:
        around.add("Add", [inputs[BIAS], BANS], ["bias_with_bans"])
        inputs[BIAS] = "bias_with_bans"
    else:
        inputs[BIAS] = BANS
    del last.input[:]
    last.input.extend(inputs)
    return nodes


def _rank(nodes: _Nodes, columns: int, best: int) -> None:
    """Find the `best` columns of every row and their log-probabilities: ``found`` and ``gains`` [R, 2K]."""
    block = block_size(columns, best)
    if block == 1:
        nodes.add("TopK", ["logits", nodes.ints(best)], ["best_logits", "found"])
    else:
        blocks, one_row = nodes.ints(0, columns // block, block), nodes.ints(0, best * block)
        wanted, size = nodes.ints(best), nodes.number(block)
        nodes.add("Reshape", ["logits", blocks], ["blocks"])
        nodes.add("ReduceMax", ["blocks", nodes.ints(2)], ["maxima"], keepdims=0)
        nodes.add("TopK", ["maxima", wanted], ["best_maxima", "best_blocks"])
        # Ascending, so that of two equal scores the one in the lower column comes first.
        nodes.add("TopK", ["best_blocks", wanted], ["chosen_blocks", "block_order"], largest=0)
        nodes.add("Unsqueeze", ["chosen_blocks", nodes.ints(2)], ["block_indices"])
        nodes.add("GatherND", ["blocks", "block_indices"], ["few_blocks"], batch_dims=1)
        nodes.add("Reshape", ["few_blocks", one_row], ["few_columns"])
        nodes.add("TopK", ["few_columns", wanted], ["best_logits", "places"])
        nodes.add("Div", ["places", size], ["nth_block"])
        nodes.add("GatherElements", ["chosen_blocks", "nth_block"], ["their_blocks"], axis=1)
        nodes.add("Sub", ["their_blocks", "nth_block"], ["skipped_blocks"])
        nodes.add("Mul", ["skipped_blocks", size], ["skipped_columns"])
        nodes.add("Add", ["places", "skipped_columns"], ["found"])
    nodes.add("LogSoftmax", ["logits"], ["log_probabilities"])
    nodes.add("GatherElements", ["log_probabilities", "found"], ["gains"], axis=1)


def _choose(nodes: _Nodes, width: int) -> None:
    """Find the candidates of every sentence [N, 2K] and choose those that become its beams [N, K]."""
    offers = 2 * width
    by_sentence, wanted = nodes.ints(-1, width * offers), nodes.ints(offers)
    nodes.add("Cast", ["gains"], ["gains_float64"], to=TensorProto.DOUBLE)
    nodes.add("Add", ["gains_float64", "scores_now"], ["totals_by_beam"])
    nodes.add("Reshape", ["totals_by_beam", by_sentence], ["all_totals"])
    nodes.add("TopK", ["all_totals", wanted], ["totals_now", "offers_now"])
    nodes.add("Reshape", ["found", by_sentence], ["all_tokens"])
    nodes.add("GatherElements", ["all_tokens", "offers_now"], ["tokens_now"], axis=1)
    nodes.add("Equal", ["tokens_now", END], ["ends"])
    nodes.add("Cast", ["ends"], ["ends_int64"], to=TensorProto.INT64)
    # The first K that do not end: of equal numbers, here zeros, the first ones are the lowest.
    nodes.add("TopK", ["ends_int64", nodes.ints(width)], ["zeros", "chosen_now"], largest=0)
    for name in ("offers", "tokens", "totals"):
        nodes.add("GatherElements", [f"{name}_now", "chosen_now"], [f"chosen_{name}"], axis=1)


def _go_on(nodes: _Nodes, width: int) -> None:
    """Make the state of the next step, and decide whether there is to be one."""
    first, last = nodes.ints(0), nodes.ints(width)
    nodes.add("Reshape", ["chosen_tokens", nodes.ints(-1, 1)], ["input_ids_after"])
    nodes.add("Reshape", ["chosen_totals", nodes.ints(-1, 1)], ["scores_after"])
    nodes.add("Div", ["chosen_offers", nodes.number(2 * width)], ["parents"])
    nodes.add("Add", ["parents", FIRST_ROWS], ["parent_rows"])
    nodes.add("Reshape", ["parent_rows", nodes.ints(-1)], ["order_after"])
    nodes.add("Slice", ["ends_int64", first, last, nodes.ints(1)], ["ends_of_beams"])
    nodes.add("ReduceSum", ["ends_of_beams", nodes.ints(1)], ["ended"], keepdims=0)
    nodes.add("Sub", ["room_now", "ended"], ["room_after"])
    nodes.add("ReduceMin", ["room_after"], ["least_room"], keepdims=0)
    nodes.add("Greater", ["least_room", nodes.number(0)], ["unfinished"])
    nodes.add("Equal", [STOP, nodes.number(0)], ["undisturbed"])
    nodes.add("And", ["unfinished", "undisturbed"], ["goes_on"])
    nodes.add("ReduceSum", ["gains", nodes.ints(1)], ["sums_now"], keepdims=0)
    nodes.add("Add", ["positions_now", nodes.number(1)], ["positions_after"])
    for name in ("self_lengths", "self_total"):
        nodes.add("Add", [f"{name}_now", nodes.weight(np.int32(1))], [f"{name}_after"])


def _state(inputs: Mapping[str, onnx.ValueInfoProto], when: str) -> list[onnx.ValueInfoProto]:
    """Describe what goes from step to step, but for the caches."""
    return [
        *(described(inputs[name], f"{name}_{when}") for name in _VECTORS),
        _value(f"{ORDER}_{when}", TensorProto.INT64, "R"),
        _value(f"{SCORES}_{when}", TensorProto.DOUBLE, "R", 1),
        _value(f"{ROOM}_{when}", TensorProto.INT64, "N"),
    ]


def _found(suffix: str, width: int, *steps: str) -> list[onnx.ValueInfoProto]:
    """Describe what a step, or each of some steps, found."""
    shape: tuple[int | str, ...] = (*steps, "N", 2 * width)
    return [
        _value(f"{OFFERS}{suffix}", TensorProto.INT64, *shape),
        _value(f"{TOKENS}{suffix}", TensorProto.INT64, *shape),
        _value(f"{TOTALS}{suffix}", TensorProto.DOUBLE, *shape),
        _value(f"{CHOSEN}{suffix}", TensorProto.INT64, *steps, "N", width),
        _value(f"{SUMS}{suffix}", TensorProto.FLOAT, *steps, "R"),
    ]


def _value(name: str, kind: int, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _of_any_length(cache: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    """Describe a cache [R, H, P, D] whose length P is its own."""
    copy = described(cache, name)
    copy.type.tensor_type.shape.dim[2].dim_param = f"{name}_length"
    return copy


def block_size(columns: int, best: int) -> int:
    """Choose how many columns make a block, so that the least has to be searched.

    Args:
        columns: of a row.
        best: columns that are wanted.

    Returns:
        A divisor of `columns`; 1 if there is none with which half of the columns need not be searched.
    """

    def searched(block: int) -> int:
        return columns // block + best * block

    fitting = [block for block in range(1, columns // best + 1) if columns % block == 0]
    block = min(fitting, key=searched, default=1)
    return block if 2 * searched(block) < columns else 1
