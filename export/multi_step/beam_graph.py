"""The multi-step graph of beam search: several steps of a few sentences in one run of ONNX Runtime.

Between two steps of a beam search there is a second run, which ranks the scores, and some twenty calls of
numpy: half of a step of one sentence with a small decoder. Here the whole int8 decoder of one beam width is
the body of a ``Loop`` that makes the step of `server.engine.search.beam` itself: of each beam the 2K best
words, of those the 2K best candidates of each sentence, of those the K best that do not end as its beams.
What the candidates were is an output, so that the caller can look for the hypotheses that ended.

**Caches.** Every step puts the caches in the order of the beams and copies them, as a loop cannot write in
place. So they are as long as what is in them, and grow by a position with every step.

**Ranking.** As in `server.runtime.onnx.top_k_ranker`, where it is explained: only the 2K blocks of columns
with the largest maxima are searched.

No id is in the graph: what ends a sentence and what is never written comes at run time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from export.graph.cache_names import updated_cache
from export.multi_step.loop_graph import (
    BANS,
    END,
    STEPS,
    STOP,
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

ORDER, SCORES, ROOM, FIRST_ROWS = "order", "scores", "room", "first_rows"
"""Inputs int64 [R], float64 [R, 1], int64 [N], int64 [N, 1], beside those of `greedy_multi_step_graph`."""

OFFERS, TOKENS, TOTALS, CHOSEN, SUMS = "offers", "tokens", "totals", "chosen", "sums"
"""Outputs int64, int64, float64 [M, N, 2K], int64 [M, N, K], float32 [M, R]."""


def beam_multi_step_graph(decoder: onnx.ModelProto, width: int) -> onnx.ModelProto:
    """Make the multi-step graph of beam search.

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
    caches = self_caches(decoder.graph)
    columns = vocabulary_size(decoder.graph)
    around = Nodes(list(decoder.graph.initializer))
    body = _step(decoder.graph, around, width)
    _start(around, inputs, caches)
    state = ["input_ids_in_order", *VECTORS[1:], ORDER, SCORES, ROOM, *(f"{name}_filled" for name in caches)]
    left = [f"{name}_left" for name in (*VECTORS, ORDER, SCORES, ROOM, *caches)]
    going = around.weight(np.bool_(True))
    around.add(
        "Loop",
        [STEPS, going, *state],
        [*left, OFFERS, TOKENS, TOTALS, CHOSEN, SUMS],
        name="multi_step",
        body=body,
    )
    for name in caches:
        around.add("Gather", [f"{name}_left", f"{ORDER}_left"], [updated_cache(name)], axis=0)
    graph = helper.make_graph(
        around.nodes,
        "multi_step",
        [
            *inputs.values(),
            *(value(name, TensorProto.INT64) for name in (STEPS, STOP, END)),
            value(ORDER, TensorProto.INT64, "R"),
            value(SCORES, TensorProto.DOUBLE, "R", 1),
            value(ROOM, TensorProto.INT64, "N"),
            value(FIRST_ROWS, TensorProto.INT64, "N", 1),
            value(BANS, TensorProto.FLOAT, columns),
        ],
        [
            *_found("", width, "steps_made"),
            *(_of_any_length(inputs[name], updated_cache(name)) for name in caches),
        ],
        around.weights,
    )
    return helper.make_model(graph, opset_imports=decoder.opset_import, ir_version=decoder.ir_version)


def _step(decoder: onnx.GraphProto, around: Nodes, width: int) -> onnx.GraphProto:
    """Make the body of the loop, one step; what is the same in every step goes ``around`` it."""
    inputs, caches = {entry.name: entry for entry in decoder.input}, self_caches(decoder)
    nodes = Nodes(around.weights)
    for name in caches:
        nodes.add("Gather", [f"{name}_before", "order_now"], [f"{name}_now"], axis=0)
    inside = {name: f"{name}_now" for name in (*VECTORS, *caches)}
    renamed = renamed_nodes(decoder.node, inside | {updated_cache(name): f"{name}_after" for name in caches})
    around.nodes, each = never_changing(renamed, {*inside.values()})
    nodes.nodes += with_bans(each, around)
    _rank(nodes, vocabulary_size(decoder), 2 * width)
    _choose(nodes, width)
    _go_on(nodes, width)
    return helper.make_graph(
        nodes.nodes,
        "step",
        [
            value("step", TensorProto.INT64),
            value("going_on", TensorProto.BOOL),
            *_state(inputs, "now"),
            *(_of_any_length(inputs[name], f"{name}_before") for name in caches),
        ],
        [
            value("goes_on", TensorProto.BOOL),
            *_state(inputs, "after"),
            *(_of_any_length(inputs[name], f"{name}_after") for name in caches),
            *_found("_now", width),
        ],
    )


def _start(around: Nodes, inputs: Mapping[str, onnx.ValueInfoProto], caches: list[str]) -> None:
    """Put tokens in the order of the beams and cut the caches to what is in them, for the first step."""
    around.add("Gather", ["input_ids", ORDER], ["input_ids_in_order"], axis=0)
    around.add("Sub", ["self_total", around.weight(np.int32(1))], ["filled_int32"])
    around.add("Cast", ["filled_int32"], ["filled_scalar"], to=TensorProto.INT64)
    around.add("Reshape", ["filled_scalar", around.ints(1)], ["filled"])
    for name in caches:
        if _is_state(inputs[name]):
            around.add("Identity", [name], [f"{name}_filled"])
        else:
            around.add("Slice", [name, around.ints(0), "filled", around.ints(2)], [f"{name}_filled"])


def _rank(nodes: Nodes, columns: int, best: int) -> None:
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


def _choose(nodes: Nodes, width: int) -> None:
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
    nodes.add("TopK", ["ends_int64", nodes.ints(width)], ["not_ending", "chosen_now"], largest=0)
    for name in ("offers", "tokens", "totals"):
        nodes.add("GatherElements", [f"{name}_now", "chosen_now"], [f"chosen_{name}"], axis=1)


def _go_on(nodes: Nodes, width: int) -> None:
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
    go_on_unless_stopped(nodes)
    nodes.add("ReduceSum", ["gains", nodes.ints(1)], ["sums_now"], keepdims=0)
    next_position(nodes)


def _state(inputs: Mapping[str, onnx.ValueInfoProto], when: str) -> list[onnx.ValueInfoProto]:
    """Describe what goes from step to step, but for the caches."""
    return [
        *(described(inputs[name], f"{name}_{when}") for name in VECTORS),
        value(f"{ORDER}_{when}", TensorProto.INT64, "R"),
        value(f"{SCORES}_{when}", TensorProto.DOUBLE, "R", 1),
        value(f"{ROOM}_{when}", TensorProto.INT64, "N"),
    ]


def _found(suffix: str, width: int, *steps: str) -> list[onnx.ValueInfoProto]:
    """Describe what a step, or each of some steps, found."""
    shape: tuple[int | str, ...] = (*steps, "N", 2 * width)
    return [
        value(f"{OFFERS}{suffix}", TensorProto.INT64, *shape),
        value(f"{TOKENS}{suffix}", TensorProto.INT64, *shape),
        value(f"{TOTALS}{suffix}", TensorProto.DOUBLE, *shape),
        value(f"{CHOSEN}{suffix}", TensorProto.INT64, *steps, "N", width),
        value(f"{SUMS}{suffix}", TensorProto.FLOAT, *steps, "R"),
    ]


def _of_any_length(cache: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    """Describe a cache [R, H, P, D] whose length P is its own; a state has one position anyway."""
    copy = described(cache, name)
    if _is_state(cache):
        return copy
    copy.type.tensor_type.shape.dim[2].dim_param = f"{name}_length"
    return copy


def _is_state(cache: onnx.ValueInfoProto) -> bool:
    return cache.name.startswith("self_state_")
