"""Makes the decoder graph of one beam width of another's: the same nodes, some numbers differ.

Exporting takes seconds for each layer, and what is exported holds all weights once more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

EXPORTED_WIDTH = 2
"""Width of the graph that all others are made of. That of width 1 has fewer nodes."""


class _Cross(NamedTuple):
    """Cross-attention, and how its rows become one of each sentence and return.

    Rows [N*K, 1, H*D] become [N, 1, K*H*D] by a reshape, a transpose and a reshape, and the context returns
    the same way.
    """

    by_beam: NodeProto
    turned: NodeProto
    folded: NodeProto
    attention: NodeProto
    by_head: NodeProto
    turned_back: NodeProto
    unfolded: NodeProto


def with_beam_width(decoder: onnx.ModelProto, width: int) -> onnx.ModelProto:
    """Copy a decoder for another beam width.

    Only cross-attention knows of beams: those of a sentence are query heads over one key and value. Of one
    beam there is nothing to fold.

    Args:
        decoder: of `EXPORTED_WIDTH`, fp32, fp16 or int8; not changed.
        width: K.
    """
    result = onnx.ModelProto()
    result.CopyFrom(decoder)
    graph = result.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    shapes: dict[str, list[int]] = {}
    outdated: set[str] = set()
    for cross in _cross_attentions(graph):
        assert all(node.op_type == "Reshape" for node in (cross.by_beam, cross.folded, cross.by_head))
        numbers = {attribute.name: attribute for attribute in cross.attention.attribute}
        heads = numbers["kv_num_heads"].i
        numbers["num_heads"].i = heads * width
        size = int(numpy_helper.to_array(constants[cross.by_beam.input[1]])[-1])
        outdated |= {node.output[0] for node in cross[:-1]}
        outdated |= {node.input[1] for node in (cross.by_beam, cross.folded, cross.by_head, cross.unfolded)}
        if width == 1:
            _leave_out(graph, cross)
            continue
        for node, shape in (
            (cross.by_beam, [-1, width, heads, size]),
            (cross.folded, [-1, 1, width * heads * size]),
            (cross.by_head, [-1, heads, width, size]),
        ):
            node.input[1] = "beams." + "x".join(map(str, shape[1:]))
            shapes[node.input[1]] = shape
    read = {name for node in graph.node for name in node.input}
    for name in outdated & constants.keys() - read:
        graph.initializer.remove(constants[name])
    for name, shape in shapes.items():
        graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), name))
    for value in [value for value in graph.value_info if value.name in outdated]:
        graph.value_info.remove(value)
    for value in (*graph.input, *graph.output, *graph.value_info):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param:  # to set it clears a number
                rows = f"{width}*" if width > 1 else ""
                axis.dim_param = axis.dim_param.replace(f"{EXPORTED_WIDTH}*", rows)
    return result


def _cross_attentions(graph: onnx.GraphProto) -> list[_Cross]:
    producers = {name: node for node in graph.node for name in node.output}
    readers = {name: node for node in graph.node for name in node.input}
    found = []
    for attention in graph.node:
        numbers = {attribute.name: attribute.i for attribute in attention.attribute}
        if attention.op_type != "GroupQueryAttention" or numbers["num_heads"] == numbers["kv_num_heads"]:
            continue
        folded = producers[attention.input[0]]
        turned = producers[folded.input[0]]
        by_head = readers[attention.output[0]]
        turned_back = readers[by_head.output[0]]
        unfolded = readers[turned_back.output[0]]
        by_beam = producers[turned.input[0]]
        found.append(_Cross(by_beam, turned, folded, attention, by_head, turned_back, unfolded))
    return found


def _leave_out(graph: onnx.GraphProto, cross: _Cross) -> None:
    """Let attention be asked for the rows as they are."""
    around = {node.output[0] for node in cross if node is not cross.attention}
    cross.attention.input[0] = cross.by_beam.input[0]
    cross.attention.output[0] = cross.unfolded.output[0]
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        if node.op_type in ("Reshape", "Transpose") and node.output[0] in around:
            del graph.node[index]
