"""Quantizes all graphs of a model with the ranges that a sample showed."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from export.graph.graph_set import GraphSet
from export.graph.large_weights import move_out
from export.int8.calibration import CalibratedRanges
from export.int8.quantize import ActivationRange, quantize_graph


def quantize_graphs(full: GraphSet, ranges: CalibratedRanges, bits: int) -> GraphSet:
    """Make the int8 graphs of fp32 ones; large weights go to further files of the same folder.

    Args:
        full: in fp32.
        ranges: of the encoder's products and of the decoder's.
        bits: of weights, 7 or 8.
    """

    def quantized(name: str, graph: onnx.ModelProto, found: Sequence[ActivationRange]) -> onnx.ModelProto:
        made = quantize_graph(graph, found, bits, ranges.caches, full.folder)
        move_out(made, full.folder / f"int{bits}.{name}.weights")
        return made

    return GraphSet(
        quantized("encoder", full.encoder, ranges.encoder),
        quantized("decoder", full.beams, ranges.decoder),
        full.folder,
        bits,
    )
