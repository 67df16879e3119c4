"""The graphs of one model in one precision, while an export is going on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import onnx
import torch

from export.graph.beam_width import EXPORTED_WIDTH, with_beam_width
from export.graph.large_weights import write_graph
from export.graph.onnx_export import export_decoder, export_encoder
from export.graph.runner import Decoded
from model.transformer import Transformer


@dataclass
class GraphSet:
    """An encoder and its decoders.

    Attributes:
        encoder: graph.
        beams: decoder of `EXPORTED_WIDTH`, that those of all widths are made of.
        folder: of the files that their large weights are in.
        weight_bits: of int8.
        results: greedy translations of the gates' text, once they are made.
    """

    encoder: onnx.ModelProto
    beams: onnx.ModelProto
    folder: Path
    weight_bits: int | None = None
    results: list[Decoded] = field(default_factory=list)

    def decoder(self, width: int) -> onnx.ModelProto:
        """Give the decoder of a beam width."""
        return with_beam_width(self.beams, width)

    def write(self) -> tuple[Path, Path]:
        """Write the encoder and the decoder of width 1, for sessions."""
        encoder = write_graph(self.encoder, self.folder / "encoder.onnx")
        return encoder, write_graph(self.decoder(1), self.folder / "decoder.onnx")


def export_graphs(model: Transformer, dtype: torch.dtype, folder: Path) -> GraphSet:
    """Export a model.

    Args:
        model: the trained model; it is not changed.
        dtype: float32, or float16 for CUDA.
        folder: for the files of large weights.
    """
    kind = str(dtype).rpartition(".")[2]
    encoder = export_encoder(model, dtype, folder / f"{kind}.encoder.weights")
    beams = export_decoder(model, EXPORTED_WIDTH, dtype, folder / f"{kind}.decoder.weights")
    return GraphSet(encoder, beams, folder)
