"""A model of random weights for tests of graphs, small enough to calibrate in a second."""

from dataclasses import dataclass

import numpy as np
import onnx
import torch

from export.graph.beam_width import EXPORTED_WIDTH, with_beam_width
from export.graph.onnx_export import export_decoder, export_encoder
from export.int8.calibration import CalibratedRanges, calibrate
from model.config import TransformerConfig
from model.transformer import Transformer

IDS = {"start_id": 2, "eos_id": 3, "pad_id": 0}
SOURCES = [[5, 9, 17, 8, 3], [7, 3], [20, 21, 22, 23, 24, 25, 26, 27, 3], [4, 4, 4, 3]]
TARGETS = [[6, 7, 8, 9], [30], [11, 12], [13, 14, 15]]
SAMPLE = [[*np.random.default_rng(i).integers(4, 40, 2 + i % 9).tolist(), 3] for i in range(120)]


@dataclass(frozen=True)
class SmallModel:
    """Its fp32 graphs, decoders by beam width, and what they showed of `SAMPLE`."""

    encoder: onnx.ModelProto
    decoders: dict[int, onnx.ModelProto]
    ranges: CalibratedRanges


def small_model() -> SmallModel:
    """Export a model of 1+2 layers of 32 and 40 words."""
    torch.manual_seed(0)
    config = TransformerConfig(
        source_vocab_size=40, target_vocab_size=40, d_model=32, encoder_layers=1, decoder_layers=2
    )
    model = Transformer(config).eval()
    encoder, beams = export_encoder(model), export_decoder(model, EXPORTED_WIDTH)
    decoders = {1: with_beam_width(beams, 1), EXPORTED_WIDTH: beams}
    return SmallModel(encoder, decoders, calibrate(encoder, decoders[1], SAMPLE, "minmax", **IDS))
