"""Makes the decoder graph of one beam width of another's: the same nodes, some numbers differ.

Exporting takes seconds for each layer, and what is exported holds all weights once more.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

EXPORTED_WIDTH = 2
"""Width of the graph that all wider ones are made of. That of width 1 has fewer nodes."""


def with_beam_width(decoder: onnx.ModelProto, width: int) -> onnx.ModelProto:
    """Copy a decoder for another beam width.

    Only cross-attention knows of beams: those of a sentence are query heads over one key and value. Rows
    [N*K, 1, H*D] become [N, 1, K*H*D] by a reshape, a transpose and a reshape, and the context returns the
    same way.

    Args:
        decoder: of `EXPORTED_WIDTH`, fp32, fp16 or int8; not changed.
        width: K, at least 2.
    """
    result = onnx.ModelProto()
    result.CopyFrom(decoder)
    graph = result.graph
    producers = {name: node for node in graph.node for name in node.output}
    readers = {name: node for node in graph.node for name in node.input}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    shapes: dict[str, list[int]] = {}
    replaced: set[str] = set()
    reshaped: set[str] = set()
    for attention in graph.node:
        numbers = {attribute.name: attribute for attribute in attention.attribute}
        if attention.op_type != "GroupQueryAttention" or numbers["num_heads"].i == numbers["kv_num_heads"].i:
            continue
        heads = numbers["kv_num_heads"].i
        numbers["num_heads"].i = heads * width
        folded = producers[attention.input[0]]
        turned = producers[folded.input[0]]
        by_beam, by_head = producers[turned.input[0]], readers[attention.output[0]]
        size = int(numpy_helper.to_array(constants[by_beam.input[1]])[-1])
        for node, shape in (
            (by_beam, [-1, width, heads, size]),
            (folded, [-1, 1, width * heads * size]),
            (by_head, [-1, heads, width, size]),
        ):
            assert node.op_type == "Reshape", node.op_type
            replaced.add(node.input[1])
            node.input[1] = "beams." + "x".join(map(str, shape[1:]))
            shapes[node.input[1]] = shape
        around = (by_beam, turned, folded, attention, by_head, readers[by_head.output[0]])
        reshaped |= {node.output[0] for node in around}
    read = {name for node in graph.node for name in node.input}
    for name in replaced - read:
        graph.initializer.remove(constants[name])
    for name, shape in shapes.items():
        graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), name))
    for value in [value for value in graph.value_info if value.name in reshaped | replaced]:
        graph.value_info.remove(value)
    for value in (*graph.input, *graph.output, *graph.value_info):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param:  # to set it clears a number
                axis.dim_param = axis.dim_param.replace(f"{EXPORTED_WIDTH}*", f"{width}*")
    return result
