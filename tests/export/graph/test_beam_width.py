"""The decoder of one beam width, made of another's, is the one that the exporter would have made."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
from onnx import numpy_helper

from export.graph.beam_width import with_beam_width
from export.graph.onnx_export import export_decoder
from export.int8.quantize import quantize_graph
from model.transformer import Transformer
from tests.export.small_model import small_model
from tests.support.factories import tiny_config


def structure(model: onnx.ModelProto) -> list[tuple[Any, ...]]:
    """The nodes of a graph; names are numbered as they appear, constants are their values."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    numbers: dict[str, int] = {}

    def identity(name: str) -> Any:
        if name in constants:
            return constants[name].shape, constants[name].tobytes()
        return numbers.setdefault(name, len(numbers))

    return [
        (
            node.op_type,
            list(map(identity, node.input)),
            list(map(identity, node.output)),
            sorted(attribute.SerializeToString() for attribute in node.attribute),
        )
        for node in model.graph.node
    ]


def interface(model: onnx.ModelProto) -> list[tuple[str, str]]:
    return [(value.name, str(value.type)) for value in (*model.graph.input, *model.graph.output)]


def types(model: onnx.ModelProto) -> list[str | None]:
    """What is known of every node's output, in order."""
    known = {value.name: str(value.type) for value in model.graph.value_info}
    return [known.get(name) for node in model.graph.node for name in node.output]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("mixer", ["attention", "ssru"])
def test_it_is_what_the_exporter_makes(dtype: torch.dtype, mixer: str) -> None:
    # Two heads and a width of two share constants in the graph that is changed.
    model = Transformer(tiny_config(40, decoder_mixer=mixer, decoder_heads=2)).eval()
    exported = export_decoder(model, 2, dtype)
    before = exported.SerializeToString(deterministic=True)
    for width in (1, 5):
        made, wanted = with_beam_width(exported, width), export_decoder(model, width, dtype)
        assert structure(made) == structure(wanted)
        assert interface(made) == interface(wanted)
        assert width > 1 or types(made) == types(wanted)
    assert exported.SerializeToString(deterministic=True) == before, "the original was changed"
    assert structure(with_beam_width(exported, 2)) == structure(exported)


def test_it_is_the_same_before_and_after_int8() -> None:
    small = small_model()

    def quantized(decoder: onnx.ModelProto) -> onnx.ModelProto:
        return quantize_graph(decoder, small.ranges.decoder, 7, small.ranges.caches)

    for width in (1, 3):
        after = with_beam_width(quantized(small.decoders[2]), width)
        before = with_beam_width(small.decoders[2], width)
        assert structure(after) == structure(quantized(before))
        names = {tensor.name for tensor in after.graph.initializer}
        assert {name for name in names if name.endswith(".unit")}, "what only recovery reads is kept"
