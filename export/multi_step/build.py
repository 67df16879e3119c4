"""The graphs of bursts of one bundle: made of its decoders, kept if they do what the decoders do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx

from export.assemble import burst_file
from export.graph.runner import GraphRunner, Tokens, open_session
from export.multi_step.beam_graph import beam_burst_graph
from export.multi_step.greedy_graph import burst_graph
from export.quality_gates import is_same_in_bursts

_SENTENCES_OF_BEAMS = 4


def burst_graphs(decoders: Mapping[int, onnx.ModelProto]) -> dict[int, onnx.ModelProto]:
    """Make the graph of a burst of every int8 decoder, by beam width."""
    return {
        width: burst_graph(decoder) if width == 1 else beam_burst_graph(decoder, width)
        for width, decoder in decoders.items()
    }


def check_burst(
    directory: Path,
    runner: GraphRunner,
    width: int,
    sources: Sequence[Tokens],
    steps: Sequence[int],
    report: Callable[[str], None],
) -> None:
    """Remove the graph of a burst that does not do what single steps do, which then have to do.

    Args:
        directory: where it is, if there is one.
        runner: of the decoder of this beam width.
        width: beams K.
        sources: sentences.
        steps: of each.
        report: takes one line.
    """
    file = directory / burst_file(width)
    if not file.is_file():
        return
    burst = open_session(file)
    if width == 1:
        same = is_same_in_bursts(runner, burst, sources, steps)
    else:
        same = runner.agrees_in_beams(sources[:_SENTENCES_OF_BEAMS], max(steps), burst)
    report(f"beam width {width}: several steps in one run are the same: {'yes' if same else 'no'}")
    if not same:
        file.unlink()
