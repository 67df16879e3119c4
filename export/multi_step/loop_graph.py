"""What the multi-step graphs are made of: the nodes of a decoder in a ``Loop``, and nodes around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from export.graph.products import BIAS, INTEGER_PRODUCT

STEPS, STOP, END, BANS = "steps", "stop", "end_id", "bans"
"""Inputs of both graphs: int64 [], int64 [], int64 [], float32 [V]."""

VECTORS = ("input_ids", "positions", "self_lengths", "self_total")
"""Inputs of a decoder that differ from step to step, beside its self-attention caches."""

UNIT = "unit_scale"
"""Weight 1, float32 [], of products whose scales are multiplied behind them."""


class Nodes:
    """Nodes and weights of one graph, in the order in which they are added."""

    def __init__(self, weights: list[onnx.TensorProto]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights = weights
        self._named: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def add(self, operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        """Add a node."""
        self.nodes.append(helper.make_node(operator, inputs, outputs, **attributes))

    def weight(self, value: NDArray[Any] | np.generic) -> str:
        """Give the name of a constant, the same for the same one."""
        array = np.asarray(value)
        key = (array.dtype.name, array.tobytes(), array.shape)
        if key not in self._named:
            self._named[key] = f"multi_step_constant_{len(self.weights)}"
            self.weights.append(numpy_helper.from_array(array, self._named[key]))
        return self._named[key]

    def ints(self, *values: int) -> str:
        """Give the name of a vector of int64."""
        return self.weight(np.array(values, np.int64))

    def number(self, value: int) -> str:
        """Give the name of an int64."""
        return self.weight(np.int64(value))


def self_caches(decoder: onnx.GraphProto) -> list[str]:
    """Give the names of a decoder's self-attention caches, or states, which go from step to step."""
    kinds = ("self_key_", "self_value_", "self_state_")
    return [entry.name for entry in decoder.input if entry.name.startswith(kinds)]


def vocabulary_size(decoder: onnx.GraphProto) -> int:
    """Give the columns of a decoder's scores."""
    logits = next(entry for entry in decoder.output if entry.name == "logits")
    return int(logits.type.tensor_type.shape.dim[-1].dim_value)


def go_on_unless_stopped(nodes: Nodes) -> None:
    """Let there be another step, ``goes_on``, if ``unfinished`` says so and nobody wants to stop."""
    nodes.add("Equal", [STOP, nodes.number(0)], ["undisturbed"])
    nodes.add("And", ["unfinished", "undisturbed"], ["goes_on"])


def next_position(nodes: Nodes) -> None:
    """Count the position that a step has written."""
    nodes.add("Add", ["positions_now", nodes.number(1)], ["positions_after"])
    for name in ("self_lengths", "self_total"):
        nodes.add("Add", [f"{name}_now", nodes.weight(np.int32(1))], [f"{name}_after"])


def never_changing(
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


def with_bans(nodes: list[onnx.NodeProto], around: Nodes) -> list[onnx.NodeProto]:
    """Let the bans be part of the scores: where it can be of a bias, which costs nothing.

    A product whose sums are multiplied by scales behind it has them as its bias: 0 is 0 and minus infinity is
    minus infinity, whatever they are multiplied by.

    Args:
        nodes: of a step, changed.
        around: nodes before the loop, and weights; one may be added.

    Returns:
        The nodes.
    """
    makers = {output: node for node in nodes for output in node.output}
    last = makers["logits"]
    if last.op_type == "Mul" and UNIT in (before := makers.get(last.input[0], last)).input:
        last = before
    if last.op_type == INTEGER_PRODUCT:
        last.input.extend([""] * (BIAS + 1 - len(last.input)))
        where = BIAS
    elif last.op_type == "Add" and _is_vector(last.input[1], around):
        where = 1
    else:
        makers["logits"].output[0] = "scores_before_bans"
        return [*nodes, helper.make_node("Add", ["scores_before_bans", BANS], ["logits"])]
    if last.input[where]:
        around.add("Add", [last.input[where], BANS], ["bias_with_bans"])
    last.input[where] = "bias_with_bans" if last.input[where] else BANS
    return nodes


def _is_vector(name: str, around: Nodes) -> bool:
    return any(tensor.name == name and len(tensor.dims) == 1 for tensor in around.weights)


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


def value(name: str, kind: int, *shape: int | str) -> onnx.ValueInfoProto:
    """Describe a tensor."""
    return helper.make_tensor_value_info(name, kind, shape)


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
